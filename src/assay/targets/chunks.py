"""The documents that the chunks in an agent's answer are parts of.

A chunk belongs to the document of its `doc_id`, else of its id without what follows the separator
(`--map 'chunk=#'`), else of its id, else to the document whose text holds it.
"""

import re
from bisect import bisect_right
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import accumulate
from typing import TYPE_CHECKING

from assay.errors import UsageError
from assay.llm.passages import ContextChunk
from assay.targets.protocol import AgentAnswer

if TYPE_CHECKING:
    from assay.data.dataset import Document

_REGEX = "re:"
# Longer than this, looking for a text in all documents takes too long.
_SEARCHED = 50_000_000
_MIN_QUOTE = 20
# What separates documents from chunks in ids that are in use, to suggest the option. Longest first:
# `__` would explain note-7__chunk_2 as well.
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
        raise UsageError(f"--map 'chunk={text}' is not a regular expression: {error}") from None
    return lambda chunk_id: suffix.sub("", chunk_id, count=1) or chunk_id


def suggest_separator(ids: Iterable[str], known: Container[str]) -> str | None:
    """The separator with which every one of these unknown ids is a chunk of a known document."""
    unknown = [each for each in ids if each not in known]
    for separator in _SEPARATORS:
        if unknown and all(each.rpartition(separator)[0] in known for each in unknown):
            return separator
    return None


class ChunkResolver:
    """Puts documents in place of chunks; `separator` is the value of `--map chunk=`, or empty."""

    def __init__(self, separator: str, documents: "Mapping[str, Document]") -> None:
        self._document = parse_separator(separator)
        self._documents = documents

    def resolve(self, answer: AgentAnswer) -> AgentAnswer:
        """The answer with ids of documents; several chunks of one document are one document.

        An id that the agent repeats stays repeated if it is the id of a document.
        """
        contexts = tuple(self._resolved(chunk) for chunk in answer.contexts)
        named = {chunk.id: chunk.doc_id for chunk in contexts if chunk.id and chunk.doc_id}
        doc_ids = self._map(answer.doc_ids, named)
        if not doc_ids and contexts:
            doc_ids = tuple(dict.fromkeys(chunk.doc_id for chunk in contexts if chunk.doc_id))
        steps = [(step, self._map(step.doc_ids, named)) for step in answer.steps]
        return replace(
            answer,
            doc_ids=doc_ids,
            citations=self._map(answer.citations, named),
            contexts=contexts,
            scores=answer.scores if len(doc_ids) == len(answer.doc_ids) else (),
            steps=tuple(
                replace(step, doc_ids=ids, scores=step.scores if ids == step.doc_ids else ())
                for step, ids in steps
            ),
        )

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
        if not chunk.id:
            return replace(chunk, doc_id=self._find_document(chunk.text))
        known = chunk.id in self._documents
        return replace(chunk, doc_id=chunk.id if known else self._document(chunk.id))

    def _find_document(self, text: str) -> str:
        """The id of the document that a text was cut out of; empty if there is none."""
        ids, starts, everything = self._texts
        wanted = _folded(text)
        place = everything.find(wanted) if len(wanted) >= _MIN_QUOTE else -1
        return "" if place < 0 else ids[bisect_right(starts, place) - 1]

    @cached_property
    def _texts(self) -> tuple[list[str], list[int], str]:
        """The ids of the documents, and where each begins in the text of all of them."""
        ids, texts = [], []
        size = 0
        for document in self._documents.values():
            size += len(document.full_text)
            if size > _SEARCHED:
                break
            ids.append(document.id)
            texts.append(_folded(document.full_text))
        return ids, [0, *accumulate(len(text) + 1 for text in texts)], "\n".join(texts)


def _folded(text: str) -> str:
    return " ".join(text.split()).casefold()
