"""How far two runs' rankings differ, as a table for a terminal."""

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from assay.report.console import facts_table
from assay.report.numbers import count, figure, percent
from assay.run.overlap import QueryOverlap, RankingOverlap

_SHOWN = 10
_TEXT = 44


def render_overlap(overlap: RankingOverlap) -> RenderableType:
    """Means over all queries, then the queries that changed most."""
    names = Text(f"a = {overlap.a}\nb = {overlap.b}")
    parts: list[RenderableType] = [names, Text(), facts_table(_facts(overlap))]
    if overlap.changed:
        parts += [Text(), Text("queries that changed most", style="bold"), _changed(overlap)]
    parts += [Text(), Text(overlap_verdict(overlap))]
    return Group(*parts, *(Text(f"note: {each}", style="yellow") for each in overlap.warnings))


def overlap_verdict(overlap: RankingOverlap) -> str:
    """One sentence; it says how different the rankings are, and not which is better."""
    queries = count(overlap.queries)
    if overlap.identical == overlap.queries:
        return f"The rankings of all {queries} queries are the same."
    return (
        f"Of {queries} queries {count(overlap.identical)} have the same ranking and "
        f"{count(overlap.disjoint)} have nothing in common; RBO is {figure(overlap.rbo)} in the "
        "mean. Which run is better, only judgments can tell."
    )


def _facts(overlap: RankingOverlap) -> list[tuple[str, str]]:
    k = overlap.top_k
    return [
        ("RBO", f"{figure(overlap.rbo)} (p {overlap.persistence:g}; 1 is the same ranking)"),
        (f"shared@{k}", f"{percent(overlap.shared)} of the places hold a document of both"),
        (f"Jaccard@{k}", figure(overlap.jaccard)),
        ("Kendall", f"{figure(overlap.tau)} (order of the documents in both)"),
        ("first place", f"the same for {count(overlap.same_first)} of {count(overlap.queries)}"),
    ]


def _changed(overlap: RankingOverlap) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("query")
    for heading in ("RBO", "shared", "new", "swapped"):
        table.add_column(heading, justify="right")
    for each in overlap.changed[:_SHOWN]:
        table.add_row(
            Text(_query(each)),
            figure(each.rbo),
            percent(each.shared),
            count(each.moved_in),
            count(each.swapped),
        )
    return table


def _query(each: QueryOverlap) -> str:
    words = " ".join(f"{each.query_id}  {each.query_text}".split())
    return words if len(words) <= _TEXT else f"{words[: _TEXT - 1]}…"
