"""Random resamples of per-query values: two bootstraps, and sign flips for paired tests."""

# Up to a few thousand values every resample is drawn value by value. Beyond that, values that are
# almost equal are drawn together: how often a bin of them occurs in a resample is multinomial, so
# its counts are drawn at once, and the spread inside the bins, which that leaves out, is added back
# as the normal noise it sums to. A resample then costs the same for a thousand queries and for a
# million.

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from assay.metrics.graded import Floats, Integers

# Values drawn for one interval: fewer resamples of more queries, whose interval is narrow already.
_DRAWS = 10_000_000
_MIN_ROUNDS, _MAX_ROUNDS = 2_000, 10_000
_DIRECT_LIMIT = _DRAWS // _MIN_ROUNDS
_BINS = 256
# Values that are drawn together, of one resample or several: 2 MB.
_AT_ONCE = 2**18
# Up to so many values, 8 MB of weights are kept for the next metric of the same run.
_KEPT_LIMIT = 4 * _AT_ONCE // _MAX_ROUNDS


class _Bins(NamedTuple):
    """`lost` is the sum of squares within the bins: what their means do not show."""

    means: Floats
    counts: Integers
    lost: float


def resample_count(n: int) -> int:
    """10,000 up to 1,000 queries, fewer for more."""
    return min(_MAX_ROUNDS, max(_MIN_ROUNDS, _DRAWS // n))


def bootstrap_means(values: Floats, seed: int) -> Floats:
    """Means of resamples with replacement (Efron 1979, "Bootstrap methods")."""
    rng = np.random.default_rng(seed)
    rounds = resample_count(values.size)
    if values.size > _DIRECT_LIMIT:
        return _binned_means(values, rounds, rng)
    means = np.empty(rounds)
    step = _AT_ONCE // values.size
    for start in range(0, rounds, step):
        shape = (min(step, rounds - start), values.size)
        drawn = values[rng.integers(0, values.size, shape, dtype=np.uint32)]
        means[start : start + step] = drawn.mean(axis=1)
    return means


def bounded_means(values: Floats, seed: int) -> tuple[Floats, Floats]:
    """Means under random weights (Rubin 1981, "The Bayesian bootstrap"), for values in [0, 1].

    Each time one more, unseen query is added: it scored 0 for the first array, 1 for the second.
    """
    # The quantiles of the one bound the true mean from below and of the other from above (Gaffke
    # 2005; Learned-Miller and Thomas 2019), which plain resampling of few values does not: it
    # cannot show what was not seen. For hits and misses this is the Clopper-Pearson interval.
    if values.size <= _KEPT_LIMIT:
        drawn, weights, joining = _kept_weights(values.size, seed)
        sums = np.concatenate([part @ values for part in drawn])
    else:
        rng = np.random.default_rng(seed)
        rounds = resample_count(values.size)
        sums, weights = _weighted_sums(values, rounds, rng)
        joining = rng.standard_exponential(rounds)
    return sums / (weights + joining), (sums + joining) / (weights + joining)


def flipped_means(differences: Floats, seed: int) -> Floats:
    """Means after each difference kept or lost its sign by a fair coin."""
    rng = np.random.default_rng(seed)
    rounds = resample_count(differences.size)
    moving = np.abs(differences[differences != 0])
    if moving.size > _DIRECT_LIMIT:
        return _binned_flips(moving, rounds, rng) / differences.size
    sums = np.empty(rounds)
    step = _AT_ONCE // max(moving.size, 1)
    for start in range(0, rounds, step):
        heads = rng.integers(0, 2, (min(step, rounds - start), moving.size), dtype=np.uint8)
        sums[start : start + step] = (heads * 2.0 - 1.0) @ moving
    return sums / differences.size


@lru_cache(maxsize=4)
def _kept_weights(size: int, seed: int) -> tuple[list[Floats], Floats, Floats]:
    """The weights of `size` values, their sums, and those of the query that is added."""
    rng = np.random.default_rng(seed)
    drawn = rng.standard_exponential((_MAX_ROUNDS, size))
    step = _AT_ONCE // size
    parts = [drawn[start : start + step] for start in range(0, _MAX_ROUNDS, step)]
    return parts, drawn.sum(axis=1), rng.standard_exponential(_MAX_ROUNDS)


def _weighted_sums(values: Floats, rounds: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Sums of the values with exponential weights, and the sums of the weights."""
    if values.size > _DIRECT_LIMIT:
        bins = _binned(values)
        drawn = rng.standard_gamma(bins.counts, (rounds, bins.counts.size))
        noise = rng.normal(0.0, np.sqrt(bins.lost), rounds)
        weights = drawn.sum(axis=1)
        return np.clip(drawn @ bins.means + noise, 0.0, weights), weights
    sums, weights = np.empty(rounds), np.empty(rounds)
    step = _AT_ONCE // values.size
    for start in range(0, rounds, step):
        drawn = rng.standard_exponential((min(step, rounds - start), values.size))
        sums[start : start + step] = drawn @ values
        weights[start : start + step] = drawn.sum(axis=1)
    return sums, weights


def _binned_means(values: Floats, rounds: int, rng: np.random.Generator) -> Floats:
    bins = _binned(values)
    drawn = rng.multinomial(values.size, bins.counts / values.size, size=rounds)
    noise = rng.normal(0.0, np.sqrt(bins.lost), rounds)
    return (drawn @ bins.means + noise) / values.size


def _binned_flips(sizes: Floats, rounds: int, rng: np.random.Generator) -> Floats:
    bins = _binned(sizes)
    heads = rng.binomial(bins.counts, 0.5, size=(rounds, bins.counts.size))
    noise = rng.normal(0.0, np.sqrt(bins.lost), rounds)
    return (2 * heads - bins.counts) @ bins.means + noise


def _binned(values: Floats) -> _Bins:
    low, high = float(values.min()), float(values.max())
    scale = _BINS / (high - low) if high > low else 0.0
    owner = np.minimum(((values - low) * scale).astype(np.int64), _BINS - 1)
    counts = np.bincount(owner, minlength=_BINS)
    means = np.bincount(owner, weights=values, minlength=_BINS) / np.maximum(counts, 1)
    lost = float(np.square(values - means[owner]).sum())
    used = counts > 0
    return _Bins(means[used], counts[used], lost)
