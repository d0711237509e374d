"""Chunks: the passages that an agent showed to its model, and the documents they are parts of.

An agent names its passages as `contexts`: a list of texts, or of `{"id", "doc_id", "text"}`. A
chunk belongs to the document of its `doc_id`, else of its id without what follows the separator
(`--map 'chunk=#'`), else of its id, else to the document whose text holds it.
"""

import re
from bisect import bisect_right
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import TYPE_CHECKING

from assay.errors import UsageError
from assay.llm.passages import ContextChunk
from assay.steps import SearchStep
from assay.targets.protocol import AgentAnswer

if TYPE_CHECKING:
    from assay.data.dataset import Document

_REGEX = "re:"
# Longer than this, looking for a text in all documents takes too long.
_SEARCHED = 50_000_000
_MIN_QUOTE = 20
# What separates documents from chunks in ids that are in use, to suggest the option.
_SEPARATORS = ("__chunk_", "_chunk_", "-chunk-", "#chunk", "::", "#", "|", "/", ":", "__", "_", "-")


def parse_separator(text: str) -> Callable[[str], str]:
    """From the id of a chunk to that of its document; other ids stay. Raises `UsageError`."""
    if not text:
        return lambda chunk_id: chunk_id
    if not text.startswith(_REGEX):
        return lambda chunk_id: chunk_id.rpartition(text)[0] or chunk_id
    try:
        suffix = re.compile(f"(?:{text.removeprefix(_REGEX)})$")
    except re.error as error:
        raise UsageError(
            f"--map 'chunk={text}': this is not a regular expression: {error}"
        ) from None
    return lambda chunk_id: suffix.sub("", chunk_id, count=1) or chunk_id


def suggest_separator(ids: Iterable[str], known: Container[str]) -> str | None:
    """The separator with which every one of these unknown ids is a chunk of a known document."""
    unknown = [each for each in ids if each not in known]
    for separator in _SEPARATORS:
        if unknown and all(each.rpartition(separator)[0] in known for each in unknown):
            return separator
    return None


class ChunkResolver:
    """Puts documents in place of chunks in an agent's answers.

    Parameters:
        separator: the value of `--map chunk=`; empty for none.
        documents: those of the data set.
    """

    def __init__(self, separator: str, documents: "Mapping[str, Document]") -> None:
        self._document = parse_separator(separator)
        self._documents = documents
        self._locate: _TextLocator | None = None

    def resolve(self, answer: AgentAnswer) -> AgentAnswer:
        """The answer with ids of documents; several chunks of one document are one document.

        An id that the agent repeats stays repeated where it is the id of a document.
        """
        contexts = tuple(self._resolved(chunk) for chunk in answer.contexts)
        named = {chunk.id: chunk.doc_id for chunk in contexts if chunk.id and chunk.doc_id}
        doc_ids = self._map(answer.doc_ids, named)
        if not doc_ids and contexts:
            doc_ids = tuple(dict.fromkeys(chunk.doc_id for chunk in contexts if chunk.doc_id))
        citations = self._map(answer.citations, named)
        scores = answer.scores if len(doc_ids) == len(answer.doc_ids) else ()
        return replace(
            answer,
            doc_ids=doc_ids,
            citations=citations,
            contexts=contexts,
            scores=scores,
            steps=tuple(self._resolved_step(step, named) for step in answer.steps),
        )

    def _resolved_step(self, step: SearchStep, named: Mapping[str, str]) -> SearchStep:
        doc_ids = self._map(step.doc_ids, named)
        return replace(step, doc_ids=doc_ids, scores=step.scores if doc_ids == step.doc_ids else ())

    def _map(self, ids: Sequence[str], named: Mapping[str, str]) -> tuple[str, ...]:
        mapped: list[str] = []
        seen: set[str] = set()
        for each in ids:
            document = each if each in self._documents else named.get(each) or self._document(each)
            if document == each or document not in seen:
                mapped.append(document)
            seen.add(document)
        return tuple(mapped)

    def _resolved(self, chunk: ContextChunk) -> ContextChunk:
        if chunk.doc_id:
            return chunk
        if chunk.id:
            known = chunk.id in self._documents
            return replace(chunk, doc_id=chunk.id if known else self._document(chunk.id))
        if self._locate is None:
            self._locate = _TextLocator(self._documents.values())
        return replace(chunk, doc_id=self._locate.find(chunk.text) or "")


class _TextLocator:
    """Finds the document that a text was cut out of."""

    def __init__(self, documents: "Iterable[Document]") -> None:
        texts, self._ids = [], []
        size = 0
        for document in documents:
            size += len(document.full_text)
            if size > _SEARCHED:
                break
            texts.append(_folded(document.full_text))
            self._ids.append(document.id)
        self._starts = [0, *accumulate(len(text) + 1 for text in texts)]
        self._all = "\n".join(texts)

    def find(self, text: str) -> str | None:
        wanted = _folded(text)
        place = self._all.find(wanted) if len(wanted) >= _MIN_QUOTE else -1
        return None if place < 0 else self._ids[bisect_right(self._starts, place) - 1]


def _folded(text: str) -> str:
    return " ".join(text.split()).casefold()
