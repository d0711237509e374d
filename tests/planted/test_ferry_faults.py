"""A ferry line: tables, rates, dates, conditions, people and editions, each fault named."""

from pathlib import Path

import pytest
from tests.planted.ferry_faults import FERRY_FAULTS
from tests.planted.workshop import Change, application, workshop
from tests.planted.workshop_faults import WorkshopFault

from assay.answers.abstention import abstained
from assay.answers.contradiction.rules import ContradictionChecker
from assay.evaluation.api import evaluate
from assay.run.answers import AnswersReport


def diagnosed(out: Path, change: Change = lambda reply, query_id: reply) -> AnswersReport:
    dataset = workshop("Ferry")
    answers = evaluate(application(dataset, change), dataset, out=out, answers=True).report.answers
    assert answers is not None
    return answers


def test_right_answers_of_the_ferry_have_no_finding(tmp_path: Path) -> None:
    answers = diagnosed(tmp_path)
    assert answers.findings == []
    assert answers.contradictions is not None
    assert answers.contradictions.sentences == 0


@pytest.mark.parametrize("fault", FERRY_FAULTS, ids=lambda fault: fault.name)
def test_a_fault_of_the_ferry_is_named(fault: WorkshopFault, tmp_path: Path) -> None:
    answers = diagnosed(tmp_path, fault.change)
    assert answers.findings, answers.diagnosis
    found = [each.words for each in answers.findings]
    assert answers.findings[0].kind == fault.finding, found
    assert answers.findings[0].number >= fault.fewest, found


TABLE = "| room | beds | price |\n|---|---|---|\n| Alder | 2 | 60 euros |\n| Birch | 4 | 95 euros |"


@pytest.mark.parametrize(
    ("said", "source", "kind"),
    [
        ("Alder costs 95 euros.", TABLE, "number"),
        ("The shop closes at 9:30 at night.", "The shop closes at 9:30 in the morning.", "date"),
        ("The shop closes at 9:30 p.m.", "The shop closes at 9:30 a.m. daily.", "date"),
        ("A locker costs 3 euros a month.", "A locker costs 3 euros per week.", "unit"),
        ("The new pier opens on 05/06/2027.", "The new pier opens on 06/05/2027.", "date"),
        ("Mara Ortiz runs the shop.", "Mara Lindt runs the shop. Ben Ortiz cooks.", "name"),
        ("Entry is free for members.", "Entry is free for guests. The members pay.", "roles"),
        (
            "Luggage may weigh 20 kg.",
            "Luggage may weigh 30 kg. Until 2025 luggage could weigh 20 kg.",
            "number",
        ),
    ],
)
def test_a_value_from_the_wrong_place_is_a_contradiction(said: str, source: str, kind: str) -> None:
    (found,) = ContradictionChecker().find(said, [source])
    assert found.kind == kind
    assert found.said != found.source


@pytest.mark.parametrize(
    ("said", "source"),
    [
        ("Alder costs 60 euros.", TABLE),
        ("Birch costs 95 euros and Alder 60 euros.", TABLE),
        ("The shop closes at 9:30 at night.", "The shop closes at 9:30 in the evening."),
        ("The shop closes at 9:30.", "The shop closes at 9:30 in the evening."),
        ("A locker costs 3 euros a week.", "A locker costs 3 euros per week."),
        ("A locker costs 3 euros.", "A locker costs 3 euros per week."),
        ("It opens on 06/05/2027 to all.", "It opens on 06/05/2027 to all."),
        ("Captain Mara Lindt runs the shop.", "Mara Lindt runs the shop. Ben Ortiz cooks."),
        ("Entry is free for kids.", "Entry is free for children. The members pay."),
        ("No, entry to the engine room is forbidden.", "Entry to the engine room is forbidden."),
        ("Until 2025 the limit was 20 kg.", "The limit is 30 kg. Until 2025 the limit was 20 kg."),
    ],
)
def test_the_same_value_in_its_place_is_none(said: str, source: str) -> None:
    assert ContradictionChecker().find(said, [source]) == []


@pytest.mark.parametrize(
    ("said", "declines"),
    [
        ("For reasons of data protection this may not be disclosed.", True),
        ("This information is confidential.", True),
        ("The page could not be loaded.", True),
        ("I am not permitted to share that.", True),
        ("The door code may not be disclosed to guests.", False),
        ("The minutes are confidential until May.", False),
        ("Dogs are not permitted to enter.", False),
    ],
)
def test_a_refusal_for_a_reason_is_told_from_an_answer(said: str, declines: bool) -> None:
    assert abstained(said) is declines
