"""How often 95% intervals hold the true mean, for few queries with scores like those of nDCG.

    .venv/bin/python benchmarks/coverage.py [--samples 2000] [--trials 3]

Each sample is drawn from a population whose mean is known: a heap of zeros, a few perfect scores,
the rest spread between. Printed is the share of samples whose interval holds that mean, and the
mean width of the interval: Assay's beside the percentile bootstrap and Student's t.

With --trials, each question is asked several times and is right with a chance of its own. Assay's
interval of the questions' means is compared with a bootstrap of questions and then of trials.
"""

import argparse
import math
from collections.abc import Callable

import numpy as np

from assay.metrics.formulas import Floats
from assay.metrics.statistics import bootstrap_means, student_t, summarize

POPULATIONS = {"a third zeros": (0.35, 0.10), "70% zeros": (0.70, 0.10), "90% hits": (0.10, 0.90)}
SIZES = (5, 10, 20, 50)
# Parameters of the beta distribution from which a question's chance is drawn.
CHANCES = {"mostly sure": 0.5, "flaky": 2.0}

Interval = tuple[float, float]


def main() -> None:
    options = _options()
    if options.trials:
        _compare_trials(options.trials, options.samples)
        return
    samples = options.samples
    print(f"{'scores':<14} {'queries':>7}   {'percentile':>13} {'Student t':>13} {'assay':>13}")
    for name, (zeros, ones) in POPULATIONS.items():
        for size in SIZES:
            columns = [_measured(way, zeros, ones, size, samples) for way in WAYS]
            print(f"{name:<14} {size:>7}   {' '.join(columns)}")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="measure the coverage of confidence intervals")
    parser.add_argument("--samples", type=int, default=2000)
    parser.add_argument("--trials", type=int, default=0, help="of each question")
    return parser.parse_args()


def _measured(
    way: Callable[[Floats, int], Interval], zeros: float, ones: float, size: int, samples: int
) -> str:
    rng = np.random.default_rng(size)
    truth = (1 - zeros + ones) / 2
    held, width = 0, 0.0
    for seed in range(samples):
        low, high = way(_sample(rng, size, zeros, ones), seed)
        held += low - 1e-9 <= truth <= high + 1e-9
        width += min(1.0, high) - max(0.0, low)
    return f"{held / samples:>6.1%} ({width / samples:.2f})"


def _sample(rng: np.random.Generator, size: int, zeros: float, ones: float) -> Floats:
    scores, luck = rng.random(size), rng.random(size)
    scores[luck < zeros] = 0.0
    scores[luck > 1 - ones] = 1.0
    return scores


def _compare_trials(trials: int, samples: int) -> None:
    print(f"{'questions':<14} {'number':>7}   {'in two stages':>13} {'assay':>13}")
    for name, shape in CHANCES.items():
        for size in SIZES[1:]:
            rng = np.random.default_rng(size)
            held, width = np.zeros(2), np.zeros(2)
            for seed in range(samples):
                chances = rng.beta(shape, shape, (size, 1))
                right = (rng.random((size, trials)) < chances).astype(float)
                both = np.array([_two_stages(right, rng), _assay(right.mean(1), seed)])
                held += (both[:, 0] <= 0.5) & (both[:, 1] >= 0.5)
                width += both[:, 1] - both[:, 0]
            cells = [
                f"{share:>6.1%} ({wide:.2f})"
                for share, wide in zip(held / samples, width / samples, strict=True)
            ]
            print(f"{name:<14} {size:>7}   {' '.join(cells)}")


def _two_stages(right: Floats, rng: np.random.Generator, rounds: int = 600) -> Interval:
    size, trials = right.shape
    questions = right[rng.integers(0, size, (rounds, size))]
    drawn = rng.integers(0, trials, questions.shape)
    means = np.take_along_axis(questions, drawn, axis=2).mean((1, 2))
    low, high = np.quantile(means, [0.025, 0.975])
    return float(low), float(high)


def _percentile(scores: Floats, seed: int) -> Interval:
    low, high = np.quantile(bootstrap_means(scores, seed), [0.025, 0.975])
    return float(low), float(high)


def _student(scores: Floats, _seed: int) -> Interval:
    reach = student_t(scores.size - 1, 0.025) * scores.std(ddof=1) / math.sqrt(scores.size)
    return float(scores.mean() - reach), float(scores.mean() + reach)


def _assay(scores: Floats, seed: int) -> Interval:
    summary = summarize(scores, seed=seed)
    assert summary.low is not None
    assert summary.high is not None
    return summary.low, summary.high


WAYS = (_percentile, _student, _assay)


if __name__ == "__main__":
    main()
