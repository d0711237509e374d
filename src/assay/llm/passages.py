"""The types of answering: passages and answers. Imports nothing."""

from dataclasses import dataclass

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


def not_found(model: str, *warnings: str) -> Answer:
    """The answer that declines."""
    return Answer(NOT_FOUND, (), model, found=False, warnings=warnings)
