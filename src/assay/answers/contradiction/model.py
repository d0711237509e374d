"""The small model: how likely a sentence contradicts its sources, from numbers about both.

A file of numbers, trained by `scripts/train_contradiction.py`: a logistic regression, or a sum of
decision trees. Evaluated here without the library that trained it. Nothing that the claim alone
shows is among its features: false claims of most data sets are more often negated than true ones,
and a model would learn that instead of reading the sources.
"""

import math
import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from assay.answers.contradiction.sentence import (
    NO_EFFECT,
    AnalyzedSentence,
    directions,
    nearest,
    opposed_words,
    opposites,
)
from assay.errors import DataError
from assay.files import read_file
from assay.net.json import parse_json

MODEL_VARIABLE = "ASSAY_CONTRADICTION_MODEL"
"""A file that `scripts/train_contradiction.py` wrote, in place of the one that comes with Assay."""

BUNDLED = Path(__file__).with_name("model.json")
_MAX_SIZE = 16 * 2**20
_NEAREST = 3
_WINDOW = 6
_BESIDE = 7
_SHARPNESS = 3.0
Weight = Callable[[str], float]


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


def pair_features(claim: AnalyzedSentence, sources: Sequence[AnalyzedSentence]) -> dict[str, float]:
    """The features of a claim against source sentences, by name; empty without sources."""
    near = nearest(claim, sources)
    if not near:
        return {}
    weight = _rarity(near)
    pairs = [_compared(claim, each, weight) for each in near]
    order = sorted(range(len(pairs)), key=lambda i: -pairs[i]["share"])
    first = [near[i] for i in order[:_NEAREST]]
    best = pairs[order[0]]["share"]
    softness = [math.exp(_SHARPNESS * (pair["share"] - best)) for pair in pairs]
    features: dict[str, float] = {}
    for name in pairs[0]:
        shown = [pairs[i][name] for i in order[:_NEAREST]]
        features[f"first.{name}"] = shown[0]
        features[f"mean.{name}"] = sum(shown) / len(shown)
        weighted = (pair[name] * soft for pair, soft in zip(pairs, softness, strict=True))
        features[f"soft.{name}"] = sum(weighted)
    features |= _coverage(claim, near, first)
    features |= _no_effect(claim, near, first, softness)
    features |= _relations("all", claim, near, weight)
    features |= _relations("near", claim, first[:2], weight)
    return features


def shared_share(claim: AnalyzedSentence, source: AnalyzedSentence, weight: Weight) -> float:
    """The share of the claim's content, directions aside, that the source has."""
    content = claim.content - directions().keys()
    # fsum: the order of a set differs from run to run, and sums of floats with it.
    total = math.fsum(map(weight, content))
    return math.fsum(map(weight, content & source.content)) / total if total else 0.0


def _rarity(sources: Sequence[AnalyzedSentence]) -> Weight:
    counts = Counter(word for each in sources for word in each.content)
    return lambda word: math.log(1 + (len(sources) + 1) / (1 + counts[word]))


def _compared(
    claim: AnalyzedSentence, source: AnalyzedSentence, weight: Weight
) -> dict[str, float]:
    """The features of a claim beside one source sentence."""
    share = shared_share(claim, source, weight)
    shared = (claim.content - directions().keys()) & source.content
    ours, theirs = _direction(claim, shared), _direction(source, shared)
    apart = float(len(opposed_words(claim, source)))
    same = float(sum(word in directions() and word in source.content for word in claim.content))
    negated, other = _negations(claim, shared), _negations(source, shared)
    differs = float((negated > 0) != (other > 0))
    agree = _sign(ours) * _sign(theirs)
    common = len(claim.numbers & source.numbers)
    return {
        "share": share,
        "agreement": agree,
        "product": ours * theirs,
        "distance": abs(ours - theirs),
        "opposites": apart,
        "same_direction": same,
        "negation_differs": differs,
        "both_negated": float(negated > 0 and other > 0),
        "source_negations": float(other),
        "numbers_missing": float(len(claim.numbers - source.numbers)),
        "numbers_common": float(common),
        "numbers_differ": float(bool(claim.numbers) and not common and bool(source.numbers)),
        "names_missing": float(len(claim.names - source.names)),
        "names_common": float(len(claim.names & source.names)),
        "inverted": _inverted(claim, source, shared),
        "confirmed": agree * (1 - 2 * differs) * share,
        "opposites_shared": apart * share,
        "same_shared": same * share,
        "negation_shared": differs * share,
    }


def _sign(value: float) -> float:
    return float((value > 0) - (value < 0))


def _direction(sentence: AnalyzedSentence, anchors: frozenset[str]) -> float:
    """Where the sentence points near what both speak about."""
    places = [i for i, word in enumerate(sentence.stems) if word in anchors]
    total = 0.0
    for place, sign in sentence.signs:
        distances = [abs(place - each) for each in places if each != place]
        total += sign / (1 + min(distances) / 3) if distances else 0.0
    return total


def _negations(sentence: AnalyzedSentence, shared: frozenset[str]) -> int:
    places = [i for i, word in enumerate(sentence.stems) if word in shared]
    if not places:
        return 0
    first, last = min(places) - 3, max(places) + 1
    return sum(first <= each <= last for each in sentence.negated)


