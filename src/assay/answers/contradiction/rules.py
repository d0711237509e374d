"""Whether a sentence contradicts its sources: by rules, else by the small model.

A rule shows which words of the sentence contradict which sentence of the source. It speaks only
about a source sentence that says nearly the same, and only where no other sentence of the sources
says it without the difference.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

from assay.answers.contradiction.model import ContradictionModel, pair_features
from assay.answers.contradiction.sentence import (
    AnalyzedSentence,
    analyze,
    nearest,
    opposed_words,
    turned,
)
from assay.answers.contradiction.value_rules import (
    half_of_day,
    merged_names,
    other_date,
    other_group,
    other_month,
    other_name,
    other_number,
    other_rate,
    other_row,
    other_unit,
    shared,
    swapped_numbers,
)
from assay.answers.framing import bare_text, is_question, without_source_lines
from assay.text import is_negation, sentences

SHARED = 0.5
"""The share of a sentence's content that a source sentence must have before it can contradict."""

RELATED = 0.5
"""The share of a sentence's words that its sources must have before the model is asked."""

MAX_SENTENCES = 200
"""Sentences of one answer that are checked: bounds the time that a long answer takes."""

MAX_PAIRS = 500_000
"""Sentences of an answer times those of its sources that are compared: all of 100,000 where it has
five, and 2,500 where it has 200. What is beyond is not looked at.
"""

_CLOSE = 3


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


def _differences(
    sentence: AnalyzedSentence, source: AnalyzedSentence, sources: Sequence[AnalyzedSentence]
) -> Iterator[Contradiction]:
    for kind, pairs in (
        (ContradictionKind.DATE, other_date(sentence, source, sources)),
        (ContradictionKind.NAME, merged_names(sentence, sources)),
        (ContradictionKind.UNIT, other_unit(sentence, source)),
        (ContradictionKind.NUMBER, other_number(sentence, source, sources)),
        (ContradictionKind.DATE, other_month(sentence, source, sources)),
        (ContradictionKind.NAME, other_name(sentence, source, sources)),
        (ContradictionKind.ROLES, _roles(sentence, source)),
        (ContradictionKind.ROLES, swapped_numbers(sentence, source)),
    ):
        for said, theirs in pairs:
            yield Contradiction(kind, sentence.text, source.text, said, theirs)
    yield from _turned_around(sentence, source, sources)


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
        if not is_negation(sentence.words[place]) or place in alone:
            continue
        after = range(place + 1, min(place + 1 + _CLOSE, len(sentence.words)))
        about = next((i for i in after if sentence.stems[i] in sentence.content), None)
        if about is not None and sentence.words[about][0].isdigit():
            continue
        if about is not None and "and" not in sentence.words[place:about]:  # "costs nothing and"
            found[sentence.stems[about]] = " ".join(sentence.words[place : about + 1])
    return found


@dataclass(frozen=True)
class ContradictionChecker:
    """Finds contradictions, by rules alone or also by a model.

    Parameters:
        model: the small model, which finds more and is wrong more often; None for the rules alone.
    """

    model: ContradictionModel | None = None

    @property
    def name(self) -> str:
        """How it decides, for reports."""
        return "rules" if self.model is None else f"rules, then the model {self.model.name}"

    def find(self, answer: str, sources: Sequence[str]) -> list[Contradiction]:
        """The sentences of an answer that the sources contradict, in their order.

        What a source says word for word is not looked at any further.
        """
        text = bare_text(without_source_lines(answer))
        said = [each for each in sentences(text) if not is_question(each)][:MAX_SENTENCES]
        held = analyzed_sources(sources)[: MAX_PAIRS // max(1, len(said))]
        quoted = {each.words for each in held}
        read = [each for each in map(analyze, said) if each.words not in quoted]
        return [found for each in read for found in self._check(each, held)]

    def _check(
        self, sentence: AnalyzedSentence, sources: Sequence[AnalyzedSentence]
    ) -> Iterator[Contradiction]:
        found = find_contradiction(sentence, sources)
        if found is not None:
            yield found
        elif self.model is not None and sources:
            features = pair_features(sentence, sources)
            # The model knows supported and contradicted sentences, not those about something else.
            related = features["covered"] >= RELATED
            if related and self.model.probability(features) >= self.model.threshold:
                evidence = nearest(sentence, sources, 1)[0].text
                yield Contradiction(ContradictionKind.LIKELY, sentence.text, evidence)


def analyzed_sources(sources: Sequence[str]) -> list[AnalyzedSentence]:
    """The sentences of all sources."""
    return [each for source in sources for each in _analyzed(source)]


@lru_cache(maxsize=256)
def _analyzed(source: str) -> tuple[AnalyzedSentence, ...]:
    """Documents are cited again and again; a few hundred stay analyzed."""
    return tuple(analyze(each) for each in sentences(source))
