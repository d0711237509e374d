"""Intervals, paired tests, correction and sample sizes."""

import math
from itertools import product

import numpy as np
import pytest

from assay.errors import UsageError
from assay.metrics.formulas import Floats
from assay.metrics.statistics import (
    PairedResult,
    SampleSummary,
    below,
    binomial_tail,
    bounded_means,
    cohen_kappa,
    compare_paired,
    compare_strata,
    holm,
    min_queries,
    queries_needed,
    rank_ranges,
    student_t,
    summarize,
    summarize_strata,
    weighted_kappa,
)

RNG = np.random.default_rng(7)


def width(found: SampleSummary | PairedResult) -> float:
    assert found.low is not None
    assert found.high is not None
    return found.high - found.low


def test_a_summary_has_the_population_figures_and_an_interval_of_two_queries_and_more() -> None:
    summary = summarize([0.0, 0.5, 1.0, 0.5])
    assert (summary.n, summary.mean, summary.median) == (4, 0.5, 0.5)
    assert (summary.minimum, summary.maximum) == (0.0, 1.0)
    assert summary.std == pytest.approx(math.sqrt(0.125))
    assert summarize([]) == SampleSummary(0, 0.0, None, None, 0.0, 0.0, 0.0, 0.0)
    one = summarize([0.7])
    assert (one.mean, one.std, one.low, one.high) == (0.7, 0.0, None, None)


@pytest.mark.parametrize("n", [2, 10, 323, 20_000])
def test_scores_that_are_all_equal_leave_room_for_what_was_not_seen(n: int) -> None:
    """As many misses in a row bound the rate of hits as Clopper and Pearson 1934 say."""
    bound = 1 - 0.025 ** (1 / n)
    none, full = summarize(np.zeros(n)), summarize(np.ones(n))
    assert (none.low, full.high) == (0.0, 1.0)
    assert none.high == pytest.approx(bound, rel=0.1)
    assert full.low == pytest.approx(1 - bound, abs=0.1 * bound)


@pytest.mark.parametrize("n", [323, 5_000, 5_001, 100_000])
def test_the_interval_is_as_wide_as_the_central_limit_says(n: int) -> None:
    values = RNG.beta(0.4, 0.8, n)
    summary = summarize(values)
    expected = 2 * 1.96 * summary.std / math.sqrt(n)
    assert width(summary) == pytest.approx(expected, rel=0.12)
    assert summary.low < summary.mean < summary.high  # type: ignore[operator]


def test_the_spread_among_almost_equal_values_is_not_lost() -> None:
    """A far value makes the bins so wide that all others fall into one."""
    values = np.concatenate([np.tile([0.0, 0.003], 500_000), [1.0]])
    expected = 2 * 1.96 * float(values.std()) / math.sqrt(values.size)
    found = compare_paired(np.zeros(values.size), values)
    assert width(found) == pytest.approx(expected, rel=0.12)
    # Wider: what was not seen may be far from what was.
    assert 1.05 < width(summarize(values)) / expected < 1.5


def test_the_interval_of_a_difference_is_as_wide_as_that_of_student() -> None:
    """A resample spreads as the population does: sqrt(n / (n - 1)) makes up for that."""
    values = np.linspace(-1, 1, 12)
    found = compare_paired(np.zeros(values.size), values)
    assert found.high is not None
    student = student_t(values.size - 1, 0.025) * float(values.std(ddof=1)) / math.sqrt(12)
    assert found.high == pytest.approx(student, rel=0.02)


def ndcg_like(rng: np.random.Generator, n: int, misses: float, full: float) -> Floats:
    """Bounded scores with a heap at 0 and one at 1; their mean is (1 - misses + full) / 2."""
    scores, luck = rng.random(n), rng.random(n)
    scores[luck < misses] = 0.0
    scores[luck > 1 - full] = 1.0
    return scores


@pytest.mark.parametrize(
    ("n", "misses", "full"),
    [(2, 0.1, 0.9), (5, 0.7, 0.1), (10, 0.35, 0.1), (20, 0.1, 0.9), (60, 0.7, 0.1)],
)
def test_the_interval_of_a_mean_covers_the_truth(n: int, misses: float, full: float) -> None:
    """400 samples: a true coverage of 0.95 falls below 0.92 in one of 200 runs. Every size with
    every kind of scores: `benchmarks/coverage.py`."""
    rng = np.random.default_rng(3)
    truth = (1 - misses + full) / 2
    summaries = [summarize(ndcg_like(rng, n, misses, full)) for _ in range(400)]
    covered = [s.low <= truth <= s.high for s in summaries if s.low is not None and s.high]
    assert np.mean(covered) >= 0.92


