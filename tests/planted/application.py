"""A small question-answering application over `notes`, with faults that can be switched on.

It searches, reads what it found and answers: rightly and with citations where what it was shown
holds the answer, else it declines. The reader knows the reference answers, so that every fault is
the only one. A fault changes the application in one place; nothing here knows what Assay checks.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from assay.data import Dataset, load_dataset
from assay.llm.passages import NOT_FOUND
from assay.search.bm25_index import Bm25Index
from assay.text import sentences

Chunk = dict[str, str]


@cache
def notes() -> Dataset:
    return load_dataset("notes")


@cache
def index() -> Bm25Index:
    return Bm25Index(notes().documents.values())


@cache
def ids_by_question() -> Mapping[str, str]:
    return {query.text: query.id for query in notes().queries.values()}


@dataclass(frozen=True)
class Turn:
    """One question on its way through the application."""

    question: str
    chunks: tuple[Chunk, ...] = ()
    answer: str = ""
    citations: tuple[str, ...] = ()

    @property
    def query_id(self) -> str:
        return ids_by_question()[self.question]

    @property
    def needed(self) -> tuple[str, ...]:
        return notes().answers[self.query_id].documents

    @property
    def shown(self) -> tuple[str, ...]:
        return tuple(chunk["doc_id"] for chunk in self.chunks)

    @property
    def answered(self) -> bool:
        return self.answer != NOT_FOUND


Step = Callable[[Turn], Turn]


def chunk_of(doc_id: str, text: str | None = None) -> Chunk:
    document = notes().documents[doc_id]
    return {
        "id": f"{doc_id}#0",
        "doc_id": doc_id,
        "text": document.full_text if text is None else text,
    }


def given_chunk(passage: dict[str, str]) -> Chunk:
    return {
        "id": f"{passage['id']}#0",
        "doc_id": passage["id"],
        "text": f"{passage['title']} {passage['text']}".strip(),
    }


def search(turn: Turn, top_k: int) -> Turn:
    """BM25, with the needed documents first: a retriever that does its work."""
    found = [doc_id for doc_id, _ in index().search(turn.question, top_k)]
    ids = list(dict.fromkeys([*turn.needed, *found]))[:top_k]
    return replace(turn, chunks=tuple(map(chunk_of, ids)))


def read(turn: Turn) -> Turn:
    reference = notes().answers[turn.query_id]
    if reference.answer is None or not set(turn.needed) <= set(turn.shown):
        return replace(turn, answer=NOT_FOUND, citations=())
    return replace(turn, answer=reference.answer, citations=turn.needed)


class Application:
    """`answer(query, top_k, context)`, as Assay calls it.

    Parameters:
        after_search: changes what was found.
        after_reading: changes the answer and its citations.
        takes_context: False ignores the documents that it is given.
        real_search: BM25 alone, which misses some documents.
    """

    def __init__(
        self,
        after_search: Step = lambda turn: turn,
        after_reading: Step = lambda turn: turn,
        *,
        takes_context: bool = True,
        real_search: bool = False,
    ) -> None:
        self.after_search = after_search
        self._after_reading = after_reading
        self._takes_context = takes_context
        self._real_search = real_search

    def __call__(
        self, query: str, top_k: int, context: list[dict[str, str]] | None = None
    ) -> dict[str, Any]:
        turn = Turn(query)
        if context is not None and self._takes_context:
            turn = replace(turn, chunks=tuple(map(given_chunk, context)))
        elif self._real_search:
            found = tuple(chunk_of(doc_id) for doc_id, _ in index().search(query, top_k))
            turn = self.after_search(replace(turn, chunks=found))
        else:
            turn = self.after_search(search(turn, top_k))
        turn = self._after_reading(read(turn))
        return {
            "doc_ids": list(turn.shown),
            "contexts": list(turn.chunks),
            "answer": turn.answer,
            "citations": list(turn.citations),
        }


def first_sentence(doc_id: str) -> str:
    return sentences(notes().documents[doc_id].text)[0]


def neighbor(query_id: str, step: int = 1) -> str:
    """Another answerable question, the same for the same one."""
    answerable = [each for each, answer in notes().answers.items() if answer.answer]
    return answerable[(answerable.index(query_id) + step) % len(answerable)]


def on_answers(change: Callable[[Turn], str]) -> Step:
    """A fault of the answer's text alone, where there is an answer."""
    return lambda turn: replace(turn, answer=change(turn)) if turn.answered else turn


def on_citations(change: Callable[[Turn], tuple[str, ...]]) -> Step:
    """A fault of the citations alone, where there is an answer."""
    return lambda turn: replace(turn, citations=change(turn)) if turn.answered else turn


def known_by_heart(turn: Turn) -> Turn:
    """The reference answer, whatever was shown."""
    reference = notes().answers[turn.query_id]
    cited = turn.shown[:1]
    return replace(turn, answer=reference.answer or NOT_FOUND, citations=cited)


_AUXILIARY = re.compile(r"\b(is|was|are|were|has|had|can|may|must|will|went|costs?|goes)\b")


def negated(turn: Turn) -> str:
    """ "not" after the first verb, else in front of everything."""
    changed, number = _AUXILIARY.subn(r"\1 not", turn.answer, count=1)
    return changed if number else f"Not {turn.answer[0].lower()}{turn.answer[1:]}"


_GERMAN = {
    "the": "die", "and": "und", "is": "ist", "was": "war", "of": "von", "in": "in", "on": "auf",
    "at": "um", "for": "für", "with": "mit", "to": "zu", "from": "von", "not": "nicht",
    "an": "eine", "a": "ein", "it": "es", "are": "sind", "by": "bei", "after": "nach",
    "they": "sie", "were": "waren", "has": "hat", "or": "oder", "but": "aber", "only": "nur",
}  # fmt: skip


def translated(turn: Turn) -> str:
    """Word by word: enough to be another language."""
    said = re.sub(
        r"[A-Za-z]+", lambda match: _GERMAN.get(match[0].lower(), match[0] + "en"), turn.answer
    )
    return f"Das ist nicht in der Frage, aber es ist so: {said}"
