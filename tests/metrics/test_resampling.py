"""Bootstraps and sign flips: how many there are, and what they are drawn from."""

import math
from collections.abc import Callable
from unittest.mock import Mock

import numpy as np
import pytest

from assay.metrics.graded import Floats
from assay.metrics.resampling import (
    _binned,
    bootstrap_means,
    bounded_means,
    flipped_means,
    resample_count,
)


def test_resamples_are_fewer_for_more_queries() -> None:
    assert [resample_count(n) for n in (1, 323, 1_000, 2_000, 100_000)] == [
        *(10_000, 10_000, 10_000, 5_000, 2_000)
    ]


@pytest.mark.parametrize("size", [40, 104, 105])
def test_the_weights_of_few_values_are_drawn_once_for_all_metrics(
    size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw = np.random.default_rng
    seeded = Mock(side_effect=draw)
    monkeypatch.setattr(np.random, "default_rng", seeded)
    values = draw(11).random(size)
    for each in (values, values**2, values):
        rng = draw(7_001)
        weights = rng.standard_exponential((10_000, size))
        unseen = rng.standard_exponential(10_000)
        low, high = bounded_means(each, 7_001)
        assert low == pytest.approx(weights @ each / (weights.sum(axis=1) + unseen), rel=1e-12)
        assert high == pytest.approx(low + unseen / (weights.sum(axis=1) + unseen), rel=1e-12)
    assert seeded.call_count == (1 if size <= 104 else 3)


def test_resampling_many_values_is_centered() -> None:
    """Beyond 5,000 values they are drawn by the bins of a histogram."""
    values = np.random.default_rng(11).random(6_000)
    flipped = flipped_means(values, 5)
    assert abs(float(flipped.mean())) < 5 * float(flipped.std()) / math.sqrt(flipped.size)
    drawn = bootstrap_means(values, 5)
    error = 5 * float(drawn.std()) / math.sqrt(drawn.size)
    assert float(drawn.mean()) == pytest.approx(float(values.mean()), abs=error)
    assert float(drawn.std()) == pytest.approx(float(values.std()) / math.sqrt(6_000), rel=0.06)


@pytest.mark.parametrize(
    "means", [bootstrap_means, flipped_means, lambda values, seed: bounded_means(values, seed)[0]]
)
def test_means_of_many_small_values_are_small(means: Callable[[Floats, int], Floats]) -> None:
    values = np.random.default_rng(11).random(6_000)
    assert means(values / 2**20, 5) * 2**20 == pytest.approx(means(values, 5), rel=1e-9)


def test_bins_keep_the_sum_and_lose_little() -> None:
    values = np.append(np.random.default_rng(2).uniform(2, 10, 6_000), 30.0)  # alone in its bin
    bins = _binned(values)
    assert int(bins.counts.sum()) == values.size
    assert bins.counts.min() == 1
    assert bins.counts.size <= 256
    assert float(bins.counts @ bins.means) == pytest.approx(float(values.sum()))
    assert bins.lost < values.size * (28 / 256) ** 2
