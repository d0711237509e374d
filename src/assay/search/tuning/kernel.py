"""Kernel ridge regression from queries to relevant bundles.

Every bundle is a label, every judged query an example (extreme multi-label classification). Two
queries are alike when their words and vectors are, and above all when the same bundles come up
for both of them in a zero-shot search: their profiles. The closed form (Saunders, Gammerman and
Vovk, "Ridge Regression Learning Algorithm in Dual Variables", 1998) needs one inverse of the size
of the judged queries, and gives each of them a share in the answer to a new query.
"""

import numpy as np

from assay.search.tuning.arrays import (
    Floats,
    Sparse,
    best_columns,
    min_max,
    sparse_rows,
    unit_rows,
)

# From two folds of NFCorpus train and dev, where weights of 2, 4 and 8 and ridges of 2 and 4 differ
# by less than chance.
PROFILE_WEIGHT = 4.0
RIDGE = 4.0
VECTOR_SHARPNESS = 5.0
SPELLING_WEIGHT = 0.5
# How many bundles a profile keeps: the rest weighs next to nothing, and a hundred are as good.
PROFILE_DEPTH = 100


def profile(mean: Floats, best: Floats, text: Floats) -> Sparse:
    """Which bundles come up for each query: by the mean of their documents, by the best of them,
    as one text.
    """
    parts = [min_max(mean) ** 4, min_max(best) ** 4, min_max(text) ** 2]
    bundles = mean.shape[1]
    columns = [best_columns(part, PROFILE_DEPTH) for part in parts]
    weights = [
        unit_rows(np.take_along_axis(part, which, 1)) / np.float32(np.sqrt(len(parts)))
        for part, which in zip(parts, columns, strict=True)
    ]
    aside = [which + place * bundles for place, which in enumerate(columns)]
    return sparse_rows(np.hstack(aside), np.hstack(weights), len(parts) * bundles)


def likeness(meaning: Floats, words: Floats, grams: Floats, profiles: Floats) -> Floats:
    """The kernel: a sum of kernels is one."""
    return np.asarray(
        np.exp(VECTOR_SHARPNESS * (meaning - 1))
        + SPELLING_WEIGHT * (words + grams)
        + PROFILE_WEIGHT * profiles,
        np.float32,
    )


def inverse_of(likeness_among_judged: Floats) -> Floats:
    # In double precision: rounding adds up over thousands of rows.
    kernel = likeness_among_judged.astype(np.float64)
    kernel[np.diag_indices_from(kernel)] += RIDGE
    return np.asarray(np.linalg.inv(kernel), np.float32)
