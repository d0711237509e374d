"""Every failure has one cause, and counterfactual runs settle which."""

from dataclasses import replace

import pytest

from assay.answers.answer_metrics import AnswerCase
from assay.answers.diagnosis import (
    Component,
    Counterfactuals,
    Failure,
    Observation,
    diagnose,
    observe,
    summarize_diagnoses,
)
from assay.data import Document, ReferenceAnswer
from assay.data.dataset import Fact
from assay.evaluation.answers.verdict_scores import quadrants
from assay.llm.passages import ContextChunk


def wrong(**facts: bool) -> Observation:
    return Observation("q", correct=False, **facts)


@pytest.mark.parametrize(
    ("seen", "failure", "component", "settled"),
    [
        (wrong(error=True), Failure.AGENT_ERROR, Component.AGENT, True),
        (wrong(answerable=False), Failure.SHOULD_HAVE_ABSTAINED, Component.GENERATION, True),
        (wrong(), Failure.RETRIEVAL_MISSED, Component.RETRIEVAL, False),
        (wrong(abstained=True), Failure.RETRIEVAL_MISSED, Component.RETRIEVAL, False),
        (wrong(contradicted=True), Failure.RETRIEVAL_MISSED, Component.RETRIEVAL, False),
        (wrong(evidence=True), Failure.UNUSED, Component.GENERATION, False),
        (wrong(evidence=True, contradicted=True), Failure.CONTRADICTS, Component.GENERATION, False),
        (
            wrong(evidence=True, abstained=True),
            Failure.ABSTAINED_WRONGLY,
            Component.GENERATION,
            False,
        ),
    ],
)
def test_one_run_says_what_probably_failed(
    seen: Observation, failure: Failure, component: Component, settled: bool
) -> None:
    found = diagnose(seen)
    assert found is not None
    assert (found.failure, found.component, found.settled) == (failure, component, settled)
    assert found.why


def test_without_expected_ids_no_component_is_blamed() -> None:
    unknown = wrong(evidence=True, needs=False)
    report = summarize_diagnoses(questions(*[unknown] * 8))
    assert report.sentence == (
        "8 of 8 questions are answered wrongly, and without expected ids retrieval and generation "
        "cannot be told apart."
    )
    assert not any(report.points.values())
    mixed = summarize_diagnoses(questions(unknown, *[wrong()] * 7), {})
    assert "87.5 of the 100.0 points that are lost (no expected ids 12.5); 7 of 7" in mixed.sentence
    assert quadrants([unknown, wrong()]).model_dump() == {
        **dict.fromkeys(("evidence_right", "evidence_wrong", "no_evidence_right"), 0),
        "no_evidence_wrong": 1,
    }


@pytest.mark.parametrize(
    ("seen", "others", "failure", "component"),
    [
        (wrong(), Counterfactuals(gold=True), Failure.RETRIEVAL_MISSED, Component.RETRIEVAL),
        (wrong(), Counterfactuals(gold=False), Failure.RETRIEVAL_MISSED, Component.BOTH),
        (
            wrong(abstained=True),
            Counterfactuals(gold=False),
            Failure.RETRIEVAL_MISSED,
            Component.BOTH,
        ),
        (wrong(evidence=True), Counterfactuals(gold=False), Failure.UNUSED, Component.GENERATION),
        (
            wrong(evidence=True),
            Counterfactuals(gold=True, distractors=False),
            Failure.UNUSED,
            Component.GENERATION,
        ),
        (
            wrong(evidence=True),
            Counterfactuals(gold=True, distractors=True),
            Failure.UNUSED,
            Component.RETRIEVAL,
        ),
        (
            wrong(evidence=True, contradicted=True),
            Counterfactuals(no_context=True),
            Failure.CONTRADICTS,
            Component.GENERATION,
        ),
    ],
)
def test_counterfactual_runs_settle_it(
    seen: Observation, others: Counterfactuals, failure: Failure, component: Component
) -> None:
    found = diagnose(seen, others)
    assert found is not None
    assert (found.failure, found.component, found.settled) == (failure, component, True)


def test_a_right_answer_has_no_diagnosis() -> None:
    assert diagnose(Observation("q", correct=True)) is None
    assert diagnose(Observation("q", correct=True), Counterfactuals(gold=False)) is None


def test_what_a_case_shows_is_read_from_it() -> None:
    reference = ReferenceAnswer("q", "On 3 May", (), ("a", "b"))
    case = AnswerCase("q", "When?", reference, {}, "I don't know.", ("a", "x", "b"))
    assert observe(case, correct=False) == wrong(abstained=True, evidence=True)
    failed = AnswerCase("q", "When?", reference, {}, None, ("a",))
    assert observe(failed, correct=True) == wrong(error=True)


def test_another_part_of_the_right_document_is_a_matter_of_retrieval() -> None:
    documents = {"a": Document("a", "", "The pool is long. It opens on 3 May.")}
    reference = ReferenceAnswer("q", "On 3 May", (Fact("3 May", ("3 May",)),), ("a",))
    for shown, failure in (
        ("The pool is long.", Failure.RETRIEVAL_MISSED),
        ("It opens on 3 May.", Failure.UNUSED),
    ):
        chunk = ContextChunk(shown, "a#1", "a")
        case = AnswerCase("q", "When?", reference, {}, "Soon.", ("a",), contexts=(chunk,))
        found = diagnose(observe(case, correct=False, documents=documents))
        assert found is not None
        assert found.failure is failure
        assert ("part" in found.why) is (failure is Failure.RETRIEVAL_MISSED)


