"""The question that a wrong answer belongs to: found by its stems, as by comparing with each."""

import random
from collections.abc import Sequence

from assay.answers.answer_metrics import AnswerCase
from assay.answers.answer_view import AnswerView
from assay.answers.answered_question import (
    ExpectedAnswer,
    QuestionIndex,
    expected_answers,
)
from assay.answers.findings import find_faults
from assay.answers.lexical import stated_facts
from assay.data.dataset import Fact, ReferenceAnswer
from assay.text import stems

VOCABULARY = """
    berth mooring pound fee harbour treasurer chair office ferry crane diesel ladder rope jetty
    winter permit visitor sail engine lamp
"""
WORDS = VOCABULARY.split()


def random_view(number: int, rng: random.Random) -> AnswerView:
    def some(most: int) -> list[str]:
        return [rng.choice(WORDS) for _ in range(rng.randint(0, most))]

    reference = some(6)
    facts = (Fact(reference[0], (reference[0],)),) if reference and rng.random() < 0.7 else ()
    answer = ReferenceAnswer(f"q{number}", " ".join(reference), facts, ("doc",))
    said = " ".join(some(8)) or "the"
    return AnswerView(AnswerCase(f"q{number}", " ".join(some(4)), answer, answer=said), {}, False)


def compared_with_each(view: AnswerView, expected: Sequence[ExpectedAnswer]) -> str | None:
    """What `QuestionIndex.other_question` finds, without an index."""
    if view.correct or view.stated:
        return None
    said = frozenset(stems(view.text))
    others = [each for each in expected if each.query_id != view.case.query_id]
    own = view.reference_stems
    if len(own) >= 3 and len(said & own) <= 0.3 * len(own):
        for each in others:
            enough = len(said & each.reference) >= 0.6 * len(each.reference)
            if len(each.reference) >= 3 and enough:
                return each.query_id
    fits = len(said & (own | set(stems(view.case.question)))) + 0.3 * len(said)
    for each in sorted(others, key=lambda each: -len(said & each.profile))[:5]:
        fitting = len(said & each.profile) >= fits and each.facts
        if fitting and len(stated_facts(view.text, each.facts)) == len(each.facts):
            return each.query_id
    return None


def test_the_index_finds_what_a_comparison_with_every_question_finds() -> None:
    rng = random.Random(0)
    found = []
    for _ in range(40):
        views = [random_view(number, rng) for number in range(rng.randint(1, 30))]
        more = [random_view(100 + number, rng).case.reference for number in range(5)]
        expected = expected_answers(views, more)
        index = QuestionIndex(expected)
        for view in views:
            found.append(index.other_question(view))
            assert found[-1] == compared_with_each(view, expected)
    assert None in found
    assert len(set(found)) > 10


class CountedStems(frozenset[str]):
    """Stems of a reference that count how often they are compared with others."""

    compared = 0

    def __rand__(self, other: frozenset[str]) -> frozenset[str]:
        CountedStems.compared += 1
        return frozenset(self) & other


def test_an_answer_is_not_compared_with_each_reference() -> None:
    views = []
    for number in range(50):
        reference = ReferenceAnswer(f"q{number}", f"berth{number} fee{number} rope{number}", ())
        said = f"crane{number} diesel{number} lamp{number}"
        case = AnswerCase(f"q{number}", f"What about {number}?", reference, answer=said)
        view = AnswerView(case, {}, False)
        vars(view)["reference_stems"] = CountedStems(view.reference_stems)
        views.append(view)
    find_faults(views)
    assert CountedStems.compared < 10 * len(views)