@pytest.mark.parametrize("n", [10, 20])
def test_the_interval_of_a_difference_is_not_too_narrow_for_few_queries(n: int) -> None:
    rng = np.random.default_rng(n)
    pairs = [[ndcg_like(rng, n, 0.35, 0.1) for _ in range(2)] for _ in range(400)]
    found = [compare_paired(*pair, seed=trial) for trial, pair in enumerate(pairs)]
    covered = [each.low <= 0 <= each.high for each in found if each.low is not None and each.high]
    assert np.mean(covered) >= 0.92


@pytest.mark.parametrize("values", [[0.1, float("nan")], [[0.1], [0.2]], [float("inf")]])
def test_other_lists_are_refused(values: list[float]) -> None:
    with pytest.raises(UsageError, match="finite"):
        summarize(values)
    with pytest.raises(UsageError, match="same queries, got 2 and 1"):
        compare_paired([0.1, 0.2], [0.1])


def test_a_comparison_counts_wins_for_b_and_rounding_noise_as_a_tie() -> None:
    comparison = compare_paired([0.1, 0.5, 0.5, 0.9], [0.2, 0.5, 0.6, 0.3])
    assert (comparison.wins, comparison.ties, comparison.losses) == (2, 1, 1)
    assert comparison.difference == pytest.approx(-0.1)
    assert [comparison.mean_a, comparison.mean_b] == pytest.approx([0.5, 0.4])
    equal = compare_paired([0.1 + 0.2, 0.5], [0.3, 0.5])
    assert (equal.ties, equal.p_value, equal.low, equal.high) == (2, 1.0, 0.0, 0.0)


def test_the_p_value_is_that_of_all_sign_flips() -> None:
    """Ten equal differences: of 1,024 flips, two are as extreme as what was seen."""
    comparison = compare_paired(np.zeros(10), np.full(10, 0.1))
    assert comparison.p_value == pytest.approx(2 / 1024, abs=0.0015)


@pytest.mark.parametrize("n", [200, 5_100])
def test_a_false_alarm_is_as_rare_as_the_level_says(n: int) -> None:
    rng = np.random.default_rng(n)
    noise = rng.normal(0, 0.2, (30, n))
    alarms = sum(compare_paired(np.zeros(n), each).p_value < 0.1 for each in noise)
    assert 1 <= alarms <= 8


def test_a_mean_of_scores_over_sets_stays_between_0_and_1() -> None:
    """As that of a single set, from which it differs by its sets alone."""
    rare = [0.0] * 29 + [0.5]
    alone = summarize(rare)
    assert summarize_strata([rare]) == (alone.mean, alone.low, alone.high)
    mean, low, high = summarize_strata([rare, rare])
    assert alone.low < low < mean < high < alone.high  # type: ignore[operator]
    with pytest.raises(UsageError, match="at least one query of each"):
        summarize_strata([rare, []])


def test_every_set_counts_the_same_in_a_comparison() -> None:
    """Of 256 flips, with one set of two large gains and one of six small losses."""
    gains, losses = [1.0, 1.0], [-0.3] * 6
    p_value = compare_strata([([0.0] * 2, gains), ([0.0] * 6, losses)])
    flips = [
        abs(np.mean(signs[:2] * np.array(gains)) + np.mean(signs[2:] * np.array(losses))) / 2
        for signs in map(np.array, product((-1, 1), repeat=8))
    ]
    assert p_value == pytest.approx(np.mean(np.array(flips) > 0.35 - 1e-9), abs=0.02)
    noise = compare_strata([([0.1 + 0.2, 0.5], [0.3, 0.6])])
    assert noise == pytest.approx(1.0)  # one query differs, by whichever sign


def test_agreement_beyond_chance_is_that_of_cohen() -> None:
    """By hand: 0.5 was seen, and 2.25 + 2.25 - 2 * 1.25 * 1.25 = 1.375 is chance."""
    assert weighted_kappa([0, 1, 2, 2], [0, 2, 2, 1]) == pytest.approx(1 - 0.5 / 1.375)
    assert weighted_kappa([0, 1, 2], [0, 1, 2]) == 1.0
    assert weighted_kappa([], []) is None
    assert weighted_kappa([1, 1], [1, 1]) is None


