"""`assay compare --overlap`: how far the rankings of two runs differ, where nobody judged them."""

from collections.abc import Sequence

import numpy as np

from assay.errors import RunError
from assay.measure.overlap import PERSISTENCE, ListOverlap, compare_lists
from assay.run.folder import RunFolder
from assay.run.models import QueryRow, RunHeader, RunModel
from assay.run.title import comparison_title, distinguish

CHANGED = 20
"""How many of the queries that changed most are listed."""


class QueryOverlap(RunModel):
    """One query in both runs; see `ListOverlap` for the figures."""

    query_id: str
    query_text: str
    rbo: float
    shared: float
    jaccard: float
    tau: float | None
    swapped: int
    moved_in: int
    same_first: bool


class RankingOverlap(RunModel):
    """How far the rankings of run B differ from those of run A.

    Attributes:
        run_a, run_b: the folders' names; a and b are what to call the runs.
        top_k: how many places of each ranking were compared.
        queries: on how many queries, answered in both.
        persistence: RBO's p.
        rbo, shared, jaccard: means over the queries.
        tau: the mean over queries with at least two common documents; None if there are none.
        same_first: queries with the same first document.
        identical, disjoint: queries whose rankings are the same, or have nothing in common.
        changed: those that changed most, the lowest RBO first.
    """

    run_a: str
    run_b: str
    a: str
    b: str
    title: str
    top_k: int
    queries: int
    persistence: float
    rbo: float
    shared: float
    jaccard: float
    tau: float | None
    same_first: int
    identical: int
    disjoint: int
    changed: list[QueryOverlap]
    warnings: list[str]


def compare_run_rankings(a: RunFolder, b: RunFolder) -> RankingOverlap:
    """Compare two runs query by query, whatever judgments they had. Raises `RunError`."""
    headers = [a.read_header(), b.read_header()]
    rows = [list(folder.read_rows()) for folder in (a, b)]
    return overlap_of(rows[0], rows[1], (a.name, b.name), headers)


def overlap_of(
    rows_a: Sequence[QueryRow],
    rows_b: Sequence[QueryRow],
    runs: tuple[str, str],
    headers: Sequence[RunHeader],
) -> RankingOverlap:
    """The same for rows that were read already."""
    theirs = {row.query_id: row for row in rows_b}
    pairs = [(row, theirs[row.query_id]) for row in rows_a if row.query_id in theirs]
    answered = [pair for pair in pairs if all(row.status == "ok" for row in pair)]
    if not answered:
        raise RunError("the two runs have no query that both answered, so nothing can be compared")
    top_k = min(header.config.top_k for header in headers)
    found = [
        (a, compare_lists(a.retrieved_docs[:top_k], b.retrieved_docs[:top_k])) for a, b in answered
    ]
    name_a, name_b = distinguish(headers)
    each = [overlap for _, overlap in found]
    taus = [overlap.tau for overlap in each if overlap.tau is not None]
    changed = sorted(found, key=lambda item: (item[1].rbo, item[1].shared))
    return RankingOverlap(
        run_a=runs[0],
        run_b=runs[1],
        a=name_a,
        b=name_b,
        title=comparison_title([name_a, name_b]),
        top_k=top_k,
        queries=len(found),
        persistence=PERSISTENCE,
        rbo=_mean([overlap.rbo for overlap in each]),
        shared=_mean([overlap.shared for overlap in each]),
        jaccard=_mean([overlap.jaccard for overlap in each]),
        tau=_mean(taus) if taus else None,
        same_first=sum(overlap.same_first for overlap in each),
        identical=sum(overlap.identical for overlap in each),
        disjoint=sum(overlap.jaccard == 0 for overlap in each),
        changed=[_query(row, o) for row, o in changed[:CHANGED] if not o.identical],
        warnings=_warnings(headers, len(rows_a), len(rows_b), len(pairs), len(found), pairs),
    )


def _query(row: QueryRow, overlap: ListOverlap) -> QueryOverlap:
    return QueryOverlap(
        query_id=row.query_id,
        query_text=row.query_text,
        rbo=overlap.rbo,
        shared=overlap.shared,
        jaccard=overlap.jaccard,
        tau=overlap.tau,
        swapped=overlap.swapped,
        moved_in=overlap.moved_in,
        same_first=overlap.same_first,
    )


def _warnings(
    headers: Sequence[RunHeader],
    in_a: int,
    in_b: int,
    shared: int,
    answered: int,
    pairs: Sequence[tuple[QueryRow, QueryRow]],
) -> list[str]:
    warnings = []
    if not shared == in_a == in_b:
        warnings.append(f"compared on the {shared} queries that both runs have ({in_a} and {in_b})")
    if answered < shared:
        warnings.append(f"{shared - answered} queries failed in one of the runs and are left out")
    depths = {header.config.top_k for header in headers}
    if len(depths) > 1:
        warnings.append(f"the runs asked for {max(depths)} and {min(depths)} documents")
    other = sum(a.query_text != b.query_text for a, b in pairs if a.query_text and b.query_text)
    if other:
        warnings.append(f"{other} queries have another text in the second run: is it the same set?")
    return warnings


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values))
