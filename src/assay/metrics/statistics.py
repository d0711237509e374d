"""Confidence intervals of means, and tests whether two systems differ."""

import math
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike

from assay.errors import UsageError
from assay.metrics.formulas import Floats, Integers

Interval = tuple[float | None, float | None]
Bounds = tuple[float, float] | None
SCORES = (0.0, 1.0)  # the ends of every metric of rankings, and of most figures of answers

_NEWTON_STEPS = 100
_TAIL = (1 - 0.95) / 2  # what a 95% interval leaves out on each side
_POWER, _ALPHA = 0.8, 0.05
# Below this, two scores of one query differ by rounding alone.
_SAME = 1e-12

# Up to a few thousand values every resample is drawn value by value. Beyond that, values that are
# almost equal are drawn together: how often a bin of them occurs is multinomial, and the spread
# inside the bins is added back as the normal noise it sums to. A resample then costs the same for a
# thousand queries and for a million.
#
# Values drawn for one interval: fewer resamples of more queries, whose interval is narrow already.
_DRAWS = 10_000_000
_MIN_ROUNDS, _MAX_ROUNDS = 2_000, 10_000
_DIRECT_LIMIT = _DRAWS // _MIN_ROUNDS
_BINS = 256
# Values that are drawn together, of one resample or several: 2 MB.
_AT_ONCE = 2**18


