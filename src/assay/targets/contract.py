"""Targets `http:URL=TASK[#stream]`: agents that keep the HTTP agent contract.

Instead of an address there may be a name from AGENT_ENDPOINTS_JSON.
"""

import re
import uuid
from collections.abc import Iterable, Sequence
from typing import Any

from assay.contract.client import read_endpoints, resolve_agent, run_stream, run_sync
from assay.contract.envelope import AgentRunRequest, AgentRunResponse, ErrorCode, split_chunk_id
from assay.errors import AgentFailure, FailureKind, UsageError
from assay.net.json import JsonObject
from assay.net.redact import quote
from assay.targets.answer_reader import read_answer
from assay.targets.http_agent import HttpAgent, ready_url
from assay.targets.protocol import CURRENT_SEARCH, AgentAnswer, AgentInfo, invalid_answer
from assay.targets.target_kinds import CONTRACT_TARGET, OpenContext, Target, redact_target

_RANKS_NOTHING = frozenset({"RAG_INGEST", "POLICY_REVIEW", "CLAIM_VERIFY"})

_DOCUMENT_KEYS = ("doc_id", "docId", "document_id", "documentId")
_CHUNK_KEYS = ("chunk_id", "chunkId", "id")
_PAPER_KEYS = (*_DOCUMENT_KEYS, "id", "pmid", "doi", "url")
_ANSWERS = ("answer", "generated_answer", "response")
_PMID = re.compile(r"pubmed(?:\.ncbi\.nlm\.nih\.gov)?/(\d{1,9})")


def _chunks(response: AgentRunResponse) -> list[Any] | None:
    pack = response.outputs.get("groundingPack")
    for holder in (response.outputs, pack):
        if isinstance(holder, dict) and isinstance(holder.get("chunks"), list):
            return list(holder["chunks"])
    grounding = response.grounding
    return None if grounding is None else [chunk.model_dump() for chunk in grounding.chunks]


def _document_of(chunk: Any) -> str | None:
    named, chunk_id = _first(chunk, _DOCUMENT_KEYS), _first(chunk, _CHUNK_KEYS)
    return named if named is not None or chunk_id is None else split_chunk_id(chunk_id)[0]


def _first(source: Any, keys: Iterable[str]) -> str | None:
    for key in keys if isinstance(source, dict) else ():
        value = source.get(key)
        if isinstance(value, str | int) and not isinstance(value, bool) and str(value):
            return str(value)
    return None


class ContractAgent(HttpAgent):
    """An agent behind `http:URL=TASK` or `http:NAME=TASK`, a name in AGENT_ENDPOINTS_JSON."""

    def __init__(self, target: Target, context: OpenContext) -> None:
        match = CONTRACT_TARGET.fullmatch(str(target))
        if match is None:
            raise UsageError(
                f"target 'http:{target.address}' names no task; write http:URL=TASK, for instance "
                "http:http://localhost:8000=RAG_RETRIEVE"
            )
        self._task = match["task"]
        if self._task in _RANKS_NOTHING:
            raise UsageError(
                f"{self._task} returns no documents, so there is nothing to measure; use a task "
                "such as RAG_RETRIEVE, RAG_ANSWER or LIT_RETRIEVAL"
            )
        self._run = run_stream if match["way"] else run_sync
        self._base = resolve_agent(match["url"] or match["agent"], read_endpoints())
        self.policy = context.policy
        self._documents = context.dataset.documents
        self._by_pmid = {
            match[1]: document.id
            for document in self._documents.values()
            if (match := _PMID.search(str(document.metadata.get("url", ""))))
        }
        self.ready_url = ready_url(self._base)
        self.info = AgentInfo(redact_target(str(target)), protocol="http", track=context.track)

    async def open(self) -> None:
        await self.connect(self._base)
        await self.require_listener(f"{self._base}/health")

    async def ask(self, query: str, top_k: int) -> AgentAnswer:
        # Both dialects at once: an agent ignores what it does not know.
        inputs: JsonObject = {"query": query, "topK": top_k, "query_text": query, "top_k": top_k}
        if self._task == "LIT_RETRIEVAL":
            inputs = {"query": query[:1000], "max_results": top_k}
        if (search := CURRENT_SEARCH.get()) and search.search_url:
            inputs["search_url"] = search.search_url
        request = AgentRunRequest(
            request_id=f"assay-{uuid.uuid4().hex}", task_type=self._task, inputs=inputs
        )
        response = await self._run(self.http, self._base, request)
        if response.ok:
            return self._read(response)
        # By its code: the agent's own message may repeat the query.
        code = response.error.code if response.error else ""
        known = code if code in set(ErrorCode) else "unknown code"
        raise AgentFailure(
            FailureKind.AGENT_ERROR,
            f"the run ended with an error ({known})",
            # The status that the contract has for it, also where it comes in a stream.
            status=503 if code == ErrorCode.OVERLOADED else None,
            said=quote(response.error.message) if response.error else "",
        )

    def _read(self, response: AgentRunResponse) -> AgentAnswer:
        """The plain form of the outputs. Raises `AgentFailure` if they have no documents."""
        outputs = response.outputs
        chunks, papers = _chunks(response), outputs.get("papers")
        if chunks is None and not isinstance(papers, list):
            raise invalid_answer(
                "outputs have neither chunks nor papers, and there is no grounding"
            )
        found = [_document_of(chunk) for chunk in chunks or ()]
        found += map(self._paper_id, papers if isinstance(papers, list) else ())
        if None in found:
            place = found.index(None) + 1
            raise invalid_answer(f"chunk or paper {place} in outputs does not name its document")
        answer = next((outputs[x] for x in _ANSWERS if isinstance(outputs.get(x), str)), None)
        plain = {"doc_ids": list(dict.fromkeys(found)), "answer": answer}
        plain |= {"steps": outputs.get("steps"), "usage": response.usage.model_dump()}
        if answer is not None:
            plain["citations"] = self._citations(response, chunks or ())
        return read_answer(plain)

    def _paper_id(self, paper: Any) -> str | None:
        """The id that the data set has, also by its PubMed id; else the first."""
        ids = [text for key in _PAPER_KEYS if (text := _first(paper, (key,))) is not None]
        for each in ids:
            match = _PMID.search(each)
            for candidate in (each, self._by_pmid.get(match[1] if match else each)):
                if candidate in self._documents:
                    return candidate
        return ids[0] if ids else None

    def _citations(self, response: AgentRunResponse, chunks: Sequence[Any]) -> list[str]:
        """As document ids, whether the agent cites documents or chunks of them."""
        owners = {_first(chunk, _CHUNK_KEYS): _document_of(chunk) for chunk in chunks}
        cited = response.outputs.get("citations")
        if not isinstance(cited, list):
            cited = response.grounding.citations if response.grounding else []
        keys = (*_DOCUMENT_KEYS, *_CHUNK_KEYS)
        ids = [_first(each, keys) if isinstance(each, dict) else each for each in cited]
        texts = (each for each in ids if isinstance(each, str))
        known = self._documents
        owned = (owners.get(x) or (x if x in known else split_chunk_id(x)[0]) for x in texts)
        return list(dict.fromkeys(owned))
