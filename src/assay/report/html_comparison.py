"""Runs side by side: which is better, by how much, on which queries, and what was lost there.

The first run is the reference. Figures are of all runs; queries and slices of the reference and one
other run, which a page calls a and b.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple
from urllib.parse import urlencode

import numpy as np
from markupsafe import Markup

from assay.data.dataset import Dataset
from assay.metrics.figures import improvement, parse_figure
from assay.metrics.statistics import PairedResult, compare_paired, holm
from assay.report import charts
from assay.report.html import (
    EXCERPT,
    IN_FILE,
    OUTCOMES,
    JudgedDocuments,
    Slice,
    anchor,
    described,
    ordered,
    render_page,
    slices_of,
)
from assay.run.comparison import ComparedRun
from assay.run.listing import distinguish
from assay.run.models import Comparison, ReportFigure

COMPARE_TABS: Mapping[str, str] = {
    "queries": "Queries",
    "documents": "Documents",
    "metrics": "Metrics",
    "settings": "Settings that differ",
}

_MAX_RANKINGS = 4  # side by side, in a file two; of further runs there is the score
_MAX_DOCUMENTS = 60
# The page stays under 150 kB: with 20 runs, each link to a query names all of them.
_LINKS_BYTES = 20_000
# Rounding alone makes no query better or worse.
_SAME = 1e-12
_MIN_QUERIES = 5  # of a slice: nothing could be told about a smaller one
# What differs between any two runs, or stands elsewhere on the page.
_NOT_COMPARED = frozenset({"label", "tags", "note"})


class QueryChange(NamedTuple):
    """One query in a and b; `scores` are those of all runs."""

    query_id: str
    text: str
    a: float
    b: float
    gain: float
    scores: list[float | None]
    slices: tuple[Slice, ...]


class DocumentCount(NamedTuple):
    """A relevant document: how often runs missed it, and where b lost it against a."""

    doc_id: str
    missed: int
    of: int
    missed_in: list[str]
    lost_in: list[str]


@dataclass(frozen=True)
class ComparePage:
    """What the templates of a comparison read; the first of `sides` is the reference."""

    sides: Sequence[ComparedRun]
    labels: Sequence[str]  # what to call each
    comparisons: Sequence[Comparison]  # of each further run with the first
    chosen: int  # which of the comparisons is shown query by query
    figure: ReportFigure  # what queries are compared by
    docs: JudgedDocuments
    server: bool = False  # whether links lead to other pages

    def choose(self, chosen: int, metric: str = "") -> "ComparePage":
        """The same runs, with another one as b, or compared by another metric."""
        metrics = list(self.comparisons[chosen].metrics)
        figure = parse_figure(metric if metric in metrics else metrics[0])
        return replace(self, chosen=chosen, figure=figure)

    @property
    def a(self) -> ComparedRun:
        """The reference."""
        return self.sides[0]

    @property
    def b(self) -> ComparedRun:
        """The run that is judged."""
        return self.sides[self.chosen + 1]

    @property
    def sides_in_full(self) -> list[ComparedRun]:
        """The runs whose rankings are shown: a, b and as many others as fit."""
        others = [side for side in self.sides if side not in (self.a, self.b)]
        return [self.a, self.b, *others][: _MAX_RANKINGS if self.server else 2]

    @property
    def b_label(self) -> str:
        """What to call b."""
        return self.labels[self.chosen + 1]

    def label_of(self, side: ComparedRun) -> str:
        """What to call one of the runs."""
        return next(n for own, n in zip(self.sides, self.labels, strict=True) if own is side)

    def score(self, side: ComparedRun, query_id: str) -> float | None:
        """The figure of one query; None if the run has none."""
        return side.scores.get(query_id, {}).get(self.figure.key)

    @property
    def comparison(self) -> Comparison:
        """Of b with a."""
        return self.comparisons[self.chosen]

    @property
    def metrics(self) -> list[tuple[str, PairedResult, bool]]:
        """Each compared metric, its result, and whether b is better; significant ones first."""
        first, *others = [
            (name, row, improvement(parse_figure(name), row.difference) > 0)
            for name, row in self.comparison.metrics.items()
        ]
        return [first, *sorted(others, key=lambda one: not one[1].significant)]

    @property
    def outcome(self) -> str:
        """`got worse`, `got better`, `got better and worse`, or that nothing differs."""
        changed = {better for _, row, better in self.metrics if row.significant}
        if len(changed) > 1:
            return "got better and worse"
        if changed:
            return "got better" if True in changed else "got worse"
        same = all(row.wins == row.losses == 0 for _, row, _ in self.metrics)
        return "scores the same" if same else "does not differ significantly"

    @cached_property
    def queries(self) -> list[QueryChange]:
        """The queries that both runs have, what got worse first."""
        found = []
        for query_id, text in self.a.texts.items():
            scores = [self.score(side, query_id) for side in self.sides]
            a, b = scores[0], scores[self.chosen + 1]
            if a is None or b is None:
                continue
            row = self.a.rows.get(query_id)
            slices = tuple(slices_of(row, self.docs.tags(query_id))) if row else ()
            gain = improvement(self.figure, b - a)
            found.append(QueryChange(query_id, text, a, b, gain, scores, slices))
        return sorted(found, key=lambda change: change.gain)

    @property
    def worse(self) -> int:
        """Queries on which b is worse."""
        return sum(change.gain < -_SAME for change in self.queries)

    @property
    def better(self) -> int:
        """Queries on which b is better."""
        return sum(change.gain > _SAME for change in self.queries)

    @cached_property
    def slices(self) -> list[tuple[Slice, PairedResult]]:
        """Slices of queries in a and b, significant changes first."""
        scores: dict[Slice, list[tuple[float, float]]] = defaultdict(list)
        for change in self.queries:
            for found in change.slices:
                scores[found].append((change.a, change.b))
        return compare_slices(scores)

    @cached_property
    def documents(self) -> list[DocumentCount]:
        """Relevant documents that runs missed: those first that b lost, then the most missed."""
        missed: dict[str, list[str]] = defaultdict(list)
        lost: dict[str, list[str]] = defaultdict(list)
        of: Counter[str] = Counter()
        for query_id in self.a.rows:
            rows = [side.rows.get(query_id) for side in self.sides]
            found = [row and set(row.retrieved_docs[: self.docs.top_k]) for row in rows]
            a, b = found[0], found[self.chosen + 1]
            for doc_id in self.docs.relevant(query_id):
                asked = [ids for ids in found if ids is not None]
                of[doc_id] += len(asked)
                missed[doc_id] += [query_id for ids in asked if doc_id not in ids]
                if a and b is not None and doc_id in a and doc_id not in b:
                    lost[doc_id].append(query_id)
        counts = [
            DocumentCount(doc_id, len(ids), of[doc_id], list(dict.fromkeys(ids)), lost[doc_id])
            for doc_id, ids in missed.items()
            if ids
        ]
        return sorted(counts, key=lambda one: (-len(one.lost_in), -one.missed))[:_MAX_DOCUMENTS]

    @property
    def differing(self) -> list[tuple[str, list[str]]]:
        """The settings that are not the same in all runs, with the value of each."""
        every = [described(side.header, side.report) for side in self.sides]
        names = dict.fromkeys(name for own in every for name in own if name not in _NOT_COMPARED)
        rows = [(name, [own.get(name, "") for own in every]) for name in names]
        return [(name, values) for name, values in rows if len(set(values)) > 1]

    def scatter(self) -> Markup:
        """One dot a query; click one to open it."""
        signed = self.figure.key == "truthfulness" or any(min(c.a, c.b) < 0 for c in self.queries)
        widest = sorted(self.queries, key=lambda change: -abs(change.gain))
        shown = widest[: _LINKS_BYTES // len(self.address())]
        dots = [(c.a, c.b, c.text or c.query_id, self.link(c.query_id)) for c in shown]
        labels, ends = (f"a {self.labels[0]}", f"b {self.b_label}"), (-1.0 if signed else 0.0, 1.0)
        return charts.scatter(dots, labels, ends, self.figure.higher_is_better)

    def evidence_curves(self) -> Markup | None:
        """The evidence seen after each search in both runs; None unless both have searches."""
        found = [side.report.search for side in (self.a, self.b)]
        names = (f"a {self.labels[0]}", f"b {self.b_label}")
        curves = {n: s.curve for n, s in zip(names, found, strict=True) if s and s.curve}
        return charts.evidence_curve(curves) if len(curves) == 2 else None

    def link(self, query_id: str) -> str:
        """Where a query is shown."""
        return self.address(query=query_id) if self.server else f"#q-{anchor(query_id)}"

    def address(self, **changes: str) -> str:
        """This comparison with other parameters."""
        names = [("run", side.name) for side in self.sides]
        own = {"ref": self.a.name, "b": self.b.name, "metric": self.figure.slug, **changes}
        return f"/compare?{urlencode([*names, *((k, v) for k, v in own.items() if v)])}"


def compare_slices(
    scores: Mapping[Slice, Sequence[tuple[float, float]]],
) -> list[tuple[Slice, PairedResult]]:
    """Every slice of at least five queries, significant changes first, then the largest.

    A slice of what became of a query in the first run can only get better, so it is not compared.
    p-values are corrected for the number of slices (Holm).
    """
    keys = [
        key
        for key in ordered({key: len(values) for key, values in scores.items()})
        if len(scores[key]) >= _MIN_QUERIES and key.kind not in OUTCOMES
    ]
    compared = [compare_paired(*np.array(scores[key]).T) for key in keys]
    # Of thirty slices, one or two would differ by chance alone at p < 0.05.
    adjusted = holm([one.p_value for one in compared])
    found = [replace(one, p_adjusted=p) for one, p in zip(compared, adjusted, strict=True)]
    return sorted(
        zip(keys, found, strict=True),
        key=lambda pair: (not pair[1].significant, -abs(pair[1].difference)),
    )


def compare_page(
    sides: Sequence[ComparedRun],
    comparisons: Sequence[Comparison],
    dataset: Dataset | None = None,
    *,
    server: bool = False,
) -> ComparePage:
    """What the page of a comparison shows: `comparisons` are of the other `sides` with the first.

    `dataset` adds grades, titles and texts.
    """
    # The run of a baseline was made with the settings of its run, label included.
    headers = [
        side.header.model_copy(update={"label": None}) if side.header.baseline_of else side.header
        for side in sides
    ]
    names = distinguish(headers)
    labels = [header.label or name for header, name in zip(headers, names, strict=True)]
    if len(set(labels)) < len(labels):
        labels = names
    config = sides[0].report.config
    docs = JudgedDocuments(config.top_k, config.split, dataset, None if server else EXCERPT)
    figure = parse_figure(next(iter(comparisons[0].metrics)))
    return ComparePage(sides, labels, comparisons, 0, figure, docs, server)


def render_compare_file(page: ComparePage) -> str:
    """A comparison as one file: `render_compare_file(compare_page(sides, comparisons))`."""
    title = f"{page.b_label} {page.outcome}, against {page.labels[0]}"
    values = {"compared": page, "tabs": COMPARE_TABS, "shown": IN_FILE}
    return render_page("compare_file.html", title=title, **values)
