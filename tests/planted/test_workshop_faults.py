"""Another field and another language: faults are named, and right answers are not."""

import re
from pathlib import Path

import pytest
from tests.planted.workshop import Change, application, workshop
from tests.planted.workshop_faults import WORKSHOP_FAULTS, WorkshopFault

from assay.evaluation.api import evaluate
from assay.run.answers import AnswersReport


def diagnosed(out: Path, language: str = "English", change: Change | None = None) -> AnswersReport:
    dataset = workshop(language)
    agent = application(dataset, change) if change else application(dataset)
    answers = evaluate(agent, dataset, out=out, answers=True).report.answers
    assert answers is not None
    return answers


def sentence(answers: AnswersReport) -> str:
    assert answers.diagnosis is not None
    return answers.diagnosis.sentence


@pytest.mark.parametrize("language", ["English", "German"])
def test_right_answers_have_no_finding(language: str, tmp_path: Path) -> None:
    answers = diagnosed(tmp_path, language)
    assert answers.findings == []
    assert answers.contradictions is not None
    assert answers.contradictions.sentences == 0
    assert sentence(answers).startswith("Nothing to fix")


@pytest.mark.parametrize("fault", WORKSHOP_FAULTS, ids=lambda fault: fault.name)
def test_a_fault_of_the_workshop_is_named(fault: WorkshopFault, tmp_path: Path) -> None:
    answers = diagnosed(tmp_path, change=fault.change)
    found = [each.words for each in answers.findings]
    assert answers.findings, sentence(answers)
    assert answers.findings[0].kind == fault.finding, found
    assert answers.findings[0].number >= fault.fewest, found
    assert answers.findings[0].words in sentence(answers)


def test_what_cannot_be_seen_in_german_is_said(tmp_path: Path) -> None:
    answers = diagnosed(tmp_path, "German")
    assert "most answers are in German" in str(answers.note)
    assert "finding none says nothing" in str(answers.note)
    assert diagnosed(tmp_path, "English").note is None


def test_a_negation_in_german_is_seen(tmp_path: Path) -> None:
    verbs = re.compile(r"\b(ist|wird|werden|kostet|hat|bekommt|unterrichtet)\b")
    answers = diagnosed(
        tmp_path,
        "German",
        lambda reply, _: reply | {"answer": verbs.sub(r"\1 nicht", reply["answer"], count=1)},
    )
    assert [each.kind for each in answers.findings] == ["denies"]


@pytest.mark.parametrize(
    ("said", "finding"),
    [
        ("Dazu steht leider nichts im Handbuch.", "declines wrongly"),
        ("Die Unterlagen geben darüber keine Auskunft.", "declines wrongly"),
        ("Vermutlich gilt: {}", "hedges"),
    ],
)
def test_refusals_and_hedges_in_german_are_seen(said: str, finding: str, tmp_path: Path) -> None:
    answers = diagnosed(
        tmp_path, "German", lambda reply, _: reply | {"answer": said.format(reply["answer"])}
    )
    assert answers.findings[0].kind == finding
    assert answers.metrics["hallucination_rate"] == 0


def test_numbers_are_checked_in_any_language(tmp_path: Path) -> None:
    answers = diagnosed(
        tmp_path,
        "German",
        lambda reply, _: reply | {"answer": re.sub(r"\d", "8", reply["answer"])},
    )
    assert "wrong number" in [each.kind for each in answers.findings]
    assert answers.metrics["correctness"] < 0.6
