"""Contradictions that can be shown: which words of the sentence, and which sentence of the source.

A rule speaks only about a source sentence that says nearly the same, and only where no other
sentence of the sources says it without the difference.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from assay.measure.answers.contradiction.features import nearest, opposed_words
from assay.measure.answers.contradiction.sentence import (
    AnalyzedSentence,
    directions,
    turned,
    turns_around,
)
from assay.measure.answers.contradiction.value_rules import (
    half_of_day,
    merged_names,
    other_date,
    other_group,
    other_rate,
    other_row,
    speaks_of_the_past,
)
from assay.measure.answers.quantities import Quantity, plain_number
from assay.text import stem

SHARED = 0.5
"""The share of a sentence's content that a source sentence must have before it can contradict."""

_NAMES_SHARED = 0.7
_ALL_BUT_NAMES = 0.9
# "may" and "march" are also verbs: they are months beside a number only.
_MONTH = re.compile(
    r"\b(January|February|April|June|July|August|September|October|November|December|"
    r"(?<=\d )(?:March|May)|(?:March|May)(?= \d))\b"
)
_WEEKDAY = re.compile(r"\b((?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day)s?\b")
_CLOSE = 3
_MIN_SHARED = 2


class ContradictionKind(StrEnum):
    """What differs between a sentence and its source."""

    NUMBER = "number"
    UNIT = "unit"
    DATE = "date"
    NEGATION = "negation"
    OPPOSITE = "opposite"
    NAME = "name"
    ROLES = "roles"
    LIKELY = "likely"


VALUES = frozenset(ContradictionKind) - {
    ContradictionKind.NEGATION,
    ContradictionKind.OPPOSITE,
    ContradictionKind.LIKELY,
}
"""The kinds where one value stands for another, which a reader can look up."""


@dataclass(frozen=True, slots=True)
class Contradiction:
    """A sentence that a source denies.

    `said` and `source` are what differs, in the words of each; both are empty where the kind is
    `likely`, which the small model or a judge found.
    """

    kind: ContradictionKind
    sentence: str
    evidence: str
    said: str = ""
    source: str = ""


def find_contradiction(
    sentence: AnalyzedSentence, sources: Sequence[AnalyzedSentence]
) -> Contradiction | None:
    """The first difference that a rule can name; None where there is none."""
    for kind, found in (
        (ContradictionKind.NUMBER, other_row(sentence, sources)),
        (ContradictionKind.DATE, half_of_day(sentence, sources)),
        (ContradictionKind.UNIT, other_rate(sentence, sources)),
        (ContradictionKind.ROLES, other_group(sentence, sources)),
    ):
        for where, (said, theirs) in found:
            return Contradiction(kind, sentence.text, where.text, said, theirs)
    ranked = sorted(
        ((shared(sentence, each), each) for each in nearest(sentence, sources)),
        key=lambda found: -found[0],
    )
    close = [(share, each) for share, each in ranked if share >= SHARED]
    for share, source in close:
        difference = next(_differences(sentence, source, sources), None)
        if difference is None and share >= 0.8:
            return None  # said so by a source
        if difference is not None:
            return difference
    return None


def shared(sentence: AnalyzedSentence, source: AnalyzedSentence) -> float:
    """The share of the content words, numbers and directions aside, that the source has."""
    return _shared_words(sentence, source, frozenset())


def _shared_words(
    sentence: AnalyzedSentence, source: AnalyzedSentence, left_out: frozenset[str]
) -> float:
    wanted = {
        word
        for word in sentence.content - left_out
        if word not in directions() and not any(map(str.isdigit, word))
    }
    held = wanted & source.content
    return len(held) / len(wanted) if len(held) >= _MIN_SHARED else 0.0


def _differences(
    sentence: AnalyzedSentence, source: AnalyzedSentence, sources: Sequence[AnalyzedSentence]
) -> Iterator[Contradiction]:
    for kind, pairs in (
        (ContradictionKind.DATE, other_date(sentence, source, sources)),
        (ContradictionKind.NAME, merged_names(sentence, sources)),
        (ContradictionKind.UNIT, _units(sentence, source)),
        (ContradictionKind.NUMBER, _numbers(sentence, source, sources)),
        (ContradictionKind.DATE, _dates(sentence, source, sources)),
        (ContradictionKind.NAME, _names(sentence, source, sources)),
        (ContradictionKind.ROLES, _roles(sentence, source)),
        (ContradictionKind.ROLES, _swapped_numbers(sentence, source)),
    ):
        for said, theirs in pairs:
            yield Contradiction(kind, sentence.text, source.text, said, theirs)
    yield from _turned_around(sentence, source, sources)