@dataclass(frozen=True, slots=True)
class SampleSummary:
    """The mean of per-query scores with its interval, None for fewer than two queries."""

    n: int
    mean: float
    low: float | None
    high: float | None
    median: float
    std: float
    minimum: float
    maximum: float


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean with its interval; no interval with fewer than two values."""

    mean: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
class PairedResult:
    """Two systems in one metric, query by query: b - a; `wins` are queries on which b is better.

    `p_adjusted` is corrected for the number of metrics, and systems, that were compared (Holm).
    """

    # Reports hold it as an object of JSON: pydantic reads that here, where no pydantic is loaded.
    __pydantic_config__ = {"strict": False}  # noqa: RUF012

    n: int
    mean_a: float
    mean_b: float
    difference: float
    low: float | None
    high: float | None
    p_value: float
    p_adjusted: float
    wins: int
    ties: int
    losses: int
    queries_needed: int | None = None

    @property
    def significant(self) -> bool:
        """Whether the difference is significant at 0.05."""
        return self.p_adjusted < 0.05


def summarize(values: ArrayLike, *, seed: int = 0, bounds: Bounds = SCORES) -> SampleSummary:
    """The mean with a 95% interval that holds for few queries too: see `bounded_means`.

    `std` is the population figure (ddof 0). No queries give zeros, not NaN, which JSON lacks.
    `bounds`: the lowest and highest value that a query can have; without them, or with a value
    outside, the interval is that of `compare_paired`.
    """
    array = finite(values)
    if array.size == 0:
        return SampleSummary(0, 0.0, None, None, 0.0, 0.0, 0.0, 0.0)
    if bounds is not None and bounds[0] <= array.min() and array.max() <= bounds[1]:
        low, high = _bounded_interval([array], seed, bounds)
    else:
        low, high = _interval(array, seed)
    return SampleSummary(
        n=array.size,
        mean=float(array.mean()),
        low=low,
        high=high,
        median=float(np.median(array)),
        std=float(array.std()),
        minimum=float(array.min()),
        maximum=float(array.max()),
    )


def estimate_mean(values: ArrayLike) -> Estimate:
    """The mean with the interval of `summarize`."""
    summary = summarize(values)
    return Estimate(summary.mean, summary.low, summary.high)


def below(bound: float | None, ceiling: float) -> float | None:
    """An end of an interval, no higher than any system can score on these queries."""
    return None if bound is None else min(bound, ceiling)


def compare_paired(a: ArrayLike, b: ArrayLike, *, seed: int = 0) -> PairedResult:
    """Whether b scores differently from a on the same queries, given in the same order.

    The interval is that of the percentile bootstrap, widened for few queries. The p-value is that
    of the two-sided randomization test, which swaps the two labels of each query at random
    (recommended by Smucker, Allan and Carterette 2007).
    """
    first, second = _paired(a, b)
    if first.size == 0:
        return PairedResult(0, 0.0, 0.0, 0.0, None, None, 1.0, 1.0, 0, 0, 0)
    differences = second - first
    differences[np.abs(differences) < _SAME] = 0.0
    low, high = _interval(differences, seed)
    wins, losses = int((differences > 0).sum()), int((differences < 0).sum())
    p_value = _randomization_p(differences, seed)
    return PairedResult(
        n=first.size,
        mean_a=float(first.mean()),
        mean_b=float(second.mean()),
        difference=float(differences.mean()),
        low=low,
        high=high,
        p_value=p_value,
        p_adjusted=p_value,
        wins=wins,
        ties=first.size - wins - losses,
        losses=losses,
    )


def _paired(a: ArrayLike, b: ArrayLike) -> tuple[Floats, Floats]:
    first, second = finite(a), finite(b)
    if first.size != second.size:
        raise UsageError(
            f"paired scores must cover the same queries, got {first.size} and {second.size}"
        )
    return first, second


def summarize_strata(strata: Sequence[ArrayLike]) -> tuple[float, float | None, float | None]:
    """The mean of scores from 0 to 1 over sets of queries that count the same, and its interval,
    which is None if a set has fewer than two queries. Only the queries of each set are a sample.
    """
    arrays = [finite(values) for values in strata]
    if not all(array.size for array in arrays):
        raise UsageError("a mean over data sets needs at least one query of each")
    mean = float(np.mean([array.mean() for array in arrays]))
    return mean, *_bounded_interval(arrays, 0, SCORES)


def compare_strata(strata: Sequence[tuple[ArrayLike, ArrayLike]]) -> float:
    """The p-value of `compare_paired` over several sets of queries that count the same; each pair
    has the scores of a and b on the queries of one set.
    """
    differences = [second - first for first, second in (_paired(a, b) for a, b in strata)]
    total = sum(stratum.size for stratum in differences)
    # Each set counts the same, so a query of a small set weighs more.
    weighted = [d * (total / (len(differences) * d.size)) for d in differences]
    joined = np.concatenate(weighted)
    joined[np.abs(joined) < _SAME] = 0.0
    return _randomization_p(joined, 0)


def rank_ranges(scores: Sequence[Sequence[Mapping[str, float]]]) -> list[str]:
    """The ranks that paired tests leave possible for each system, best first: `1`, or `2–4`.

    All systems that are significantly better stand before it, all that are significantly worse
    behind it, the others on either side. `scores` has the systems in order: of each, the scores by
    query on every data set, which count the same. The p-values are corrected together (Holm): of
    twenty equal systems some pair always differs by chance.
    """
    places = range(len(scores))
    pairs = list(combinations(places, 2))
    p_values = holm([_p_value(scores[a], scores[b]) for a, b in pairs])
    separated = {pair for pair, p in zip(pairs, p_values, strict=True) if p < _ALPHA}
    found = []
    for place in places:
        best = 1 + sum((other, place) in separated for other in places)
        worst = len(scores) - sum((place, other) in separated for other in places)
        found.append(str(best) if best == worst else f"{best}–{worst}")
    return found


def _p_value(a: Sequence[Mapping[str, float]], b: Sequence[Mapping[str, float]]) -> float:
    strata = []
    for first, second in zip(a, b, strict=True):
        both = [query_id for query_id in first if query_id in second]
        if not both:
            return 1.0
        strata.append(([first[q] for q in both], [second[q] for q in both]))
    return compare_strata(strata)


def holm(p_values: Sequence[float]) -> list[float]:
    """p-values of several comparisons, corrected together (Holm 1979), in the order given."""
    adjusted = list(p_values)
    highest = 0.0
    for rank, index in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        # Rejected only after all with smaller p-values, so theirs is the least that it gets.
        highest = max(highest, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = highest
    return adjusted


def cohen_kappa(labels: Sequence[Hashable], verdicts: Sequence[Hashable]) -> float | None:
    """Agreement beyond chance (Cohen 1960): 1 all, 0 as much as chance, below 0 less; None if both
    always say the same one thing. An undecided verdict, None, is a third category.
    """
    n = len(labels)
    agreed = sum(v == y for v, y in zip(verdicts, labels, strict=True)) / n
    ours, theirs = Counter(labels), Counter(verdicts)
    by_chance = sum(ours[value] * theirs[value] for value in ours) / n**2
    return None if by_chance == 1 else (agreed - by_chance) / (1 - by_chance)


def weighted_kappa(first: Sequence[int], second: Sequence[int]) -> float | None:
    """Agreement of two graders beyond chance, with quadratic weights (Cohen 1968); None without
    grades, and if both always give the same one.
    """
    if not first:
        return None
    a, b = np.array(first, np.float64), np.array(second, np.float64)
    seen = float(((a - b) ** 2).mean())
    by_chance = float((a**2).mean() + (b**2).mean() - 2 * a.mean() * b.mean())
    return None if by_chance <= _SAME else 1 - seen / by_chance


def binomial_tail(hits: int, of: int, rate: float) -> float:
    """The probability of so many hits or more among `of` things, if each is one with `rate`.

    >>> binomial_tail(1, 24, 0.0), round(binomial_tail(2, 24, 0.02), 2)
    (0.0, 0.08)
    """
    if rate == 0:
        return float(hits == 0)
    # Log terms: the coefficients of a thousand answers do not fit into a float.
    below = (
        math.exp(
            math.lgamma(of + 1)
            - math.lgamma(k + 1)
            - math.lgamma(of - k + 1)
            + k * math.log(rate)
            + (of - k) * math.log1p(-rate)
        )
        for k in range(hits)
    )
    return max(0.0, 1 - sum(below))


def min_queries(comparisons: int = 1) -> int:
    """With fewer queries, no difference is significant at 0.05, however large it is."""
    # The randomization test of n queries has no p-value below 2 / 2**n, which `holm` multiplies.
    return math.floor(math.log2(comparisons / _ALPHA)) + 2


def queries_needed(std_of_differences: float, difference: float, comparisons: int = 1) -> int:
    """How many queries a paired two-sided test needs to find a true mean difference above 0, at a
    power of 0.8 and a significance of 0.05 (Sakai 2016, "Topic set size design").
    """
    # The first step of `holm` divides the significance by the number of comparisons.
    critical = NormalDist().inv_cdf(1 - _ALPHA / comparisons / 2)
    reach = critical + NormalDist().inv_cdf(_POWER)
    by_power = math.ceil((reach * std_of_differences / difference) ** 2 + critical**2 / 2)
    return max(by_power, min_queries(comparisons))


@cache
def student_t(degrees: int, tail: float) -> float:
    """The value that Student's t exceeds with probability `tail` (at most 0.5)."""
    # With t = sqrt(degrees) * tan(angle) the density becomes a power of the cosine: smooth enough
    # for Gauss-Legendre quadrature at full precision, and its integral is concave, so that Newton's
    # method started at 0 approaches the quantile from below.
    half = degrees / 2
    if half < 100:
        ratio = math.gamma(half + 0.5) / math.gamma(half)
    else:  # the gamma function overflows: its asymptotic ratio (Tricomi and Erdélyi 1951)
        series = (1.0, -1 / 8, 1 / 128, 5 / 1024, -21 / 32768, -399 / 262144)
        ratio = math.sqrt(half) * sum(c / half**power for power, c in enumerate(series))
    scale = ratio / math.sqrt(math.pi)
    nodes, weights = np.polynomial.legendre.leggauss(64)

    def density(angle: Floats) -> Floats:
        powers = (degrees - 1) / 2 * np.log1p(-(np.sin(angle) ** 2))
        return np.asarray(scale * np.exp(powers), dtype=np.float64)

    angle = 0.0
    for _ in range(_NEWTON_STEPS):
        inside = float(weights @ density(angle / 2 * (nodes + 1))) * angle / 2
        step = (0.5 - tail - inside) / float(density(np.array([angle]))[0])
        angle += step
        if abs(step) <= 1e-15 * angle:
            break
    return math.sqrt(degrees) * math.tan(angle)


