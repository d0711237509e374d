"""Which sentences of an answer its sources contradict: rules first, then the small model."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from assay.answer.citations import without_markers
from assay.measure.answers.contradiction.features import nearest, pair_features
from assay.measure.answers.contradiction.model import ContradictionModel
from assay.measure.answers.contradiction.rules import (
    Contradiction,
    ContradictionKind,
    find_contradiction,
)
from assay.measure.answers.contradiction.sentence import AnalyzedSentence, analyze
from assay.text import sentences

RELATED = 0.5
"""The share of a sentence's words that its sources must have before the model is asked."""

MAX_SENTENCES = 200
"""Sentences of one answer that are checked: bounds the time that a long answer takes."""


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
        """The sentences of an answer that the sources contradict, in their order."""
        held = analyzed_sources(sources)
        said = sentences(without_markers(answer))[:MAX_SENTENCES]
        return [found for each in said for found in self._check(analyze(each), held)]

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
