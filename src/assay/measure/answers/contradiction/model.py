"""The small model, how likely a sentence contradicts its sources, and the checker that asks it.

A file of numbers, trained by `scripts/train_contradiction.py`: a logistic regression, or a sum of
decision trees. Evaluated here without the library that trained it.
"""

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from assay.errors import DataError
from assay.files import read_file
from assay.measure.answers.contradiction.features import nearest, pair_features
from assay.measure.answers.contradiction.rules import (
    Contradiction,
    ContradictionKind,
    find_contradiction,
)
from assay.measure.answers.contradiction.sentence import AnalyzedSentence, analyze
from assay.measure.answers.framing import bare_text, is_question, without_source_lines
from assay.net.json import parse_json
from assay.text import sentences

MODEL_VARIABLE = "ASSAY_CONTRADICTION_MODEL"
"""A file that `scripts/train_contradiction.py` wrote, in place of the one that comes with Assay."""

BUNDLED = Path(__file__).with_name("model.json")
_MAX_SIZE = 16 * 2**20


@dataclass(frozen=True, slots=True)
class Tree:
    """One decision tree.

    At node `i` a value up to `threshold[i]` goes `left[i]`, else `right[i]`; a negative number is
    the leaf `-1 - number`.
    """

    feature: tuple[int, ...]
    threshold: tuple[float, ...]
    left: tuple[int, ...]
    right: tuple[int, ...]
    leaf: tuple[float, ...]

    def value(self, row: Sequence[float]) -> float:
        """The leaf that a row of features ends in."""
        node = 0 if self.feature else -1
        while node >= 0:
            below = row[self.feature[node]] <= self.threshold[node]
            node = self.left[node] if below else self.right[node]
        return self.leaf[-1 - node]


@dataclass(frozen=True, slots=True)
class ContradictionModel:
    """A model with the features that it reads, in order.

    `threshold` is the probability from which on a sentence counts as contradicted.
    """

    name: str
    features: tuple[str, ...]
    threshold: float
    bias: float = 0.0
    weights: tuple[float, ...] = ()
    trees: tuple[Tree, ...] = ()

    def probability(self, features: Mapping[str, float]) -> float:
        """How likely the sentence contradicts its sources; 0 without sources."""
        if not features:
            return 0.0
        row = [features[name] for name in self.features]
        score = self.bias + sum(tree.value(row) for tree in self.trees)
        score += sum(weight * value for weight, value in zip(self.weights, row, strict=False))
        return 1 / (1 + math.exp(-max(-60.0, min(60.0, score))))


def open_contradiction_model() -> ContradictionModel:
    """The model that `ASSAY_CONTRADICTION_MODEL` names, else the bundled one."""
    return load_contradiction_model(Path(os.environ.get(MODEL_VARIABLE) or BUNDLED))


@cache
def load_contradiction_model(path: Path) -> ContradictionModel:
    """Read a model's file.

    Raises:
        DataError: it is not such a file.
    """
    try:
        value: Any = parse_json(read_file(path, limit=_MAX_SIZE))
        model = parse_model(value)
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror}", file=path) from None
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(
            f"is not a contradiction model ({error}); build one with "
            "scripts/train_contradiction.py",
            file=path,
        ) from None
    return model


def parse_model(value: Any) -> ContradictionModel:
    """A model from the content of its file.

    `KeyError`, `TypeError` or `ValueError` if it is none.
    """
    return ContradictionModel(
        name=str(value["name"]),
        features=tuple(map(str, value["features"])),
        threshold=float(value["threshold"]),
        bias=float(value["bias"]),
        weights=tuple(map(float, value["weights"])),
        trees=tuple(_tree(each, len(value["features"])) for each in value["trees"]),
    )


def _tree(value: Any, features: int) -> Tree:
    tree = Tree(
        feature=tuple(map(int, value["feature"])),
        threshold=tuple(map(float, value["threshold"])),
        left=tuple(map(int, value["left"])),
        right=tuple(map(int, value["right"])),
        leaf=tuple(map(float, value["leaf"])),
    )
    nodes, leaves = len(tree.feature), len(tree.leaf)
    children = [*tree.left, *tree.right]
    # A child comes after its parent, so that no walk is endless.
    forward = all(
        each < 0 or each > place
        for side in (tree.left, tree.right)
        for place, each in enumerate(side)
    )
    inside = all(-leaves <= each < nodes for each in children)
    if not (inside and forward and leaves and all(0 <= each < features for each in tree.feature)):
        raise ValueError("a tree is damaged")
    return tree


RELATED = 0.5
"""The share of a sentence's words that its sources must have before the model is asked."""

MAX_SENTENCES = 200
"""Sentences of one answer that are checked: bounds the time that a long answer takes."""

MAX_PAIRS = 500_000
"""Sentences of an answer times those of its sources that are compared: all of 100,000 where it has
five, and 2,500 where it has 200. What is beyond is not looked at.
"""


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