def _bounded_interval(arrays: Sequence[Floats], seed: int, bounds: tuple[float, float]) -> Interval:
    """Of the mean of the arrays' means."""
    if any(array.size < 2 for array in arrays):
        return None, None
    start, size = bounds[0], bounds[1] - bounds[0]
    shares = [(array - start) / size for array in arrays]
    drawn = [bounded_means(array, seed + place) for place, array in enumerate(shares)]
    rounds = min(lows.size for lows, _ in drawn)
    lows, highs = np.mean([(lows[:rounds], highs[:rounds]) for lows, highs in drawn], axis=0)
    low, high = float(np.quantile(lows, _TAIL)), float(np.quantile(highs, 1 - _TAIL))
    # Rounding leads out by a digit.
    return start + size * max(0.0, low), start + size * min(1.0, high)


def _interval(values: Floats, seed: int) -> Interval:
    """Percentiles of the bootstrap, taken further out by as much as few values make them narrow."""
    n = values.size
    if n < 2:
        return None, None
    # The tails are those that would give the t interval if the means were normal (Hesterberg 2015,
    # "What teachers should know about the bootstrap", section 5.3).
    reach = student_t(n - 1, _TAIL) * math.sqrt(n / (n - 1))
    tail = 0.5 * math.erfc(reach / math.sqrt(2))  # of the normal distribution
    low, high = np.quantile(bootstrap_means(values, seed), [tail, 1 - tail])
    return float(low), float(high)


