"""Control pairs: which are made, and which judges fail them."""

import re

import pytest

from assay.answers.judge import Judge
from assay.answers.judge_controls import (
    UNRELATED,
    ControlPair,
    altered_pairs,
    ask_controls,
    control_pairs,
    max_believed,
    near_misses,
)
from assay.metrics.answer_values import JudgeControls
from assay.text import stems

REFERENCES = [
    ("When does the pool open?", "The pool opens at 7:00."),
    ("What does the bus cost?", "A ride costs 2.80 euros."),
    ("Who is mayor?", "Ottilie Brandt, since 2019."),
    ("How deep is the lake?", "Its bottom lies 34 meters below."),
]


class Rule:
    """Replies by a rule over the prompt."""

    name = "test:rule"

    def __init__(self, word: str = "", right: int = 100) -> None:
        self.word = word
        self.right = right
        self.asked = 0

    async def generate(self, prompt: str, max_tokens: int = 100) -> str:
        self.asked += 1
        same = any(prompt.count(said) == 2 for _, said in REFERENCES)
        wrong = self.asked > self.right
        return self.word or ("TRUE" if same is not wrong else "FALSE")


async def asked(
    model: object, pairs: list[ControlPair], altered: list[ControlPair] | None = None
) -> JudgeControls:
    judge = Judge(model)  # type: ignore[arg-type]
    return await ask_controls(pairs, lambda pair: judge.correctness(*pair[:3]), altered or [])


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


@pytest.mark.parametrize(
    ("model", "failure"),
    [
        (Rule(), None),
        (Rule("TRUE"), "it accepted 4 of 4 wrong texts"),
        (Rule("FALSE"), "it rejected 4 of 4 correct texts"),
        (Rule("I think so"), "gave no verdict for 8 of 8 controls: it replied 'I think so'"),
        (Rule(right=13), None),
    ],
    ids=["reads", "true", "false", "mute", "one slip"],
)
async def test_which_judges_fail(model: Rule, failure: str | None) -> None:
    result = await asked(model, control_pairs(REFERENCES, 5))
    assert model.asked == 16
    assert (failure is None) is (result.failure is None)
    assert failure is None or failure in str(result.failure)


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


class Lenient:
    """Says TRUE where the two answers share words, whatever else they say."""

    name = "test:lenient"

    async def generate(self, prompt: str, max_tokens: int = 100) -> str:
        first, second = re.findall(r"<answer \w+>\n(.*?)\n</answer", prompt, re.DOTALL)
        return "TRUE" if set(stems(first)) & set(stems(second)) else "FALSE"


async def test_a_judge_that_only_compares_words_is_not_believed() -> None:
    pairs, altered = control_pairs(REFERENCES, 5), altered_pairs(REFERENCES, 5)
    assert (await asked(Lenient(), pairs)).failure is None
    result = await asked(Lenient(), pairs, altered)
    assert "it accepted 3 of 3 correct texts with one number" in str(result.failure)
    assert (await asked(Rule(), pairs, altered)).failure is None


@pytest.mark.parametrize(("asked", "most"), [(0, 0), (3, 1), (10, 2), (40, 6)])
def test_a_judge_may_let_a_few_near_misses_through(asked: int, most: int) -> None:
    assert max_believed(asked) == most


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