def _units(sentence: AnalyzedSentence, source: AnalyzedSentence) -> Iterator[tuple[str, str]]:
    """The same number with another unit, and never with this one."""
    for ours in sentence.quantities:
        others = [each for each in source.quantities if each.value == ours.value]
        units = {each.unit for each in others}
        if ours.unit and units and "" not in units and ours.unit not in units:
            yield f"{ours.value} {ours.unit}", f"{others[0].value} {others[0].unit}"


def _numbers(
    sentence: AnalyzedSentence, source: AnalyzedSentence, sources: Sequence[AnalyzedSentence]
) -> Iterator[tuple[str, str]]:
    """A number that no source has, where the source has another one of the same unit or beside the
    same word.
    """
    now = [
        each
        for each in sources
        if not speaks_of_the_past(each.text) or speaks_of_the_past(sentence.text)
    ]
    known = frozenset().union(*(each.numbers for each in now))
    for ours in sentence.quantities:
        if ours.value in known:
            continue
        for theirs in source.quantities:
            alike = ours.unit == theirs.unit if ours.unit or theirs.unit else False
            free = theirs.value not in sentence.numbers and not _abbreviated(ours, theirs)
            beside = _beside(sentence, ours.value) & _beside(source, theirs.value)
            if free and (alike or beside or _are_years_apart(sentence, ours, source, theirs)):
                yield ours.value, theirs.value


def _are_years_apart(
    sentence: AnalyzedSentence, ours: Quantity, source: AnalyzedSentence, theirs: Quantity
) -> bool:
    """Two years after the same word ("in 2018", "in 2019"), in sentences that say the same."""
    years = all(re.fullmatch(r"1\d{3}|20\d\d", each.value) for each in (ours, theirs))
    near = years and _company(sentence, ours.value) & _company(source, theirs.value)
    return bool(near) and shared(sentence, source) >= _NAMES_SHARED


def _abbreviated(ours: Quantity, theirs: Quantity) -> bool:
    """2026 is also written 26."""
    return ours.value.endswith(theirs.value) or theirs.value.endswith(ours.value)


def _beside(sentence: AnalyzedSentence, value: str) -> set[str]:
    """The content words next to a number."""
    places = [i for i, word in enumerate(sentence.words) if plain_number(word) == value]
    near = {
        sentence.stems[j] for i in places for j in (i - 1, i + 1) if 0 <= j < len(sentence.stems)
    }
    return near & sentence.content


def _dates(
    sentence: AnalyzedSentence, source: AnalyzedSentence, sources: Sequence[AnalyzedSentence]
) -> Iterator[tuple[str, str]]:
    """A month or a weekday that no source has, in place of one that the source has."""
    for named in (_MONTH, _WEEKDAY):
        said = named.findall(sentence.text)
        known = {each for other in sources for each in named.findall(other.text)}
        theirs = [each for each in named.findall(source.text) if each not in said]
        ours = [each for each in said if each not in known]
        if ours and theirs:
            yield ours[0], theirs[0]


def _swapped_numbers(
    sentence: AnalyzedSentence, source: AnalyzedSentence
) -> Iterator[tuple[str, str]]:
    """The same words in the same order, maybe after a title, with the same numbers in another."""
    ours, theirs = ([each.value for each in side.quantities] for side in (sentence, source))
    if len(ours) < 2 or ours == theirs or sorted(ours) != sorted(theirs):
        return
    if _without_numbers(source).endswith(_without_numbers(sentence)):
        yield " … ".join(ours), " … ".join(theirs)


def _without_numbers(sentence: AnalyzedSentence) -> str:
    return " ".join(word for word in sentence.words if not word[0].isdigit())


def _names(
    sentence: AnalyzedSentence, source: AnalyzedSentence, sources: Sequence[AnalyzedSentence]
) -> Iterator[tuple[str, str]]:
    """A name that no source has, where the source has another one in the same company."""
    held = {word for each in sources for word in each.words}
    foreign = frozenset(stem(name.lower()) for name in sentence.names if name.lower() not in held)
    alike = _shared_words(sentence, source, foreign) >= _ALL_BUT_NAMES
    if shared(sentence, source) < _NAMES_SHARED and not alike:
        return
    for name in sorted(sentence.names):
        if name.lower() in held:
            continue
        for other in sorted(source.names - sentence.names):
            if _company(sentence, name) & _company(source, other):
                yield name, other


def _company(sentence: AnalyzedSentence, name: str) -> set[str]:
    """The words before and after a name, those without meaning included."""
    places = [i for i, word in enumerate(sentence.words) if word == name.lower()]
    return {
        sentence.words[i + side] + ("<" if side < 0 else ">")
        for i in places
        for side in (-1, 1)
        if 0 <= i + side < len(sentence.words)
    }


