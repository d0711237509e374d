"""The types of answering: passages, answers and the `Answerer` protocol. Imports nothing."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

EXTRACTIVE = "extractive"  # the name of the answerer that needs no model
NOT_FOUND = "The documents do not answer this question."


@dataclass(frozen=True, slots=True)
class Passage:
    """A document, or a part of one, that was retrieved for the question."""

    id: str
    title: str
    text: str


@dataclass(frozen=True, slots=True)
class ContextChunk:
    """A text that an agent showed to its model; ids are empty if the agent gives none."""

    text: str
    id: str = ""
    doc_id: str = ""


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer; `citations` are places among the passages, from 1, as `[1]` in its text.

    `found` is False if the passages do not answer the question.
    """

    text: str
    citations: tuple[int, ...]
    model: str
    stop_reason: str = "endTurn"
    found: bool = True
    warnings: tuple[str, ...] = ()


class Answerer(Protocol):
    """Answers a question from passages alone."""

    @property
    def name(self) -> str:
        """The kind of answerer: `extractive`, or the name of a provider."""

    async def answer(self, question: str, passages: Sequence[Passage], max_tokens: int) -> Answer:
        """An answer of at most `max_tokens` tokens, with citations."""


def not_found(model: str, *warnings: str) -> Answer:
    """The answer that declines."""
    return Answer(NOT_FOUND, (), model, found=False, warnings=warnings)