def questions(*seen: Observation) -> list[Observation]:
    return [replace(each, query_id=f"q{place}") for place, each in enumerate(seen)]


def test_one_sentence_says_what_to_fix_and_what_it_is_worth() -> None:
    seen = questions(
        *[wrong()] * 30,
        *[wrong(evidence=True)] * 10,
        *[wrong(error=True)] * 10,
        *[Observation("", True)] * 50,
    )
    others = {each.query_id: Counterfactuals(gold=not each.evidence) for each in seen}
    report = summarize_diagnoses(seen, others)
    assert report.sentence == (
        "Fix retrieval first: it is worth 30.0 of the 50.0 points that are lost "
        "(generation 10.0, agent 10.0)."
    )
    assert report.counts[Failure.RETRIEVAL_MISSED] == 30
    assert report.counts[Failure.CONTRADICTS] == 0
    assert report.settled == 50


def test_what_takes_both_halves_is_no_reason_to_fix_one() -> None:
    seen = questions(wrong(), wrong(), wrong(evidence=True), Observation("", True))
    others = {each.query_id: Counterfactuals(gold=False) for each in seen}
    assert summarize_diagnoses(seen, others).sentence == (
        "Fix generation first: it is worth 25.0 of the 75.0 points that are lost "
        "(both together 50.0)."
    )
    assert summarize_diagnoses(seen[:2], others).sentence == (
        "Fix retrieval and generation, neither helps alone: they are worth 100.0 of the 100.0 "
        "points that are lost."
    )


def test_a_guess_is_called_one() -> None:
    assert summarize_diagnoses(questions(wrong(), Observation("", True))).sentence == (
        "Fix retrieval first: it is worth 50.0 of the 50.0 points that are lost; 1 of 1 failures "
        "are guessed from one run; --counterfactuals settles them."
    )
    tried = summarize_diagnoses(questions(wrong()), {})
    assert tried.sentence.endswith("1 of 1 failures are guessed from one run.")


def test_a_tie_is_not_called_a_winner() -> None:
    for more in (1, 3):
        report = summarize_diagnoses(questions(*[wrong()] * more, wrong(evidence=True)))
        assert report.sentence.startswith(
            "No component is significantly worse; begin with retrieval, which is worth"
        )


def test_undecided_questions_are_lost_and_nobodys_fault() -> None:
    report = summarize_diagnoses(questions(wrong(), Observation("", True)), {}, undecided=2)
    assert "worth 25.0 of the 75.0 points that are lost (undecided 50.0)" in report.sentence
    right, declined = Observation("", True), Observation("", True, answerable=False)
    few = summarize_diagnoses(questions(*[right] * 9), undecided=1)
    assert few.sentence == "Nothing to fix among the 9 of 10 questions decided."
    # A tenth of those that have an answer: declining says nothing about the others.
    many = summarize_diagnoses(questions(*[right] * 8, *[declined] * 91), undecided=1)
    left = "The judge leaves 1 of 100 questions undecided; all others are right"
    assert many.sentence == f"{left}."
    found = ["3 of 9 answers are empty"]
    more = summarize_diagnoses(questions(*[right] * 8), undecided=1, findings=found)
    assert more.sentence == f"{left.replace('100', '9')}, but 3 of 9 answers are empty."


def test_nothing_is_said_of_questions_that_nobody_could_decide() -> None:
    right, why = Observation("", True), (35, "the references have no key facts; add --judge")
    report = summarize_diagnoses(questions(*[right] * 6), unknown=why)
    begin = f"35 of 41 questions are undecided: {why[1]}. Of the others: "
    assert report.sentence == f"{begin}all 6 are right."
    report = summarize_diagnoses(questions(wrong(), right), {}, unknown=(35, why[1]))
    begin = begin.replace("41", "37")
    assert report.sentence.startswith(f"{begin}Fix retrieval first: it is worth 50.0 of the 50.0")


def test_errors_of_the_agent_are_a_component_of_their_own() -> None:
    report = summarize_diagnoses(questions(wrong(error=True), Observation("", True)))
    assert report.sentence == (
        "Fix the agent's errors first: they are worth 50.0 of the 50.0 points that are lost."
    )


def test_nothing_wrong_and_nothing_asked_are_said_so() -> None:
    assert summarize_diagnoses([]).sentence.startswith("No question was answered")
    assert summarize_diagnoses(questions(Observation("", True))).sentence.startswith(
        "Nothing to fix"
    )


def test_right_answers_that_need_no_document_are_counted() -> None:
    seen = questions(Observation("", True), Observation("", True), wrong())
    others = {"q0": Counterfactuals(no_context=True), "q2": Counterfactuals(no_context=True)}
    assert summarize_diagnoses(seen, others).from_memory == 1
