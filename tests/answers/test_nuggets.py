"""Which nuggets an answer states: rules, a judge in both orders, the scores, and bad judges."""

import asyncio
import json
import re
from collections.abc import Callable

import pytest

from assay.answers.judge import Judge, parse_words, ruled
from assay.data import load_dataset
from assay.evaluation.answers.nuggets import (
    SUPPORT,
    ask_nugget_controls,
    assign_by_judge,
    assign_by_rules,
    assignment,
    nugget_scores,
)
from assay.labels.references import Importance, Nugget

FACT = re.compile(r"Fact \d+:\n<fact \w+>\n(.*?)\n</fact", re.DOTALL)
ANSWER = re.compile(r"Answer:\n<answer \w+>\n(.*?)\n</answer", re.DOTALL)


def nugget(text: str, importance: Importance = Importance.VITAL, id: str = "n") -> Nugget:
    return Nugget(id, text, importance)


class Model:
    """A judge whose reply is made from facts and answer."""

    name = "test:model"

    def __init__(self, label: Callable[[str, str], str]) -> None:
        self.label = label
        self.prompts: list[str] = []

    async def generate(self, prompt: str, max_tokens: int = 100) -> str:
        self.prompts.append(prompt)
        (answer,) = ANSWER.findall(prompt)
        return json.dumps([self.label(fact, answer) for fact in FACT.findall(prompt)])


def reads(fact: str, answer: str) -> str:
    return "support" if fact in answer else "none"


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("The pool opens at 7:00.", "SUPPORT"),
        ("At 7:00.", "SUPPORT"),
        ("It opens at 8:00.", "NONE"),
        ("The pool does not open at 7:00.", "NONE"),
        ("It is not at 7:00 that the pool opens.", "NONE"),
        ("The pool, which is not large, opens at 7:00.", "SUPPORT"),
        ("The pool opens at 7:00. That is wrong, however.", "NONE"),
        ("I do not know.", "NONE"),
        ("The zoo has otters.", "NONE"),
        ("", "NONE"),
        (None, "NONE"),
    ],
)
def test_rules_want_words_and_numbers_and_no_denial(answer: str | None, expected: str) -> None:
    found = assign_by_rules("When does the pool open?", answer, "The pool opens at 7:00")
    assert found.worst == expected


def test_rules_give_half_for_a_part() -> None:
    fact = "Bus 4 and bus 9 stop there and cost 2.80 euros"
    found = assign_by_rules("What stops there?", "Bus 4 stops and costs 2.80 euros.", fact)
    assert (found.worst, assignment(nugget(fact), found).credit) == ("PARTIAL", 0.5)


def test_rules_tell_the_facts_of_the_notes_from_those_of_other_questions() -> None:
    """The thresholds were chosen here; what rules cannot see is that other words may mean it."""
    notes = load_dataset("notes")
    known = [
        (notes.queries[each.query_id].text, each.answer, each.facts)
        for each in notes.answers.values()
        if each.answer and each.facts
    ]
    own, others = [], []
    for place, (question, answer, facts) in enumerate(known):
        other = known[(place + 7) % len(known)][1]
        for fact in facts:
            own.append(assign_by_rules(question, answer, fact.text).worst)
            others.append(assign_by_rules(question, other, fact.text).worst)
    order = ("SUPPORT", "PARTIAL", "NONE")  # as docs/answers.md says
    assert [own.count(each) for each in order] == [165, 16, 2]
    assert [others.count(each) for each in order] == [0, 0, 183]


def test_a_judge_assigns_batches_in_both_orders() -> None:
    model = Model(reads)
    facts = [f"fact {n}." for n in range(12)]
    answer = "It says fact 3. And fact 11. Nothing else."
    assigned = asyncio.run(assign_by_judge(Judge(model), "What?", answer, facts))
    assert [place for place, each in enumerate(assigned) if each.verdict] == [3, 11]
    assert len(model.prompts) == 4  # two batches, two orders
    first, second = model.prompts[:2]
    assert first.index("<fact") < first.index("<answer")
    assert second.index("<answer") < second.index("<fact")
    assert FACT.findall(second) == FACT.findall(first)[::-1]


def test_a_model_that_cannot_make_lists_is_asked_one_by_one() -> None:
    class Alone(Model):
        async def generate(self, prompt: str, max_tokens: int = 100) -> str:
            facts = FACT.findall(prompt)
            (answer,) = ANSWER.findall(prompt)
            return reads(facts[0], answer).capitalize() if len(facts) == 1 else "I cannot."

    facts = ["one", "two"]
    assigned = asyncio.run(assign_by_judge(Judge(Alone(reads)), "What?", "It is two.", facts))
    assert [each.worst for each in assigned] == ["NONE", "SUPPORT"]


def test_an_answer_that_declines_costs_no_call() -> None:
    model = Model(reads)
    assigned = asyncio.run(assign_by_judge(Judge(model), "What?", "I don't know.", ["a"]))
    assert (assigned[0].worst, model.prompts) == ("NONE", [])


@pytest.mark.parametrize(
    ("label", "failure"),
    [
        ("support", "accepted 3 of 3 wrong texts"),
        ("none", "rejected 3 of 3 correct texts"),
    ],
)
def test_a_judge_that_says_one_thing_about_everything_fails_its_controls(
    label: str, failure: str
) -> None:
    nuggets = [("What?", "Tea"), ("Who?", "Fish"), ("Where?", "Moon")]
    found = asyncio.run(ask_nugget_controls(Judge(Model(lambda _f, _a: label)), nuggets, 5))
    assert found is not None
    assert failure in (found.failure or "")
    good = asyncio.run(ask_nugget_controls(Judge(Model(reads)), nuggets, 5))
    assert good is not None
    assert good.words == "6 of 6 controls right, 0 of them with one thing changed"
    assert good.failure is None


def test_the_scores_are_those_of_trec() -> None:
    """Two vital (one stated, one in part) and two others (one stated, one not)."""
    assigned = [
        assignment(nugget("a"), ruled("SUPPORT", SUPPORT)),
        assignment(nugget("b"), ruled("PARTIAL", SUPPORT)),
        assignment(nugget("c", Importance.OKAY), ruled("SUPPORT", SUPPORT)),
        assignment(nugget("d", Importance.OKAY), ruled("NONE", SUPPORT)),
    ]
    assert nugget_scores(assigned) == {
        "nugget_recall": 2.5 / 4,
        "nugget_recall_strict": 2 / 4,
        "nugget_recall_weighted": (1 + 0.5 + 0.5) / 3,
        "nugget_recall_vital": 1.5 / 2,
        "nugget_recall_vital_strict": 1 / 2,
    }
    assert "nugget_recall_vital" not in nugget_scores(assigned[2:])
    assert nugget_scores([]) == {}


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ('["SUPPORT", "none"]', ["SUPPORT", "NONE"]),
        ('```json\n["support", "none"]\n```', ["SUPPORT", "NONE"]),
        ('["support"]', None),
        ('["support", "maybe"]', None),
        ('Here: ["support", "none"]', None),
    ],
)
def test_labels_are_read_strictly(reply: str, expected: list[str] | None) -> None:
    assert parse_words(reply, ("SUPPORT", "PARTIAL", "NONE"), 2) == expected
