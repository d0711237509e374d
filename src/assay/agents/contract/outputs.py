"""From the outputs of a contract agent to ranked document ids, and an answer where there is one."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from assay.agents.protocol import AgentAnswer, AgentFailure, FailureKind
from assay.contract.chunk_ids import split_chunk_id
from assay.contract.envelope import AgentRunResponse
from assay.data.dataset import Document

_DOCUMENT_KEYS = ("doc_id", "docId", "document_id", "documentId")
_CHUNK_KEYS = ("chunk_id", "chunkId", "id")
_PAPER_KEYS = (*_DOCUMENT_KEYS, "id", "pmid", "doi", "url")
_ANSWER_KEYS = ("answer", "generated_answer", "response")
_PMID = re.compile(r"pubmed(?:\.ncbi\.nlm\.nih\.gov)?/(\d{1,9})")


class OutputReader:
    """`documents` are what the ids should be ids of."""

    def __init__(self, documents: Iterable[Document] = ()) -> None:
        self._known: set[str] = set()
        self._by_pmid: dict[str, str] = {}
        for document in documents:
            self._known.add(document.id)
            if match := _PMID.search(str(document.metadata.get("url", ""))):
                self._by_pmid[match[1]] = document.id

    def read(self, response: AgentRunResponse) -> AgentAnswer:
        outputs = response.outputs
        chunks = _chunks(response)
        papers = _objects(outputs.get("papers"))
        if chunks is None and papers is None:
            message = "outputs hold neither chunks nor papers, and there is no grounding"
            raise AgentFailure(FailureKind.INVALID_ANSWER, message)
        found = [self._document_of(chunk) for chunk in chunks or ()]
        found += [self._paper_id(each) for each in papers or ()]
        doc_ids = tuple(dict.fromkeys(each for each in found if each))
        if (chunks or papers) and not doc_ids:
            message = "no chunk or paper in outputs says which document it is of"
            raise AgentFailure(FailureKind.INVALID_ANSWER, message)
        return AgentAnswer(doc_ids, _answer(outputs), self._citations(response, chunks or ()))

    def _document_of(self, chunk: Mapping[str, Any]) -> str | None:
        named = _first(chunk, _DOCUMENT_KEYS)
        if named is not None:
            return named
        chunk_id = _first(chunk, _CHUNK_KEYS)
        return None if chunk_id is None else split_chunk_id(chunk_id)[0]

    def _paper_id(self, paper: Mapping[str, Any]) -> str | None:
        """The one of its ids that the data set knows, else the first."""
        ids = [text for key in _PAPER_KEYS if (text := _first(paper, (key,))) is not None]
        for each in ids:
            match = _PMID.search(each)
            for candidate in (each, self._by_pmid.get(match[1] if match else each)):
                if candidate in self._known:
                    return candidate
        return ids[0] if ids else None

    def _citations(
        self, response: AgentRunResponse, chunks: Sequence[Mapping[str, Any]]
    ) -> tuple[str, ...]:
        """As document ids, whether the agent cites documents or chunks of them."""
        if _answer(response.outputs) is None:
            return ()
        owners = {_first(chunk, _CHUNK_KEYS): self._document_of(chunk) for chunk in chunks}
        cited = response.outputs.get("citations")
        if not isinstance(cited, list):
            cited = response.grounding.citations if response.grounding else []
        ids = [
            _first(each, (*_DOCUMENT_KEYS, *_CHUNK_KEYS)) if isinstance(each, dict) else each
            for each in cited
        ]
        texts = [each for each in ids if isinstance(each, str)]
        return tuple(dict.fromkeys(owners.get(each) or self._owner(each) for each in texts))

    def _owner(self, cited: str) -> str:
        return cited if cited in self._known else split_chunk_id(cited)[0]


def _chunks(response: AgentRunResponse) -> list[dict[str, Any]] | None:
    pack = response.outputs.get("groundingPack")
    packed = pack.get("chunks") if isinstance(pack, dict) else None
    for found in (_objects(response.outputs.get("chunks")), _objects(packed)):
        if found is not None:
            return found
    if response.grounding is not None:
        return [chunk.model_dump() for chunk in response.grounding.chunks]
    return None


def _objects(value: Any) -> list[dict[str, Any]] | None:
    if not isinstance(value, list):
        return None
    return [each for each in value if isinstance(each, dict)]


def _first(source: Mapping[str, Any], keys: Iterable[str]) -> str | None:
    for key in keys:
        value = source.get(key)
        if isinstance(value, str | int) and not isinstance(value, bool) and str(value):
            return str(value)
    return None


def _answer(outputs: Mapping[str, Any]) -> str | None:
    for key in _ANSWER_KEYS:
        if isinstance(outputs.get(key), str):
            return str(outputs[key])
    return None
