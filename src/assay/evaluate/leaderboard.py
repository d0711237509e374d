"""Targets in order, with ranks that are shared where the queries cannot tell them apart."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from assay.evaluate.report_reading import read_rows
from assay.measure.metrics import parse_metric
from assay.measure.statistics import compare_paired

Separates = Callable[[Mapping[str, Any], Mapping[str, Any]], bool]


@dataclass(frozen=True, slots=True)
class Place:
    """`shared` where others have the same rank: they cannot be told from the best of it."""

    rank: int
    shared: bool
    line: Mapping[str, Any]


def rank(lines: Sequence[Mapping[str, Any]], separates: Separates) -> list[Place]:
    """`lines` best first. A rank goes on for as long as its first one is not surely better."""
    ranks: list[int] = []
    leader: Mapping[str, Any] | None = None
    for place, line in enumerate(lines, start=1):
        if leader is None or separates(leader, line):
            leader = line
            ranks.append(place)
        else:
            ranks.append(ranks[-1])
    return [Place(r, ranks.count(r) > 1, line) for r, line in zip(ranks, lines, strict=True)]


def told_apart_in(folder: Path) -> Separates:
    """Whether two runs under `folder` differ by a paired test at 0.05, on the queries of both."""

    def separates(better: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
        reports = [folder / line["name"] / "report.json" for line in (better, other)]
        if not all(report.exists() for report in reports):
            return False
        return _differ(better["metric"], *((str(r), r.stat().st_mtime_ns) for r in reports))

    return separates


@lru_cache(maxsize=2000)
def _differ(metric: str, a: tuple[str, int], b: tuple[str, int]) -> bool:
    """Kept, because a page of ranks asks the same again and reports hardly ever change."""
    key = parse_metric(metric).key
    scores_a, scores_b = (
        {row["query_id"]: float(row[key]) for row in read_rows(Path(path))} for path, _ in (a, b)
    )
    shared = [query_id for query_id in scores_a if query_id in scores_b]
    first, second = (np.array([each[q] for q in shared]) for each in (scores_a, scores_b))
    return bool(shared) and compare_paired(first, second).p_value < 0.05
