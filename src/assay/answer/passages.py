"""What an answer is made from, what it is, and what makes one."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

NOT_FOUND = "The documents do not answer this question."


@dataclass(frozen=True, slots=True)
class Passage:
    """A document, or a part of one, that was found for the question."""

    id: str
    title: str
    text: str


@dataclass(frozen=True, slots=True)
class Answer:
    """`citations` are places among the passages, from 1, as `[1]` in the text names them."""

    text: str
    citations: tuple[int, ...]
    model: str
    stop_reason: str = "endTurn"
    found: bool = True
    warnings: tuple[str, ...] = ()


class Answerer(Protocol):
    """Makes an answer from passages alone: what they do not say it does not know."""

    @property
    def name(self) -> str:
        """The kind of answerer: `extractive`, or the name of a provider."""
        ...

    async def answer(
        self, question: str, passages: Sequence[Passage], max_tokens: int
    ) -> Answer: ...


def not_found(model: str, *warnings: str) -> Answer:
    return Answer(NOT_FOUND, (), model, found=False, warnings=warnings)
