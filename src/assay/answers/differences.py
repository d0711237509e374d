"""How a sentence of an answer differs from the nearest sentence of its sources.

>>> differences("A locker costs 5 euros.", {"A locker costs 3 euros.": "the source"})
[Difference(kind='number', said='5 euros', expected='3 euros', origin='nothing shown')]
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache

from assay.answers.case import AnswerCase, once
from assay.answers.outcome import EXCEPTING, beside_values, exchanged, outcome
from assay.answers.statements import TALK, without_label
from assay.answers.values import (
    CLAUSES,
    Value,
    content,
    denied,
    is_in,
    opposes,
    polarity,
    same_unit,
    tokens,
    values,
)
from assay.metrics.answer_values import Difference
from assay.text import sentences, stem, words

_NEAR_SHARE, _NEARER_SHARE = 0.6, 0.75
_SHORT_ANSWER = 30
_MAX_CLAIMS = 100
_OPPOSITE_WORDS = """more less, most least, before after, above below, over under, higher lower,
    always never, morning evening, allowed forbidden, earlier later, minimum maximum,
    inside outside, larger smaller, longer shorter, first last, left right, open closed,
    must may, with without, raise lower, increase decrease, rise fall, accept reject,
    include exclude, gain lose, early late, high low"""
_PAIRS = [[*map(stem, pair.split())] for pair in _OPPOSITE_WORDS.split(",")]
_OPPOSITES = [*_PAIRS, *(pair[::-1] for pair in _PAIRS)]
_NOWHERE = "nothing shown"
_ENGLISH_ONLY = ("name", "polarity", "opposite")
_ALLOWED = content("allowed permitted accepted possible")


@once
def case_differences(case: AnswerCase) -> list[Difference]:
    """How the claims of an answer differ from what was shown, or else from the reference."""
    if not case.attempted:
        return []
    sources = {case.reference.answer or "": "the reference"}
    for needed, origin in ((True, "the needed document"), (False, "another document shown")):
        for doc_id, text in case.shown.items():
            if (doc_id in case.needed) == needed:
                sources.setdefault(text, origin)
    index = SentenceIndex(sources)
    known = f"{case.question}\n{case.reference.answer or ''}"
    found = [
        difference
        for claim in case.claims[:_MAX_CLAIMS]
        for difference in index.differences(claim, known)
    ]
    if swapped := exchanged(case.said, case.reference.answer or ""):
        found.append(_exchange(*swapped))
    if not found and outcome(case).is_wrong and len(words(case.said)) < _SHORT_ANSWER:
        held = values(case.reference.answer or "")
        found = [*index.other_values(values(case.said), held, case.question, bare=True)]
    # Elsewhere nouns have capitals, and negations other words.
    return [each for each in found if case.is_english or each.kind not in _ENGLISH_ONLY]


def _exchange(one: Value, other: Value) -> Difference:
    return Difference(kind=one.kind, said=one.text, expected=other.text, origin="its other place")


def differences(sentence: str, sources: Mapping[str, str]) -> list[Difference]:
    """How a sentence differs from the nearest of the sources, which are texts with their origin."""
    return SentenceIndex(sources).differences(sentence)


class SentenceIndex:
    """The sentences of some sources by their stems, to find the nearest ones."""

    def __init__(self, sources: Mapping[str, str]) -> None:
        self._sources = sources
        self._rows = [row for text in sources for row in rows_of(text)]
        self._by_stem: dict[str, list[int]] = {}
        for place, row in enumerate(self._rows):
            for word in content(row):
                self._by_stem.setdefault(word, []).append(place)

    def differences(self, sentence: str, known: str = "") -> list[Difference]:
        """How the sentence differs from all of the nearest ones; nothing if none is near.

        The values of `known`, what was asked and is expected, are never wrong.
        """
        sentence = without_label(sentence, self._by_stem)
        said = content(sentence) - TALK
        shared = Counter(place for word in said for place in self._by_stem.get(word, ()))
        best = max(shared.values(), default=0)
        if not said or best < _NEAR_SHARE * len(said):
            return []
        near = [self._rows[place] for place in sorted(shared) if shared[place] == best]
        held = {value for row in near for value in values(row)}
        # Two clauses of one sentence may be about two things, each with its values.
        about = {word for row in near for word in content(row)}
        beside = beside_values(sentence)
        figures = [value for value in beside if not beside[value] or beside[value] & about]
        found = [*self.other_values(figures, held, known)]
        if len(said) == 1 or best < _NEARER_SHARE * len(said):
            return found
        # A row that has the sentence's values as well is as near as one with more of its words.
        further = (
            self._rows[place] for place, n in shared.items() if best - len(figures) <= n < best
        )
        near += [
            row
            for row in further
            if len(content(row) & said) + sum(is_in(each, values(row)) for each in figures) >= best
        ]
        swaps = [swap for row in near if (swap := exchanged(sentence, row))]
        found += [_exchange(*swaps[0])] if len(swaps) == len(near) else []
        return [*_reversals(sentence, near), *found]

    def other_values(
        self, said: Collection[Value], held: Collection[Value], known: str, *, bare: bool = False
    ) -> Iterator[Difference]:
        """Values in the place of others of their kind, which were not said either; `bare` numbers
        may stand for some with a unit.
        """
        right = [*held, *values(known)]
        for value in sorted(said, key=lambda each: each.text):
            others = sorted(
                (each for each in held if each.kind == value.kind),
                key=lambda each: (each.unit != value.unit, each.text),
            )
            free = [other for other in others if other.key == value.key] or [
                other
                for other in others
                if not is_in(other, said)
                and same_unit(other.unit, value.unit)
                and (bool(other.unit) == bool(value.unit) or (bare and not value.unit))
            ]
            if not free or is_in(value, right):
                continue
            origin = self._origin(value)
            # A capital that begins a sentence of the sources may not be a name.
            named = {*words(value.text)} if value.kind == "name" else {""}
            if origin == _NOWHERE and any(named <= {*words(text)} for text in self._sources):
                continue
            kind = "unit" if value.key == free[0].key else value.kind
            yield Difference(kind=kind, said=value.text, expected=free[0].text, origin=origin)

    def _origin(self, value: Value) -> str:
        origins = (where for text, where in self._sources.items() if is_in(value, values(text)))
        return next(origins, _NOWHERE)


def _reversals(sentence: str, near: Sequence[str]) -> Iterator[Difference]:
    limits = {
        value: others
        for value in values(sentence)
        if (others := [each for row in near for each in values(row) if is_in(value, [each])])
        and value.bound
        and all(each.bound for each in others)
    }
    for value, others in limits.items():
        if all(opposes(value, each) for each in others):
            said, expected = ("at least", "at most")[:: value.bound]
            yield Difference(kind="opposite", said=f"{said} {value.text}", expected=expected)
    # "Not more than 5" is no denial of "up to 5".
    is_denied = not limits and all(_denies(sentence, row) or _denies(row, sentence) for row in near)
    # "Must not" means "may not".
    plain = (" ".join(tokens(text)).replace("must not", "may not") for text in (sentence, *near))
    opposites = [*_opposites(*plain)]
    # Two reversals are none: "more is not allowed" says what "less is allowed" says.
    if is_denied and not opposites:
        yield Difference(kind="polarity", said=sentence, expected=near[0])
    # "Closed on Sunday" is "open every day apart from Sunday".
    if not is_denied and EXCEPTING.isdisjoint(words(" ".join([sentence, *near]))):
        yield from opposites


def _opposites(sentence: str, *near: str) -> Iterator[Difference]:
    """Words in the place of their opposites, beside the same words."""
    stems = {stem(word) for word in words(sentence)}
    for one, other in (pair for pair in _OPPOSITES if pair[0] in stems and pair[1] not in stems):
        beside = _beside(one, sentence)
        alone = not any(_beside(one, row) for row in near)
        if alone and all(beside & _beside(other, row) for row in near):
            yield Difference(kind="opposite", said=one, expected=other)


def _denies(sentence: str, row: str) -> bool:
    """Whether a clause denies, of what the other asserts, a word of it or that it is allowed."""
    if denied(sentence).isdisjoint(content(row) - denied(row) | _ALLOWED):
        return False
    return _stances(row, sentence).isdisjoint(_stances(sentence, row))


def _beside(word: str, text: str) -> set[str]:
    """The stems of the content words before and after each place of a stem."""
    said = [each for each in map(stem, words(text)) if each == word or each in content(text)]
    places = [place for place, each in enumerate(said) if each == word]
    return {each for place in places for each in said[max(0, place - 1) : place + 2]} - {word}


def _stances(sentence: str, other: str) -> set[bool]:
    """The polarities of the clauses that share most words with the other sentence."""
    about = content(other)
    shared = {part: len(content(part) & about) for part in CLAUSES.split(sentence)}
    most = max(shared.values())
    return {polarity(part) for part, number in shared.items() if 2 * number >= most}


@lru_cache(maxsize=500)
def rows_of(text: str) -> tuple[str, ...]:
    """The sentences of a source; a cell of a table is one, with its row and its column.

    >>> rows_of("| car | price |\\n| van | 95 euros |")
    ('van car: van', 'van price: 95 euros')
    """
    found: list[str] = []
    head: list[str] = []
    for line in text.split("\n"):
        before, bar, table = line.partition("|")
        if bar and line.rstrip().endswith("|"):  # a title may stand before the first row
            found += sentences(before)
            line = table
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if len(cells) < 2:
            found += sentences(line)
        elif not head:
            head = cells
        else:
            names = " ".join(cell for cell in cells if not any(map(str.isdigit, cell)))
            found += [
                f"{names} {column}: {cell}" for column, cell in zip(head, cells, strict=False)
            ]
    return tuple(found)