def test_no_end_of_an_interval_is_above_the_ceiling() -> None:
    assert [below(None, 0.5), below(0.7, 0.5), below(0.3, 0.5)] == [None, 0.5, 0.3]


def test_holm_is_the_published_step_down() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([]) == []
    assert holm([0.9, 0.8]) == [1.0, 1.0]


def test_sample_sizes_are_those_of_the_t_test() -> None:
    """An effect of half a standard deviation needs 34 pairs at power 0.8 (Cohen 1988)."""
    assert queries_needed(0.2, 0.1) == 34
    assert queries_needed(0.2, 0.05) == 128
    assert queries_needed(0.2, 0.1, comparisons=3) == 45  # at a significance of 0.05 / 3


@pytest.mark.parametrize("comparisons", [1, 3, 5])
def test_with_fewer_queries_no_difference_is_significant(comparisons: int) -> None:
    fewest = min_queries(comparisons)
    p_values = [compare_paired([0.0] * n, [1.0] * n).p_value for n in (fewest - 1, fewest)]
    adjusted = [holm([p] * comparisons)[0] for p in p_values]
    assert adjusted[0] > 0.05 > adjusted[1]
    assert queries_needed(0.0, 1.0, comparisons) == fewest


@pytest.mark.parametrize(
    ("degrees", "quantile"),
    [
        (1, 12.706204736174705),
        (4, 2.7764451051977943),
        (19, 2.09302405440831),
        (200, 1.9718962236339093),
        (4_999, 1.9604386466615251),
        (1_000_000, 1.9599663568141072),
    ],
)
def test_quantiles_of_student_t_are_those_of_scipy(degrees: int, quantile: float) -> None:
    """Negated `scipy.special.stdtrit` of scipy 1.16."""
    assert student_t(degrees, 0.025) == pytest.approx(quantile, rel=3e-14, abs=0)


@pytest.mark.parametrize("value", [-1.0, 0.0, 1.0])
def test_an_interval_knows_the_range_and_not_only_the_sample(value: float) -> None:
    found, share = summarize([value] * 12, bounds=(-1, 1)), summarize([(value + 1) / 2] * 12)
    assert found.low == pytest.approx(2 * share.low - 1)  # type: ignore[operator]
    assert found.high == pytest.approx(2 * share.high - 1)  # type: ignore[operator]
    assert width(found) > 0.5


def test_one_unseen_query_is_added_to_every_resample() -> None:
    values, rng = np.random.default_rng(11).random(40), np.random.default_rng(7_001)
    weights = rng.standard_exponential((10_000, values.size))
    unseen = rng.standard_exponential(10_000)
    low, high = bounded_means(values, 7_001)
    assert low == pytest.approx(weights @ values / (weights.sum(axis=1) + unseen), rel=1e-12)
    assert high == pytest.approx(low + unseen / (weights.sum(axis=1) + unseen), rel=1e-12)


def test_a_rank_range_counts_who_is_surely_better_and_surely_worse() -> None:
    """A chain of small steps: the middle overlaps with both ends, which do not overlap."""
    scores = [[{str(n): float(n < right) for n in range(30)}] for right in (30, 26, 22)]
    assert rank_ranges(scores) == ["1–2", "1–3", "2–3"]
    assert rank_ranges(scores[:1]) == ["1"]


@pytest.mark.parametrize(
    ("hits", "of", "rate", "tail"),
    [(0, 3, 0.5, 1.0), (1, 3, 0.5, 0.875), (3, 3, 0.5, 0.125), (2, 24, 0.02, 0.0826), (1, 9, 0, 0)],
)
def test_hits_that_a_rate_explains(hits: int, of: int, rate: float, tail: float) -> None:
    assert binomial_tail(hits, of, rate) == pytest.approx(tail, abs=1e-4)


def test_agreement_is_beyond_chance() -> None:
    assert cohen_kappa([1, 1, 0, 0], [1, 0, 0, 0]) == pytest.approx(0.5)
    assert cohen_kappa([1, 1], [1, 1]) is None


def test_runs_without_a_shared_query_have_no_difference() -> None:
    assert compare_paired([], []) == PairedResult(0, 0.0, 0.0, 0.0, None, None, 1.0, 1.0, 0, 0, 0)
