"""Kinds of made questions, and one question with the proof that its answer is in the documents."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from assay.data.dataset import UNANSWERABLE, Fact
from assay.errors import UsageError


class QuestionKind(StrEnum):
    """What a question asks for."""

    KNOWN_ITEM = "known-item"
    SINGLE_HOP = "single-hop"
    MULTI_HOP = "multi-hop"
    COMPARISON = "comparison"
    TEMPORAL = "temporal"
    UNANSWERABLE = UNANSWERABLE
    PARAPHRASED = "paraphrased"


NEEDS_MODEL = frozenset({QuestionKind.PARAPHRASED})
"""Kinds that no template can make."""


@dataclass(frozen=True, slots=True)
class Quote:
    """The words of a document that a question or its answer rests on."""

    document_id: str
    text: str


@dataclass(frozen=True, slots=True)
class MadeQuestion:
    """A question about documents, with what shows that it can, or cannot, be answered from them.

    Parameters:
        kind: what it asks for.
        text: the question.
        documents: the ids of the documents that a system should find; none if there is no answer.
        quotes: the words of these documents that it was made from.
        answer: the reference answer; None where no document has one, and for a known item, which
            is looked for and not answered.
        facts: what a right answer states; each is stated by a quote.
        how: the template or the model that made it.
        hops: how many documents the answer takes together.
        ambiguous: whether BM25 ranks another document as high as the right ones.
        changed: for a question without an answer: what was replaced by what.
    """

    kind: QuestionKind
    text: str
    documents: tuple[str, ...]
    quotes: tuple[Quote, ...]
    answer: str | None = None
    facts: tuple[Fact, ...] = ()
    how: str = "template"
    hops: int = 1
    ambiguous: bool = False
    changed: str = ""

    @property
    def has_reference(self) -> bool:
        """Whether answers to it can be measured, and not only rankings."""
        return self.answer is not None or self.kind is QuestionKind.UNANSWERABLE

    @property
    def tags(self) -> tuple[str, ...]:
        """Tags for slices: `kind=...`, `hops=...`, and the plain ones that evaluations look for."""
        plain = [each for each in (UNANSWERABLE, "multi-hop") if each == str(self.kind)]
        flags = ["ambiguous"] if self.ambiguous else []
        return (f"kind={self.kind}", f"hops={self.hops}", *plain, *flags, "generated")


def parse_question_kinds(names: Iterable[str], *, model: bool) -> tuple[QuestionKind, ...]:
    """The kinds of these names; for none, all that can be made with or without a model.

    Raises `UsageError` for an unknown kind, and for one that needs a model where there is none.
    """
    given = [part.strip().lower().replace("_", "-") for each in names for part in each.split(",")]
    wanted = list(dict.fromkeys(filter(None, given)))
    if unknown := [each for each in wanted if each not in set(QuestionKind)]:
        known = ", ".join(QuestionKind)
        raise UsageError(f"{unknown[0]!r} is no kind of question; the kinds are {known}")
    if not wanted:
        return tuple(each for each in QuestionKind if model or each not in NEEDS_MODEL)
    kinds = tuple(QuestionKind(each) for each in wanted)
    if not model and (needing := [each for each in kinds if each in NEEDS_MODEL]):
        raise UsageError(
            f"{needing[0]} questions are written by a model; add --provider, such as "
            "--provider ollama:llama3.1:8b, or leave the kind out"
        )
    return kinds
