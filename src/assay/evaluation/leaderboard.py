"""The leaderboard: targets in order; those that do not differ significantly share a rank."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from pathlib import Path

import numpy as np

from assay.measure.metrics import parse_metric
from assay.measure.statistics import compare_paired, holm, shared_ranks
from assay.run.index import RunLine
from assay.run.report_file import read_query_rows

Separates = Callable[[RunLine, RunLine], bool]
_File = tuple[str, int]
"""A report and when it was written: what is known of it holds until it is written anew."""


@dataclass(frozen=True, slots=True)
class BoardPlace:
    """`shared` if others have the same rank: they do not differ significantly from its best."""

    rank: int
    shared: bool
    line: RunLine


def rank_lines(lines: Sequence[RunLine], separates: Separates) -> list[BoardPlace]:
    """`lines` best first. A target ranks lower only if the leader is significantly
    better."""
    ranks = shared_ranks(lines, separates)
    return [BoardPlace(r, ranks.count(r) > 1, line) for r, line in zip(ranks, lines, strict=True)]


def significant_pairs(folder: Path, lines: Sequence[RunLine]) -> Separates:
    """Whether two of the runs differ at 0.05, on the queries of both.

    All pairs of the board are tested, and their p-values corrected together (Holm): of twenty
    equal targets some pair always differs by chance.
    """
    pairs = list(combinations(lines, 2))
    adjusted = holm([_pair_p_value(folder, a, b) for a, b in pairs])
    apart = {
        frozenset((a.name, b.name))
        for (a, b), p_value in zip(pairs, adjusted, strict=True)
        if p_value < 0.05
    }
    return lambda better, other: frozenset((better.name, other.name)) in apart


def _pair_p_value(folder: Path, a: RunLine, b: RunLine) -> float:
    reports = [folder / line.name / "report.json" for line in (a, b)]
    if not all(report.exists() for report in reports):
        return 1.0
    first, second = ((str(report), report.stat().st_mtime_ns) for report in reports)
    return _p_value(str(a.metric), first, second)


@lru_cache(maxsize=5000)
def _p_value(metric: str, a: _File, b: _File) -> float:
    """Kept, because a page of ranks asks the same again and reports hardly ever change."""
    scores_a, scores_b = _scores(metric, a), _scores(metric, b)
    shared = [query_id for query_id in scores_a if query_id in scores_b]
    first, second = (np.array([each[q] for q in shared]) for each in (scores_a, scores_b))
    return compare_paired(first, second).p_value


@lru_cache(maxsize=32)
def _scores(metric: str, report: _File) -> Mapping[str, float]:
    key = parse_metric(metric).key
    return {row.query_id: row.score(key) for row in read_query_rows(Path(report[0]))}
