"""Planted faults are named, in most answers and in two; right answers are not blamed."""

import pytest
from tests.planted import garden_faults, rental_faults
from tests.planted.application import Change, Replies, cases, changed, handbook, healthy, in_two

from assay.answers.checks import find_faults

FAULTS = [
    *(("garden", fault) for fault in garden_faults.FAULTS),
    *(("rental", fault) for fault in rental_faults.RENTAL_FAULTS),
]
STYLES = [
    *(("garden", style, garden_faults.styled(style)) for style in garden_faults.STYLES),
    *(("rental", style, rental_faults.styled(style)) for style in rental_faults.STYLES),
]


def found(name: str, replies: Replies, *, facts: bool = True) -> set[str]:
    return {each.kind for each in find_faults(cases(name, replies, facts=facts))}


@pytest.mark.parametrize("facts", [True, False], ids=["key facts", "references only"])
@pytest.mark.parametrize(("rare", "share"), [(False, 0.9), (True, 0.75)], ids=["most", "two"])
def test_most_faults_are_named(rare: bool, share: float, facts: bool) -> None:
    unnamed = []
    for name, fault in FAULTS:
        replies = changed(name, fault.change)
        replies = in_two(name, replies) if rare else replies
        if not fault.named & found(name, replies, facts=facts):
            unnamed.append(fault.name)
    assert len(unnamed) <= (1 - share) * len(FAULTS), unnamed


def test_every_fault_changes_at_least_two_answers() -> None:
    for name, fault in FAULTS:
        replies = changed(name, fault.change)
        assert sum(replies[each] != healthy(name)[each] for each in replies) >= 2, fault.name


@pytest.mark.parametrize(
    ("name", "change"),
    [each[::2] for each in STYLES],
    ids=[f"{name}: {style}" for name, style, _ in STYLES],
)
def test_right_answers_in_any_style_have_no_finding(name: str, change: Change) -> None:
    assert found(name, changed(name, change)) == set()


def test_the_lists_are_as_long_as_they_say() -> None:
    assert len(garden_faults.FAULTS) >= 50
    assert len(garden_faults.STYLES) == 20
    assert len(handbook("garden").documents) == 20
