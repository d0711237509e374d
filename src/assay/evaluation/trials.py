"""How far the trials of a question agree, for runs with `--repeat`."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from assay.evaluation.results import Results
from assay.metrics.searches import split_variance
from assay.metrics.statistics import summarize
from assay.run.searches import SearchFigure, TrialsReport

_FLAKY = 10

# For each trial, whether the answer to each question is right; None if that is undecided.
RightByTrial = Sequence[Mapping[str, bool | None]]


def trials_report(
    results: Results, headlines: NDArray[np.float64], right: RightByTrial, seed: int
) -> TrialsReport:
    """The section of the report; `right` are verdicts on answers, if these were evaluated."""
    between, within, advice = split_variance(headlines)
    answered = right[0] if right else {}
    decided = [id for id in answered if all(trial.get(id) is not None for trial in right)]
    every = [all(trial[id] for trial in right) for id in decided]
    some = [any(trial[id] for trial in right) for id in decided]
    if decided:
        flaky = [id for id, a, b in zip(decided, every, some, strict=True) if a != b]
    else:
        spread = headlines.max(axis=1) - headlines.min(axis=1)
        flaky = [
            results.scores.query_ids[place]
            for place in np.argsort(-spread, kind="stable")
            if spread[place]
        ]
    return TrialsReport(
        repeat=headlines.shape[1],
        agreement=results.agreement,
        between=between,
        within=within,
        advice=advice,
        pass_all=_share(every, seed) if decided else None,
        pass_any=_share(some, seed) if decided else None,
        flaky=flaky[:_FLAKY],
    )


def _share(passed: Sequence[bool], seed: int) -> SearchFigure:
    found = summarize(np.array(passed, dtype=float), seed=seed)
    return SearchFigure(mean=found.mean, low=found.low, high=found.high, questions=found.n)
