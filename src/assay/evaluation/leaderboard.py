"""The leaderboard: targets in order, with the ranks that paired tests leave possible for each."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from pathlib import Path

from assay.metrics.figures import AnswerFigure, improvement, parse_figure
from assay.metrics.statistics import compare_strata, holm
from assay.run.folder import RunFolder
from assay.run.listing import RunLine, compared_by

ALPHA = 0.05
RANKED_LIMIT = 30  # Targets of one board: every pair of them is tested

# A report and when it was written: what is known of it holds until it is written anew.
_File = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Board:
    """Targets that compare, best first, each with the ranks that it can have: `1`, or `2–4`.

    The `silent` answered nothing, and have no place.
    """

    figure: str
    places: Sequence[tuple[str, RunLine]]
    silent: Sequence[str] = ()
    left_out: int = 0  # those beyond RANKED_LIMIT


def make_boards(folder: Path, points: Sequence[RunLine], figure: str = "") -> list[Board]:
    """Every board that runs under `folder` allow, by `figure` or by the headline of each run.

    `points` are the newest run of each target, for each kind of run that compares, oldest first.
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
    answered = [each for each in points if each.answered]
    parsed = parse_figure(figure)
    ordered = sorted(
        answered,
        key=lambda e: (-improvement(parsed, e.values[figure].mean), e.target or ""),
    )
    ranked = ordered[:RANKED_LIMIT]
    paths = [folder / each.name / "report.json" for each in ranked]
    files = tuple((str(path), path.stat().st_mtime_ns) for path in paths)
    places = list(zip(_ranks_of_reports(figure, files), ranked, strict=True))
    silent = [each.target or "" for each in points if not each.answered]
    return Board(figure, places, silent, len(ordered) - len(ranked))


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
    separated = {pair for pair, p in zip(pairs, p_values, strict=True) if p < ALPHA}
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


@lru_cache(maxsize=100)  # a page of ranks asks the same again, and reports hardly ever change
def _ranks_of_reports(figure: str, reports: Sequence[_File]) -> list[str]:
    return rank_ranges([[_scores(figure, Path(path))] for path, _ in reports])


def _scores(figure: str, report: Path) -> dict[str, float]:
    parsed = parse_figure(figure)
    if not isinstance(parsed, AnswerFigure):
        return {row.query_id: row.score(parsed) for row in RunFolder(report.parent).read_rows()}
    found = {row.query_id: row.score(parsed.key) for row in RunFolder(report.parent).read_answers()}
    return {query_id: score for query_id, score in found.items() if score is not None}
