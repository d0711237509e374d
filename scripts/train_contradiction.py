"""Trains the small model that tells contradicted sentences from supported ones.

    python scripts/train_contradiction.py                            # the bundled one, from notes
    python scripts/train_contradiction.py --corpus scifact.zip --out contradiction.json
    ASSAY_CONTRADICTION_MODEL=contradiction.json assay eval ... --answers

No label of anybody is used. The bundled model is a logistic regression over pairs that are made
from the reference answers of the bundled notes, by one change each. From a corpus of abstracts
(titles, and last sentences, that the rest of the abstract supports) it is a sum of decision trees,
which needs lightgbm: pip install 'agent-assay[tuned]'. What it learns of the corpus are thresholds
of numbers; whether its file may be passed on is up to the licence of the corpus.
"""

import argparse
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import orjson
from benchmarks.claims import CONTRADICTED, SUPPORTED, LabeledClaim, contradict, notes_claims
from numpy.typing import NDArray

from assay.answers.contradiction.model import BUNDLED, pair_features
from assay.answers.contradiction.rules import analyzed_sources
from assay.answers.contradiction.sentence import analyze
from assay.data import load_dataset
from assay.data.dataset import Dataset
from assay.text import sentences

Matrix = NDArray[np.float64]
STRENGTH = 0.5  # of the L2 penalty, for each pair
FALSE_ALARMS = 0.03  # share of supported pairs that may be called contradicted
TREES = {
    "objective": "binary",
    "learning_rate": 0.04,
    "num_leaves": 15,
    "min_data_in_leaf": 50,
    "bagging_fraction": 0.8,
    "bagging_freq": 1,
    "feature_fraction": 0.4,
    "lambda_l2": 5,
    "verbose": -1,
    "num_threads": 1,
    "seed": 0,
}
ROUNDS = 300


def unrelated_claims(claims: Sequence[LabeledClaim], seed: int = 0) -> list[LabeledClaim]:
    """Each supported claim with the sources of another one."""
    supported = [each for each in claims if each.supported]
    groups = {each.group: each.sources for each in claims}
    rng = random.Random(seed)
    others = [rng.choice([g for g in groups if g != each.group]) for each in supported]
    return [
        LabeledClaim(each.claim, groups[other], "unrelated", each.group)
        for each, other in zip(supported, others, strict=True)
    ]


def corpus_claims(dataset: Dataset, seed: int = 0) -> Iterator[LabeledClaim]:
    """Titles and last sentences of documents against the rest of them, as they are and changed.

    What an abstract concludes, the rest of it supports; so no label is needed. Short documents,
    and sentences without anything to change, are left out.
    """
    rng = random.Random(seed)
    for document in dataset.documents.values():
        said = sentences(document.text)
        if len(said) < 4:
            continue
        title, last = document.title, said[-1]
        for claim, rest in ((title, said), (last, [title, *said[:-1]])):
            kind = rng.choice(("negation", "opposite", "opposite"))
            changed = contradict(claim, rng, (kind,)) if len(claim.split()) <= 40 else None
            if changed is not None:
                sources = (rest[0], " ".join(rest[1:]))
                yield LabeledClaim(claim, sources, SUPPORTED, document.id, kind)
                yield LabeledClaim(changed[0], sources, CONTRADICTED, document.id, kind)


def table(claims: Sequence[LabeledClaim]) -> tuple[list[str], Matrix, Matrix]:
    """Names, features and labels (1: contradicted) of claims."""
    rows = [pair_features(analyze(each.claim), analyzed_sources(each.sources)) for each in claims]
    names = list(rows[0])
    features = np.array([[row[name] for name in names] for row in rows], dtype=np.float64)
    labels = np.array([each.label == CONTRADICTED for each in claims], dtype=np.float64)
    return names, features, labels


