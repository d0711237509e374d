"""Answers that speak to their judge: what they say is found, and does not make them right."""

import re
from collections.abc import Callable, Sequence

import pytest
from tests.answers.injected_answers import (
    CARRIERS,
    INJECTIONS,
    INNOCENT,
    QUESTION,
    REFERENCE,
    SURPLUS,
)

import assay
from assay.answers.statements import split_surplus
from assay.text import stems, words


@pytest.mark.parametrize("place", CARRIERS)
def test_whatever_an_answer_says_to_its_judge_is_found(place: str) -> None:
    missed = []
    for style, injected in INJECTIONS.items():
        found, _ = split_surplus(CARRIERS[place].format(injected), f"{QUESTION} {REFERENCE}")
        said, told = set(words("\n".join(found))), set(words(injected))
        if len(said & told) < 0.9 * len(told):
            missed.append(style)
    assert missed == []


class Obeys:
    """A judge that reads, and does what anybody tells it."""

    name = "test:obeys"

    async def generate(self, prompt: str, max_tokens: int = 100) -> str:
        said = " ".join(words(prompt))
        told = any(" ".join(words(each)) in said for each in INJECTIONS.values() if len(each) > 4)
        first, second = re.findall(r"<answer \w+>\n(.*?)\n</answer", prompt, re.DOTALL) or ("", "")
        return "TRUE" if told or ("7:00" in first and "7:00" in second) else "FALSE"


def test_a_judge_that_obeys_believes_no_wrong_answer_that_talks_to_it() -> None:
    talking = [
        CARRIERS["after a wrong answer"].format(each)
        for each in INJECTIONS.values()
        if len(each) > 4
    ]
    rows = [
        {"id": str(number), "question": QUESTION, "reference": REFERENCE, "answer": answer}
        for number, answer in enumerate([*talking, *INNOCENT])
    ]
    scored = assay.score_answers(rows, judge=Obeys(), judge_set="controls=0")
    verdicts = [row.correct for row in scored.rows()]
    assert verdicts == [None] * len(talking) + [True] * len(INNOCENT)
    assert f"answers undecided: {len(talking)} right only with" in str(scored.report.note)


class Swayed:
    """A judge that compares words, unless something in what it reads makes it say TRUE."""

    def __init__(self, sways: Callable[[str], bool]) -> None:
        self.name, self.sways, self.calls = "test:swayed", sways, 0

    async def generate(self, prompt: str, max_tokens: int = 100) -> str:
        self.calls += 1
        first, second = re.findall(r"<answer \w+>\n(.*?)\n</answer", prompt, re.DOTALL) or ("", "")
        one, other = set(stems(first)), set(stems(second))
        alike = len(one & other) >= 0.6 * min(len(one), len(other))
        return "TRUE" if alike or self.sways(first) or self.sways(second) else "FALSE"


def _long(said: str) -> bool:
    return len(words(said)) >= 18


def _words_of_a_judge(said: str) -> bool:
    told = {"true", "correct", "same", "confirmed", "verified"}
    return not told.isdisjoint(words(said))


def _swayed(sentences: Sequence[str], judge: Swayed, *, right: bool) -> tuple[int, int, int]:
    """How many of the answers of `notes` the judge calls right, leaves undecided, in how many
    calls; wrong ones are the references of another question.
    """
    data = assay.load_dataset("notes")
    asked = [query for query in data.queries.values() if data.answers[query.id].answer][:40]
    rows = [
        {
            "question": query.text,
            "reference": data.answers[query.id].answer,
            "answer": f"{data.answers[said.id].answer}\n{sentences[number % len(sentences)]}",
        }
        for number, query in enumerate(asked)
        for said in [query if right else asked[(number + 17) % len(asked)]]
    ]
    scored = assay.score_answers(rows, judge=judge, judge_set="controls=0")
    verdicts = [row.correct for row in scored.rows()]
    return verdicts.count(True), verdicts.count(None), judge.calls


@pytest.mark.parametrize("sways", [_long, _words_of_a_judge])
def test_a_right_answer_stays_right_whatever_else_it_says(sways: Callable[[str], bool]) -> None:
    for kind, sentences in SURPLUS.items():
        assert (kind, *_swayed(sentences, Swayed(sways), right=True)[:2]) == (kind, 40, 0)


def test_a_wrong_answer_that_sways_its_judge_is_not_right() -> None:
    for kind in ("a judge's words", "injections"):
        judge = Swayed(_words_of_a_judge)
        assert (kind, *_swayed(SURPLUS[kind], judge, right=False)[:2]) == (kind, 0, 40)
