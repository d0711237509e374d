"""Which question of a data set an answer belongs to, where that is another than its own.

An inverted index leads from each stem to the questions that have it: the questions are counted up
by the stems of an answer, and not compared with it one by one.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from assay.answers.answer_view import AnswerView
from assay.answers.lexical import stated_facts
from assay.data.dataset import Fact, ReferenceAnswer
from assay.text import stems

_FEWEST_STEMS = 3
_MINE, _THEIRS = 0.3, 0.6
_MORE = 0.3
_NEAREST = 5

Counts = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class ExpectedAnswer:
    """What belongs to one question: the stems of its reference, those of both, its key facts."""

    query_id: str
    reference: frozenset[str]
    profile: frozenset[str]
    facts: tuple[Fact, ...]


def expected_answers(
    views: Sequence[AnswerView], references: Iterable[ReferenceAnswer]
) -> list[ExpectedAnswer]:
    """One for each question that was asked, then one for each other that has a reference."""
    found = {
        view.case.query_id: ExpectedAnswer(
            view.case.query_id,
            view.reference_stems,
            view.reference_stems | set(stems(view.case.question)),
            view.case.reference.facts,
        )
        for view in views
    }
    for each in references:
        if said := frozenset(stems(each.answer or "")):
            found.setdefault(each.query_id, ExpectedAnswer(each.query_id, said, said, each.facts))
    return list(found.values())


class QuestionIndex:
    """Finds the question that an answer belongs to among those whose answers are expected."""

    def __init__(self, expected: Sequence[ExpectedAnswer]) -> None:
        self._expected = expected
        self._places = {each.query_id: place for place, each in enumerate(expected)}
        self._references = _StemIndex([each.reference for each in expected])
        self._profiles = _StemIndex([each.profile for each in expected])

    def other_question(self, view: AnswerView) -> str | None:
        """The question that an answer belongs to, where that is another than its own."""
        if view.correct or view.stated:
            return None
        said = frozenset(stems(view.text))
        own = view.reference_stems
        if len(own) >= _FEWEST_STEMS and len(said & own) <= _MINE * len(own):
            for place in self._with_reference_in(said, view.case.query_id):
                return self._expected[place].query_id
        fits = len(said & (own | set(stems(view.case.question)))) + _MORE * len(said)
        for place in self._nearest(said, fits, view.case.query_id):
            each = self._expected[place]
            if each.facts and len(stated_facts(view.text, each.facts)) == len(each.facts):
                return each.query_id
        return None

    def _with_reference_in(self, said: frozenset[str], own_id: str) -> list[int]:
        """The places of other questions most of whose reference an answer says, in their order."""
        sizes = self._references.sizes
        enough = self._references.shared(said) >= _THEIRS * sizes
        return self._without(np.flatnonzero(enough & (sizes >= _FEWEST_STEMS)), own_id)

    def _nearest(self, said: frozenset[str], fits: float, own_id: str) -> list[int]:
        """The places of other questions that share most stems with an answer, `fits` or more."""
        shared = self._profiles.shared(said)
        fitting = np.flatnonzero(shared >= fits)
        ordered = fitting[np.argsort(-shared[fitting], kind="stable")]
        return self._without(ordered, own_id)[:_NEAREST]

    def _without(self, places: Counts, own_id: str) -> list[int]:
        own = self._places.get(own_id)
        return [place for place in places.tolist() if place != own]


class _StemIndex:
    """Sets of stems, by stem."""

    def __init__(self, sets: Sequence[frozenset[str]]) -> None:
        self.sizes = np.array([len(each) for each in sets], np.int64)
        holders: defaultdict[str, list[int]] = defaultdict(list)
        for place, held in enumerate(sets):
            for each in held:
                holders[each].append(place)
        self._holders = {each: np.array(places) for each, places in holders.items()}

    def shared(self, said: frozenset[str]) -> Counts:
        """How many of the stems each set has."""
        found = [self._holders[each] for each in said if each in self._holders]
        if not found:
            return np.zeros(len(self.sizes), np.int64)
        return np.bincount(np.concatenate(found), minlength=len(self.sizes))