def _roles(sentence: AnalyzedSentence, source: AnalyzedSentence) -> Iterator[tuple[str, str]]:
    """The same words, but two names have changed places around the verb."""
    both = sorted(sentence.names & source.names)
    if len(both) != 2 or shared(sentence, source) < 0.9 or "by" in {*sentence.words, *source.words}:
        return
    if source.content - sentence.content:
        return
    one, other = (name.lower() for name in both)
    if not {one, other} <= {*sentence.words} & {*source.words}:
        return  # "Anna's" is another word than "Anna"
    ours = sentence.words.index(one) < sentence.words.index(other)
    theirs = source.words.index(one) < source.words.index(other)
    if ours is not theirs and _between(sentence, one, other) & _between(source, one, other):
        yield " … ".join(_ordered(both, ours)), " … ".join(_ordered(both, theirs))


def _between(sentence: AnalyzedSentence, one: str, other: str) -> set[str]:
    places = sorted((sentence.words.index(one), sentence.words.index(other)))
    return set(sentence.stems[places[0] + 1 : places[1]]) & sentence.content


def _ordered(names: Sequence[str], forward: bool) -> Iterable[str]:
    return names if forward else reversed(names)


def _turned_around(
    sentence: AnalyzedSentence, source: AnalyzedSentence, sources: Sequence[AnalyzedSentence]
) -> Iterator[Contradiction]:
    """An opposite, or a negation in one of the two; both together cancel."""
    ours, theirs = _denied(sentence), _denied(source)
    opposed = opposed_words(sentence, source)
    for word, other in opposed:
        if (word in ours) is (other in theirs):
            said, denied = _word(sentence, word), _word(source, other)
            kind = ContradictionKind.OPPOSITE
            yield Contradiction(kind, sentence.text, source.text, said, denied)
    negation = _negation_differs(sentence, source, sources)
    if negation and not opposed:
        yield Contradiction(ContradictionKind.NEGATION, sentence.text, source.text, *negation)


def _word(sentence: AnalyzedSentence, stemmed: str) -> str:
    return sentence.words[sentence.stems.index(stemmed)]


def _negation_differs(
    sentence: AnalyzedSentence, source: AnalyzedSentence, sources: Sequence[AnalyzedSentence]
) -> tuple[str, str] | None:
    """What each says, where one of the two negates a word that the other states.

    Only the first word with a meaning after the negation counts: "not with coffee" says nothing
    about the rest of its sentence. A word a little after another negation is not stated ("does not
    send any mail" for "sends no mail"), and what another source negates too is not denied.
    """
    ours, theirs = _denied(sentence), _denied(source)
    for word in sorted((ours.keys() ^ theirs.keys()) & sentence.content & source.content):
        negated, plain = (sentence, source) if word in ours else (source, sentence)
        place = plain.stems.index(word)
        if turned(place, plain.negated) or plain.words[place + 1 : place + 2] == ("no",):
            continue
        if negated is sentence and any(word in _denied(each) for each in sources):
            continue
        phrases = (ours | theirs)[word], _word(plain, word)
        return phrases if negated is sentence else (phrases[1], phrases[0])
    return None


def _places_alone(sentence: AnalyzedSentence) -> set[int]:
    """The places of negations before a comma or colon, which negate nothing after them: "No, entry
    is forbidden", "They are not: children pay".
    """
    text = sentence.text.lower()
    found = set()
    for word in {sentence.words[each] for each in sentence.negated}:
        # From the end: of a sentence that was read, the first word may be left out.
        places = [each for each in reversed(sentence.negated) if sentence.words[each] == word]
        marks = reversed([*re.finditer(rf"\b{re.escape(word)}\b(?P<mark>\s*[,.:;!–])?", text)])
        found |= {place for place, each in zip(places, marks, strict=False) if each["mark"]}
    return found


def _denied(sentence: AnalyzedSentence) -> dict[str, str]:
    """The words that a negation is about, by stem, with the negation as it is written."""
    found: dict[str, str] = {}
    alone = _places_alone(sentence)
    for place in sentence.negated:
        if not turns_around(sentence.words[place]) or place in alone:
            continue
        after = range(place + 1, min(place + 1 + _CLOSE, len(sentence.words)))
        about = next((i for i in after if sentence.stems[i] in sentence.content), None)
        if about is not None and sentence.words[about][0].isdigit():
            continue
        if about is not None and "and" not in sentence.words[place:about]:  # "costs nothing and"
            found[sentence.stems[about]] = " ".join(sentence.words[place : about + 1])
    return found
