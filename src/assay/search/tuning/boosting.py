"""LightGBM, set so that the same seed gives the same trees on every run."""

from collections.abc import Sequence
from typing import Any

import lightgbm
import numpy as np

from assay.search.tuning.arrays import Floats

OVERLAP_TREES = 150
RANKING_TREES = 200
# Fixed, since sums over threads depend on their number; one is faster where there is little to do.
THREADS = 2
FEW_ROWS = 30_000
# Grades above this are as good as this one.
HIGHEST_GRADE = 30

_ALWAYS: dict[str, Any] = {
    "verbose": -1,
    "deterministic": True,
    "force_row_wise": True,
    "bagging_freq": 1,
    "max_bin": 63,
}
_OVERLAP: dict[str, Any] = {
    "objective": "regression",
    "learning_rate": 0.1,
    "num_leaves": 31,
    "min_data_in_leaf": 100,
    "bagging_fraction": 0.4,
    "feature_fraction": 0.5,
}
_RANKING: dict[str, Any] = {
    "objective": "lambdarank",
    "learning_rate": 0.05,
    "num_leaves": 15,
    "min_data_in_leaf": 50,
    "bagging_fraction": 0.5,
    "feature_fraction": 0.3,
    "lambdarank_truncation_level": 20,
    "metric": "none",
}


def learn_overlap(features: Floats, target: Floats, seed: int) -> lightgbm.Booster:
    data = lightgbm.Dataset(features, target, free_raw_data=True)
    settings = _ALWAYS | _OVERLAP | {"seed": seed, "num_threads": _threads(len(target))}
    return lightgbm.train(settings, data, OVERLAP_TREES)


def learn_ranking(
    features: Floats, grades: Floats, sizes: Floats, queries: Sequence[int], seed: int
) -> lightgbm.Booster:
    """LambdaMART (Burges 2010) over bundles; `queries`: how many rows each query has.

    A bundle of many documents fills more of the page when it is ranked first, so it weighs more.
    """
    labels = np.minimum(np.rint(grades), HIGHEST_GRADE).astype(np.int64)
    weights = np.sqrt(np.minimum(sizes, 10))
    gains = list(range(int(labels.max(initial=1)) + 1))
    data = lightgbm.Dataset(features, labels, group=list(queries), weight=weights)
    threads = _threads(len(labels))
    settings = _ALWAYS | _RANKING | {"seed": seed, "label_gain": gains, "num_threads": threads}
    return lightgbm.train(settings, data, RANKING_TREES)


def predict(model: lightgbm.Booster, features: Floats, trees: int, threads: int = 1) -> Floats:
    found = model.predict(features, num_iteration=trees, num_threads=threads)
    return np.asarray(found, np.float32)


def _threads(rows: int) -> int:
    return 1 if rows < FEW_ROWS else THREADS