def _randomization_p(differences: Floats, seed: int) -> float:
    flipped = np.abs(flipped_means(differences, seed))
    as_extreme = int((flipped >= abs(float(differences.mean())) - _SAME).sum())
    # The observed labeling is one of the resamples: p is never 0 (Phipson and Smyth 2010).
    return (as_extreme + 1) / (flipped.size + 1)


def finite(values: ArrayLike) -> Floats:
    """The values as an array. Raises `UsageError` for anything but one flat list of numbers."""
    array = np.array(values, dtype=np.float64)
    if array.ndim != 1 or not np.isfinite(array).all():
        raise UsageError("scores must be one flat list of finite numbers")
    return array


def resample_count(n: int) -> int:
    """10,000 up to 1,000 queries, fewer for more."""
    return min(_MAX_ROUNDS, max(_MIN_ROUNDS, _DRAWS // n))


def bootstrap_means(values: Floats, seed: int) -> Floats:
    """Means of resamples with replacement (Efron 1979, "Bootstrap methods")."""
    rng = np.random.default_rng(seed)
    rounds = resample_count(values.size)
    if values.size > _DIRECT_LIMIT:
        bins, counts, lost = _binned(values)
        times = rng.multinomial(values.size, counts / values.size, size=rounds)
        return (times @ bins + rng.normal(0.0, np.sqrt(lost), rounds)) / values.size
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
    rng = np.random.default_rng(seed)
    rounds = resample_count(values.size)
    if values.size > _DIRECT_LIMIT:
        means, counts, lost = _binned(values)
        drawn = rng.standard_gamma(counts, (rounds, counts.size))
        weights = drawn.sum(axis=1)
        noise = rng.normal(0.0, np.sqrt(lost), rounds)
        sums = np.clip(drawn @ means + noise, 0.0, weights)
    else:
        sums, weights = np.empty(rounds), np.empty(rounds)
        step = _AT_ONCE // values.size
        for start in range(0, rounds, step):
            drawn = rng.standard_exponential((min(step, rounds - start), values.size))
            sums[start : start + step] = drawn @ values
            weights[start : start + step] = drawn.sum(axis=1)
    joining = rng.standard_exponential(rounds)
    return sums / (weights + joining), (sums + joining) / (weights + joining)


def flipped_means(differences: Floats, seed: int) -> Floats:
    """Means after each difference kept or lost its sign by a fair coin."""
    rng = np.random.default_rng(seed)
    rounds = resample_count(differences.size)
    moving = np.abs(differences[differences != 0])
    if moving.size > _DIRECT_LIMIT:
        bins, counts, lost = _binned(moving)
        flips = 2 * rng.binomial(counts, 0.5, size=(rounds, counts.size)) - counts
        return (flips @ bins + rng.normal(0.0, np.sqrt(lost), rounds)) / differences.size
    sums = np.empty(rounds)
    step = _AT_ONCE // max(moving.size, 1)
    for start in range(0, rounds, step):
        heads = rng.integers(0, 2, (min(step, rounds - start), moving.size), dtype=np.uint8)
        sums[start : start + step] = (heads * 2.0 - 1.0) @ moving
    return sums / differences.size


def _binned(values: Floats) -> tuple[Floats, Integers, float]:
    """Means and counts of the bins, and the sum of squares inside them that the means lack."""
    low, high = float(values.min()), float(values.max())
    scale = _BINS / (high - low) if high > low else 0.0
    owner = np.minimum(((values - low) * scale).astype(np.int64), _BINS - 1)
    counts = np.bincount(owner, minlength=_BINS)
    means = np.bincount(owner, weights=values, minlength=_BINS) / np.maximum(counts, 1)
    lost = float(np.square(values - means[owner]).sum())
    used = counts > 0
    return means[used], counts[used], lost
