"""The leaderboard: targets in order, with the ranks that paired tests leave possible for each.

A board holds runs that were asked the same queries on the same data and measured in one way; each
track, sample and number of documents has its own board.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from pathlib import Path

import numpy as np

from assay.metrics.figures import AnswerFigure, improvement, parse_figure
from assay.metrics.statistics import Estimate, compare_paired, holm
from assay.run.folder import RunFolder
from assay.run.listing import RunLine
from assay.run.report_file import read_query_rows
from assay.run.trend import compared_by

ALPHA = 0.05
RANKED_LIMIT = 30  # Targets of one board: every pair of them is tested

# A report and when it was written: what is known of it holds until it is written anew.
_File = tuple[str, int]


@dataclass(frozen=True, slots=True)
class BoardPlace:
    """A target of a board.

    `best` and `worst` are the ranks that it can have: all targets that are significantly better
    stand before it, all that are significantly worse behind it, the others on either side.
    """

    best: int
    worst: int
    line: RunLine
    value: Estimate

    @property
    def ranks(self) -> str:
        """`1`, or `2–4` where tests do not decide."""
        return rank_range(self.best, self.worst)


@dataclass(frozen=True, slots=True)
class Board:
    """Targets that compare, best first.

    `silent` are targets that answered nothing, and have no place. `left_out` counts those beyond
    RANKED_LIMIT.
    """

    figure: str
    places: Sequence[BoardPlace]
    silent: Sequence[str] = ()
    left_out: int = 0


def make_boards(folder: Path, points: Sequence[RunLine], figure: str = "") -> list[Board]:
    """Every board that runs on one data set and split allow; whole sets before samples.

    Parameters:
        folder: where the runs are.
        points: the newest run of each target, for each kind of run that compares, oldest first.
        figure: what to rank by; empty for the headline metric of each run.
    """
    groups: dict[tuple[object, ...], list[RunLine]] = {}
    for point in points:
        name = figure or point.metric or ""
        if name in point.values:
            groups.setdefault((name, *compared_by(point, name)), []).append(point)
    newest = {point.fingerprint: point.moment for point in points}  # these are oldest first

    def rank(group: Sequence[RunLine]) -> tuple[object, ...]:
        """Whole sets first, the newest version of the data, then the most queries and targets."""
        line = group[0]
        size = (-newest[line.fingerprint], -(line.queries or 0), -len(group))
        return (line.seed is not None, *size, line.track or "", line.metric or "")

    ordered = sorted(groups.items(), key=lambda item: rank(item[1]))
    return [make_board(folder, group, str(key[0])) for key, group in ordered]


def make_board(folder: Path, points: Sequence[RunLine], figure: str) -> Board:
    """Rank runs that compare, one for each target."""
    answered = [each for each in points if (each.failed or 0) < (each.queries or 0)]
    parsed = parse_figure(figure)
    ordered = sorted(
        answered,
        key=lambda e: (-improvement(parsed, e.values[figure].mean), e.target or ""),
    )
    ranked = ordered[:RANKED_LIMIT]
    separated = separated_pairs(folder, ranked, figure)
    names = [each.name for each in ranked]
    ranges = rank_ranges(names, lambda a, b: (a, b) in separated)
    places = [
        BoardPlace(best, worst, each, each.values[figure])
        for each, (best, worst) in zip(ranked, ranges, strict=True)
    ]
    silent = [each.target or "" for each in points if each not in answered]
    return Board(figure, places, silent, len(ordered) - len(ranked))


def rank_ranges(
    items: Sequence[str], separates: Callable[[str, str], bool]
) -> list[tuple[int, int]]:
    """The first and last rank of each of `items`, which are best first.

    `separates` tells whether an item is significantly better than one after it.
    """
    ranges = []
    for place, item in enumerate(items):
        better = sum(separates(other, item) for other in items[:place])
        worse = sum(separates(item, other) for other in items[place + 1 :])
        ranges.append((1 + better, len(items) - worse))
    return ranges


def rank_range(best: int, worst: int) -> str:
    """`1`, or `2–4`."""
    return str(best) if best == worst else f"{best}–{worst}"


def separated_pairs(folder: Path, points: Sequence[RunLine], figure: str) -> set[tuple[str, str]]:
    """The pairs of runs that can be told apart on the queries of both, the better one first.

    The p-values are corrected together (Holm): of twenty equal targets some pair always differs by
    chance.
    """
    files: dict[str, _File] = {}
    for point in points:
        report = folder / point.name / "report.json"
        if report.exists():
            files[point.name] = str(report), report.stat().st_mtime_ns
    pairs = [(a, b) for a, b in combinations(points, 2) if {a.name, b.name} <= files.keys()]
    p_values = holm([_p_value(figure, files[a.name], files[b.name]) for a, b in pairs])
    return {
        (a.name, b.name)
        for (a, b), p in zip(pairs, p_values, strict=True)
        if p < ALPHA and a.values[figure].mean != b.values[figure].mean
    }


@lru_cache(maxsize=5000)  # a page of ranks asks the same again, and reports hardly ever change
def _p_value(figure: str, a: _File, b: _File) -> float:
    scores_a, scores_b = _scores(figure, a), _scores(figure, b)
    shared = [query_id for query_id in scores_a if query_id in scores_b]
    if not shared:
        return 1.0
    first, second = (np.array([each[q] for q in shared]) for each in (scores_a, scores_b))
    return compare_paired(first, second).p_value


@lru_cache(maxsize=32)
def _scores(figure: str, report: _File) -> Mapping[str, float]:
    parsed, path = parse_figure(figure), Path(report[0])
    if isinstance(parsed, AnswerFigure):
        rows = RunFolder(path.parent).read_answers()
        found = {row.query_id: row.score(parsed.key) for row in rows}
        return {query_id: score for query_id, score in found.items() if score is not None}
    return {row.query_id: row.score(parsed) for row in read_query_rows(path)}