def _inverted(claim: AnalyzedSentence, source: AnalyzedSentence, shared: frozenset[str]) -> float:
    """The share of pairs of common words that stand in the other order."""
    place = {word: i for i, word in reversed(list(enumerate(source.stems)))}
    order = [place[word] for word in claim.stems if word in shared]
    pairs = [a > b for i, a in enumerate(order) for b in order[i + 1 :]]
    return sum(pairs) / len(pairs) if pairs else 0.0


def _coverage(
    claim: AnalyzedSentence,
    near: Sequence[AnalyzedSentence],
    first: Sequence[AnalyzedSentence],
) -> dict[str, float]:
    table = opposites()
    held = {word for each in near for word in each.stems}
    close = {word for each in first for word in each.stems}
    pointing = [word for word in claim.stems if word in directions()]
    ours = set(zip(claim.stems, claim.stems[1:], strict=False))
    theirs = {pair for each in near for pair in zip(each.stems, each.stems[1:], strict=False)}
    pointed = [pair for pair in ours if pair[0] in directions() or pair[1] in directions()]
    missing = [word for word in claim.content if word not in held]
    numbers = frozenset().union(*(each.numbers for each in near))
    names = frozenset().union(*(each.names for each in near))
    return {
        "covered": 1 - len(missing) / max(1, len(claim.content)),
        "directions_covered": _share_of(pointing, held),
        "directions_near": _share_of(pointing, close),
        "opposites_only": float(
            sum(
                word not in held and any(other in held for other in table.get(word, ()))
                for word in pointing
            )
        ),
        "numbers_nowhere": float(len(claim.numbers - numbers)),
        "names_nowhere": float(len(claim.names - names)),
        "bigrams": len(ours & theirs) / max(1, len(ours)),
        "direction_bigrams": sum(pair in theirs for pair in pointed) / max(1, len(pointed)),
        "directions_missing": float(sum(word in directions() for word in missing)),
        "others_missing": float(sum(word not in directions() for word in missing)),
    }


def _share_of(words: Sequence[str], held: set[str]) -> float:
    return sum(word in held for word in words) / len(words) if words else -1.0


def _no_effect(
    claim: AnalyzedSentence,
    near: Sequence[AnalyzedSentence],
    first: Sequence[AnalyzedSentence],
    softness: Sequence[float],
) -> dict[str, float]:
    ours = NO_EFFECT.search(claim.text) is not None
    counts = [len(NO_EFFECT.findall(each.text)) for each in first]
    soft = sum(
        weight
        for each, weight in zip(near, softness, strict=True)
        if NO_EFFECT.search(each.text) is not None
    )
    return {
        "no_effect.first": float(counts[0]),
        "no_effect.mean": sum(counts) / len(counts),
        "no_effect.differs": float(ours != (counts[0] > 0)),
        "no_effect.soft": soft,
        "no_effect.signed": soft if ours else -soft,
    }


def _relations(
    name: str, claim: AnalyzedSentence, near: Sequence[AnalyzedSentence], weight: Weight
) -> dict[str, float]:
    """Whether the words beside a direction of the claim have the same direction in the sources."""
    table = opposites()
    pointing = directions()
    content = [
        (i, word)
        for i, word in enumerate(claim.stems)
        if word in claim.content and word not in pointing
    ]
    same = other = exact = opposed = total = 0.0
    for place, sign in claim.signs:
        for i, word in content:
            if abs(place - i) > _WINDOW:
                continue
            strength = weight(word) / (1 + abs(place - i) / 3)
            total += strength
            for each in near:
                found = _direction_beside(each, word)
                if found is None:
                    continue
                distance, theirs, their_word = found
                part = strength / (1 + distance / 4)
                same, other = (same + part, other) if theirs == sign else (same, other + part)
                exact += part if their_word == claim.stems[place] else 0.0
                opposed += part if their_word in table.get(claim.stems[place], ()) else 0.0
    best = max(near, key=lambda each: shared_share(claim, each, weight))
    return {
        f"{name}.same": same,
        f"{name}.other": other,
        f"{name}.exact": exact,
        f"{name}.opposed": opposed,
        f"{name}.difference": (same - other) / (total or 1.0),
        f"{name}.balance": (same - other) / ((same + other) or 1.0),
        f"{name}.exact_balance": (exact - opposed) / ((exact + opposed) or 1.0),
        f"{name}.parity": float(_parity(claim) * _parity(best)),
    }


def _direction_beside(source: AnalyzedSentence, word: str) -> tuple[int, int, str] | None:
    """Distance, sign and stem of the direction nearest to a word of the source."""
    if word not in source.content:
        return None
    places = [i for i, each in enumerate(source.stems) if each == word]
    found = [
        (min(abs(place - each) for each in places), sign, source.stems[place])
        for place, sign in source.signs
    ]
    nearest_one = min(found, key=lambda each: each[0], default=None)
    return nearest_one if nearest_one is not None and nearest_one[0] <= _BESIDE else None


def _parity(sentence: AnalyzedSentence) -> int:
    """ "Reduces the loss" points upwards."""
    return math.prod(sign for _, sign in sentence.signs) if sentence.signs else 0
