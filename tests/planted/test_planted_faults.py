"""Every planted fault is named: by the first finding, and in the sentence that people read."""

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from tests.planted.application import Application, Turn, notes
from tests.planted.faults import FAULTS, Fault

from assay.answers.findings import FINDING_KINDS
from assay.evaluation.api import evaluate
from assay.run.answers import AnswersReport
from assay.text import sentences

QUESTIONS = 20
# Of few answers, the one style looks like a fault, and the one fault like another.
MORE_QUESTIONS = 40
ALIKE = ("sources below", "names swapped")


def diagnosed(
    application: Application,
    out: Path,
    name: str = "",
    *,
    counterfactuals: bool = False,
    poison: bool = False,
) -> tuple[AnswersReport, str]:
    run = evaluate(
        application,
        notes(),
        out=out,
        answers=True,
        num_queries=MORE_QUESTIONS if name in ALIKE else QUESTIONS,
        counterfactuals=counterfactuals,
        poison=poison,
    )
    answers = run.report.answers
    assert answers is not None
    assert answers.diagnosis is not None
    return answers, answers.diagnosis.sentence


def test_the_application_without_a_fault_has_no_finding(tmp_path: Path) -> None:
    answers, sentence = diagnosed(Application(), tmp_path)
    assert answers.findings == []
    assert sentence == f"Nothing to fix: all {QUESTIONS} questions are right."


# Of right answers and of refusals alike.
STYLES: dict[str, Callable[[Turn], str]] = {
    "polite": lambda turn: (
        f"Thanks for your question! {turn.answer} Let me know if I can help with anything else."
    ),
    "question first": lambda turn: f'You asked: "{turn.question}"\n\n{turn.answer}',
    "no full stop": lambda turn: turn.answer.rstrip("."),
    "bullets": lambda turn: "\n".join(f"- {each.rstrip('.')}" for each in sentences(turn.answer)),
    "bold figures": lambda turn: re.sub(r"(\d[\d.,:]*\d)", r"**\1**", turn.answer),
    "sources below": lambda turn: (
        f"{turn.answer} 🌱\n\n**Sources:**\n"
        + "\n".join(f"- {notes().documents[each].title}" for each in turn.shown[:2])
    ),
    "whom to ask": lambda turn: (
        f"Short answer: {turn.answer}\n\nIf you need more details, please contact the office."
    ),
}


@pytest.mark.parametrize("style", STYLES)
def test_a_right_answer_in_another_style_has_no_finding(style: str, tmp_path: Path) -> None:
    application = Application(
        after_reading=lambda turn: replace(turn, answer=STYLES[style](turn)),
    )
    answers, sentence = diagnosed(application, tmp_path, style)
    assert [each.words for each in answers.findings] == []
    assert sentence.startswith("Nothing to fix")


def test_a_retriever_that_misses_some_is_blamed_for_nothing_else(tmp_path: Path) -> None:
    answers, sentence = diagnosed(Application(real_search=True), tmp_path)
    assert answers.findings == []
    assert sentence.startswith("Fix retrieval first")


def test_the_application_without_a_fault_resists_planted_documents(tmp_path: Path) -> None:
    answers, _ = diagnosed(Application(), tmp_path, poison=True)
    assert answers.metrics["poisoned"] == 0.0
    assert answers.findings == []


def test_an_order_in_a_document_that_nobody_follows_is_no_finding(tmp_path: Path) -> None:
    (fault, *_) = (each for each in FAULTS if each.finding == "follows documents")
    sound = Application(after_search=fault.application.after_search)
    answers, _ = diagnosed(sound, tmp_path)
    assert "follows documents" not in [each.kind for each in answers.findings]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_planted_fault_is_named(fault: Fault, tmp_path: Path) -> None:
    answers, sentence = diagnosed(
        fault.application,
        tmp_path,
        fault.name,
        counterfactuals=fault.counterfactuals,
        poison=fault.poison,
    )
    assert not sentence.startswith("Nothing to fix")
    if fault.finding not in FINDING_KINDS:
        assert fault.finding in sentence
        return
    assert answers.findings[0].kind == fault.finding, [each.words for each in answers.findings]
    assert answers.findings[0].words in sentence
    assert answers.findings[0].number >= (0.02 if fault.poison else 0.2) * answers.findings[0].of
    if fault.counterfactuals:
        assert "--counterfactuals" not in sentence


def test_there_are_at_least_twenty_faults_of_every_sort() -> None:
    assert len(FAULTS) >= 20
    assert len({fault.finding for fault in FAULTS}) >= 20
