"""One sentence, read for what can contradict another: directions, negations, quantities, names."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from assay.measure.answers.contradiction.lexicon import NEGATIONS, PLAIN_NEGATIONS, directions
from assay.measure.answers.quantities import Quantity, quantities
from assay.text import is_stop, stem, words

# Codes such as BRCA1 or mTOR anywhere; capitalized words except at the beginning of the sentence.
_NAME = re.compile(r"\b(?:[A-Z]+[a-z]*\d+\w*|[A-Z]{2,}\w*|[a-z]+[A-Z]\w*|(?<!^)[A-Z][a-z]+)\b")
# "No, it must not be oiled": the first word answers the question, and negates nothing more.
_ANSWERED = re.compile(r"\W*(?:no|yes)\s*[,.:;!–]\s*\w", re.IGNORECASE)
_REACH = 4  # how far before a word its negation may be
_NOT_NAMES = frozenset({"I", "The", "This", "That", "These", "Those", "It", "He", "She", "They"})


@dataclass(frozen=True, slots=True)
class AnalyzedSentence:
    """A sentence and what was found in it.

    `signs` are the places of words with a direction, turned around by a negation before them.
    """

    text: str
    words: tuple[str, ...]
    stems: tuple[str, ...]
    content: frozenset[str]
    signs: tuple[tuple[int, int], ...]
    negated: tuple[int, ...]
    quantities: tuple[Quantity, ...]
    names: frozenset[str]

    @property
    def numbers(self) -> frozenset[str]:
        """The values of its quantities."""
        return frozenset(each.value for each in self.quantities)


def analyze(text: str) -> AnalyzedSentence:
    """Read one sentence."""
    said = words(text)
    if _ANSWERED.match(text) and any(map(is_negation, said[1:])):
        said = said[1:]
    stemmed = tuple(map(stem, said))
    negated = tuple(i for i, word in enumerate(said) if is_negation(word))
    pointing = directions()
    signs = tuple(
        (i, -pointing[each] if _turned(i, negated) else pointing[each])
        for i, each in enumerate(stemmed)
        if each in pointing
    )
    content = frozenset(
        each
        for each, word in zip(stemmed, said, strict=True)
        if not is_stop(word) and not is_negation(word)
    )
    return AnalyzedSentence(
        text=text,
        words=tuple(said),
        stems=stemmed,
        content=content,
        signs=signs,
        negated=negated,
        quantities=tuple(quantities(text)),
        names=frozenset(each for each in _NAME.findall(text) if each not in _NOT_NAMES),
    )


def is_negation(word: str) -> bool:
    """Whether a normalized word negates what follows it."""
    return word in NEGATIONS or word.endswith("n't")


def turns_around(word: str) -> bool:
    """Whether a normalized word turns the statement around, and does nothing else."""
    return word in PLAIN_NEGATIONS or word.endswith("n't")


def _turned(place: int, negated: Sequence[int]) -> bool:
    return sum(place - _REACH <= each < place for each in negated) % 2 == 1
