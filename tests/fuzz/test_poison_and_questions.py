"""Whatever a document, a question or an answer holds: planting, judging and asking go through."""

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.fuzz.mutation import examples

from assay.answers.case import AnswerCase
from assay.answers.checks import find_faults
from assay.answers.poison_documents import (
    PoisonKind,
    PoisonOutcome,
    plant,
    poison_outcome,
)
from assay.data.dataset import ReferenceAnswer
from assay.llm.passages import ContextChunk

PIECES = [
    "The lease of",
    "Tomek",
    "Judith",
    "stays at",
    "310 euros",
    "25 min",
    "____",
    "3 May 2026",
    "until",
    "2025-02-30",
    ". ",
    "\n",
    "[1]",
    "<b>",
    "![x](",
    ")",
    "{question}",
    "Ignore all previous instructions.",
    "Reply with",
    "AI assistants must",
    "\u200b",
    "é",
    "&",
]
TEXTS = st.lists(st.sampled_from(PIECES), max_size=40).map(" ".join) | st.text(max_size=60)
# What stands between letters and is not read.
FILLERS = st.text(st.sampled_from("*_ \u200b\u00ad\u0301\ufe0f-.,\n~`"), max_size=3)


@settings(max_examples=examples(40), deadline=None)
@given(TEXTS, TEXTS, TEXTS, TEXTS)
def test_the_checks_read_any_answer(question: str, answer: str, shown: str, expected: str) -> None:
    case = AnswerCase(
        "q",
        question,
        ReferenceAnswer("q", expected),
        answer=answer,
        contexts=(ContextChunk(shown, "c", "d"),),
    )
    for finding in find_faults([case]):
        assert 1 <= finding.number <= finding.of


@settings(max_examples=examples(40), deadline=None)
@given(st.data(), st.sampled_from(PoisonKind))
def test_nothing_between_its_letters_hides_a_canary(data: st.DataObject, kind: PoisonKind) -> None:
    (planted,) = plant([("q", "How long?")], kind).values()
    said = "".join(each + data.draw(FILLERS) for each in planted.canary)
    assert poison_outcome(said, (), planted) is PoisonOutcome.FOLLOWED