def fit_linear(features: Matrix, labels: Matrix) -> tuple[Matrix, float]:
    """Weights and bias of a logistic regression (Newton's method, L2 on standardized features)."""
    mean, spread = features.mean(0), features.std(0) + 1e-6
    rows = np.c_[(features - mean) / spread, np.ones(len(features))]
    penalty = np.eye(rows.shape[1]) * STRENGTH * len(rows)
    penalty[-1, -1] = 0
    weights = np.zeros(rows.shape[1])
    for _ in range(30):
        chance = 1 / (1 + np.exp(-rows @ weights))
        curvature = rows.T @ (rows * (chance * (1 - chance))[:, None]) + penalty
        weights -= np.linalg.solve(curvature, rows.T @ (chance - labels) + penalty @ weights)
    scaled = weights[:-1] / spread
    return scaled, float(weights[-1] - scaled @ mean)


def fit_trees(features: Matrix, labels: Matrix) -> list[dict[str, Any]]:
    """Decision trees in the form that `model.py` reads."""
    import lightgbm

    booster = lightgbm.train(TREES, lightgbm.Dataset(features, labels), ROUNDS)
    return [_tree(each["tree_structure"]) for each in booster.dump_model()["tree_info"]]


def _tree(root: dict[str, Any]) -> dict[str, Any]:
    tree: dict[str, list[Any]] = {
        name: [] for name in ("feature", "threshold", "left", "right", "leaf")
    }

    def add(node: dict[str, Any]) -> int:
        if "leaf_value" in node:
            tree["leaf"].append(round(node["leaf_value"], 6))
            return -len(tree["leaf"])
        place = len(tree["feature"])
        tree["feature"].append(node["split_feature"])
        tree["threshold"].append(node["threshold"])
        tree["left"].append(0)
        tree["right"].append(0)
        tree["left"][place] = add(node["left_child"])
        tree["right"][place] = add(node["right_child"])
        return place

    add(root)
    return tree


def build(claims: Sequence[LabeledClaim], name: str, *, trees: bool) -> dict[str, Any]:
    """A model as its file has it. The threshold is where few supported pairs are called
    contradicted, by cross-validation over groups.
    """
    names, features, labels = table(claims)
    model: dict[str, Any] = {"name": name, "features": names, "bias": 0.0, "weights": []}
    model["trees"] = fit_trees(features, labels) if trees else []
    if not trees:
        weights, bias = fit_linear(features, labels)
        model |= {"weights": [round(float(each), 6) for each in weights], "bias": round(bias, 6)}
    chances = cross_validated(claims, features, labels, trees=trees)
    model["threshold"] = round(float(np.quantile(chances[labels == 0], 1 - FALSE_ALARMS)), 4)
    return model


def cross_validated(
    claims: Sequence[LabeledClaim], features: Matrix, labels: Matrix, *, trees: bool
) -> Matrix:
    """The probability of each claim by a model that saw no claim of its group; five folds."""
    groups = sorted({each.group for each in claims})
    fold_of = {group: place % 5 for place, group in enumerate(groups)}
    folds = np.array([fold_of[each.group] for each in claims])
    chances = np.zeros(len(claims))
    for fold in range(5):
        train, test = folds != fold, folds == fold
        if trees:
            import lightgbm

            booster = lightgbm.train(
                TREES, lightgbm.Dataset(features[train], labels[train]), ROUNDS
            )
            chances[test] = booster.predict(features[test])
        else:
            weights, bias = fit_linear(features[train], labels[train])
            chances[test] = 1 / (1 + np.exp(-(features[test] @ weights + bias)))
    return chances


def main() -> None:
    """Train, and write the file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--corpus", type=Path, help="a BEIR folder or zip of abstracts")
    parser.add_argument("--out", type=Path, default=BUNDLED, help="the file to write")
    options = parser.parse_args()
    if options.corpus is None:
        model = build(notes_claims(), "notes", trees=False)
    else:
        if options.out == BUNDLED:
            parser.error("--corpus needs --out FILE: the bundled model is made from notes alone")
        dataset = load_dataset(options.corpus)
        claims = list(corpus_claims(dataset))
        model = build(claims, f"{dataset.name}, {len(claims)} pairs", trees=True)
    options.out.write_bytes(orjson.dumps(model) + b"\n")
    print(f"{options.out}: {options.out.stat().st_size:,} bytes, threshold {model['threshold']}")


if __name__ == "__main__":
    main()
