"""Control pairs: which are made, and which judges fail them."""

import pytest

from assay.answers.judge import Judgment, ruled
from assay.answers.judge_controls import (
    UNRELATED,
    ControlPair,
    altered_pairs,
    ask_controls,
    control_pairs,
    near_misses,
)

REFERENCES = [
    ("When does the pool open?", "The pool opens at 7:00."),
    ("What does the bus cost?", "A ride costs 2.80 euros."),
    ("Who is mayor?", "Ottilie Brandt, since 2019."),
    ("How deep is the lake?", "Its bottom lies 34 meters below."),
]


def test_pairs_are_of_both_kinds_and_bounded() -> None:
    pairs = control_pairs(REFERENCES * 10, 3)
    assert [pair.same for pair in pairs] == [True, False] * 3
    assert all((pair.answer == pair.reference) is pair.same for pair in pairs)
    assert control_pairs(REFERENCES, 0) == []


def test_a_reference_that_says_the_same_elsewhere_is_not_a_wrong_answer() -> None:
    alike = [("Open when?", "At 7:00."), ("When does it open?", "It opens at 7:00.")]
    pairs = control_pairs(alike, 5)
    assert [pair.answer for pair in pairs if not pair.same] == [UNRELATED, UNRELATED]
    declined = [("Who?", "The documents do not answer this question."), *REFERENCES[:2]]
    assert {pair.question for pair in control_pairs(declined, 5)} == {
        question for question, _ in REFERENCES[:2]
    }
    assert control_pairs(REFERENCES[:1], 5) == []


def test_a_reference_with_one_change_is_a_control() -> None:
    pairs = altered_pairs(REFERENCES, 5)
    assert [pair.answer for pair in pairs] == [
        "A ride costs 6.6 euros.",
        "Ottilie Brandt, since 4039.",
        "Its bottom lies 69 meters below.",
    ]
    assert all(pair.answer != pair.reference and not pair.same for pair in pairs)
    assert altered_pairs(REFERENCES, 2) == pairs[:2]
    assert altered_pairs([("Who?", "Gladly.")], 5) == []


@pytest.mark.parametrize(("asked", "most"), [(0, 0), (3, 1), (10, 2), (40, 6)])
async def test_a_judge_may_let_a_few_near_misses_through(asked: int, most: int) -> None:
    async def believes(number: int) -> str | None:
        async def ask(pair: ControlPair) -> Judgment:
            return ruled("TRUE" if pair.same or int(pair.answer) < number else "FALSE")

        pairs = [ControlPair("?", str(asked), "", same) for same in (True, False)]
        altered = [ControlPair("?", str(place), "", False) for place in range(asked)]
        return (await ask_controls(pairs, ask, altered)).failure

    assert await believes(most) is None
    if most:
        assert f"accepted {most + 1} of {asked} correct texts" in (await believes(most + 1) or "")


@pytest.mark.parametrize(
    ("text", "changed"),
    [
        ("It opens at 7 in May.", "It opens at 15 in May."),
        ("It is open.", "It is not open."),
        ("It is not open.", "It is open."),
        ("We met Anna there.", "We met Bert there."),
    ],
)
def test_one_thing_is_changed(text: str, changed: str) -> None:
    assert next(near_misses(text, ["Bert"])) == changed
