"""Runs side by side: which is better, by how much, on which queries, and what was lost there.

The first run is the reference. Figures are of all runs; queries and slices of the reference and one
other run, which a page calls a and b.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple
from urllib.parse import urlencode

from markupsafe import Markup

from assay.data.dataset import Dataset
from assay.metrics.figures import AnswerFigure, improvement, parse_figure
from assay.report import charts
from assay.report.documents import EXCERPT, JudgedDocuments, anchor
from assay.report.html import shown_settings
from assay.report.html_templates import render_page
from assay.report.slices import Slice, SliceChange, compare_slices, slices_of
from assay.run.comparison import ComparedRun
from assay.run.folder import RunFolder
from assay.run.models import (
    AnswerRow,
    Comparison,
    PairedResult,
    QueryRow,
    Report,
    ReportFigure,
    RunHeader,
)
from assay.run.title import distinguish

IN_FILE = 12
"""Queries that a file shows with both rankings."""

_DOTS = 1000
_DOCUMENTS = 60
_SAME = 1e-12
# What differs between any two runs, or is said elsewhere on the page.
_NOT_COMPARED = frozenset({"label", "tags", "note"})


@dataclass(frozen=True)
class ComparedSide:
    """A run of a comparison: its report, header and rows by query."""

    name: str
    report: Report
    header: RunHeader
    rows: dict[str, QueryRow]
    answers: dict[str, AnswerRow]

    @classmethod
    def read(cls, folder: RunFolder) -> "ComparedSide":
        """From the files of a run."""
        return cls(
            folder.name,
            folder.read_report(),
            folder.read_header(),
            {row.query_id: row for row in folder.read_rows()},
            {row.query_id: row for row in folder.read_answers()},
        )

    @property
    def compared(self) -> ComparedRun:
        """The run as a comparison needs it."""
        return ComparedRun.of(self.report, self.rows.values(), self.answers.values(), self.header)

    def score(self, query_id: str, figure: ReportFigure) -> float | None:
        """The figure of one query; None if the run has none."""
        own = self.answers if isinstance(figure, AnswerFigure) else self.rows
        row = own.get(query_id)
        return None if row is None else row.scores.get(figure.key)


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
    """What the templates of a comparison read; the first of `sides` is the reference.

    Attributes:
        sides: the runs.
        labels: what to call each.
        comparisons: of each further run with the first.
        chosen: which of the comparisons is shown query by query.
        figure: what queries are compared by.
        docs: grades, titles and texts.
        server: whether links lead to other pages.
    """

    sides: Sequence[ComparedSide]
    labels: Sequence[str]
    comparisons: Sequence[Comparison]
    chosen: int
    figure: ReportFigure
    docs: JudgedDocuments
    server: bool = False

    @property
    def a(self) -> ComparedSide:
        return self.sides[0]

    @property
    def b(self) -> ComparedSide:
        return self.sides[self.chosen + 1]

    @property
    def b_label(self) -> str:
        return self.labels[self.chosen + 1]

    @property
    def comparison(self) -> Comparison:
        """Of b with a."""
        return self.comparisons[self.chosen]

    def metrics(self, comparison: Comparison | None = None) -> list[tuple[str, PairedResult, bool]]:
        """Each compared metric, its result, and whether b is better; significant ones first."""
        rows = (comparison or self.comparison).metrics.items()
        found = [
            (name, row, improvement(parse_figure(name), row.difference) > 0) for name, row in rows
        ]
        first, *others = found
        return [first, *sorted(others, key=lambda one: not one[1].significant)]

    @property
    def outcome(self) -> str:
        """`got worse`, `got better`, `got better and worse`, or that nothing differs."""
        changed = [better for _, row, better in self.metrics() if row.significant]
        if not changed:
            same = all(row.wins == row.losses == 0 for _, row, _ in self.metrics())
            return "scores the same" if same else "does not differ significantly"
        if len(set(changed)) > 1:
            return "got better and worse"
        return "got better" if changed[0] else "got worse"

    @cached_property
    def queries(self) -> list[QueryChange]:
        """The queries that both runs have, what got worse first."""
        own = self.a.answers if isinstance(self.figure, AnswerFigure) else self.a.rows
        found = []
        for query_id, row in own.items():
            a, b = (side.score(query_id, self.figure) for side in (self.a, self.b))
            if a is None or b is None:
                continue
            ranked = self.a.rows.get(query_id)
            slices = tuple(slices_of(ranked, self.docs.tags(query_id))) if ranked else ()
            scores = [side.score(query_id, self.figure) for side in self.sides]
            gain = improvement(self.figure, b - a)
            found.append(QueryChange(query_id, row.query_text, a, b, gain, scores, slices))
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
    def slices(self) -> list[SliceChange]:
        """Slices of queries in a and b, significant changes first."""
        scores: dict[Slice, list[tuple[float, float]]] = defaultdict(list)
        for change in self.queries:
            for found in change.slices:
                scores[found].append((change.a, change.b))
        return compare_slices(scores)

    @cached_property
    def documents(self) -> list[DocumentCount]:
        """Relevant documents, those first that most runs missed for most queries."""
        missed: dict[str, list[str]] = defaultdict(list)
        lost: dict[str, list[str]] = defaultdict(list)
        of: Counter[str] = Counter()
        depth = self.docs.top_k
        for query_id in self.a.rows:
            rows = [side.rows.get(query_id) for side in self.sides]
            found = [set(row.retrieved_docs[:depth]) for row in rows if row is not None]
            b = self.b.rows.get(query_id)
            for doc_id in self.docs.relevant(query_id):
                of[doc_id] += len(found)
                missed[doc_id] += [query_id for ids in found if doc_id not in ids]
                if b and doc_id in found[0] and doc_id not in b.retrieved_docs[:depth]:
                    lost[doc_id].append(query_id)
        counts = [
            DocumentCount(
                doc_id,
                len(missed[doc_id]),
                of[doc_id],
                list(dict.fromkeys(missed[doc_id])),
                lost[doc_id],
            )
            for doc_id in of
            if missed[doc_id]
        ]
        return sorted(counts, key=lambda one: (-len(one.lost_in), -one.missed))[:_DOCUMENTS]

    @property
    def differing(self) -> list[tuple[str, list[str]]]:
        """The settings that are not the same in all runs, with the value of each."""
        every = [self._settings(side) for side in self.sides]
        names = dict.fromkeys(name for own in every for name in own)
        rows = [(name, [own.get(name, "") for own in every]) for name in names]
        return [(name, values) for name, values in rows if len(set(values)) > 1]

    def _settings(self, side: ComparedSide) -> dict[str, str]:
        header, report = side.header, side.report
        own = {
            "target": report.target.title,
            "branch": (header.git.branch if header.git else None) or "",
            "commit": ((header.git.commit if header.git else None) or "")[:10],
            "data set": f"{report.dataset.name} {report.dataset.split}",
            "data": report.dataset.fingerprint[:12],
            "agent": report.target.agent or "",
            "embedder": header.embedder or "",
        }
        own |= {f"retriever {key}": value for key, value in (header.retriever or {}).items()}
        shown = shown_settings(report.config)
        own |= {name: value for name, value in shown.items() if name not in _NOT_COMPARED}
        return own | report.versions

    def scatter(self) -> Markup:
        """One dot a query; click one to open it."""
        low = -1.0 if any(min(c.a, c.b) < 0 for c in self.queries) else 0.0
        if isinstance(self.figure, AnswerFigure) and self.figure.key == "truthfulness":
            low = -1.0
        dots = [(c.a, c.b, c.text or c.query_id, self.link(c.query_id)) for c in self.queries]
        labels = (f"a {self.labels[0]}", f"b {self.b_label}")
        higher = self.figure.higher_is_better
        return charts.scatter(dots[:_DOTS], labels, (low, 1.0), higher)

    def link(self, query_id: str) -> str:
        """Where a query is shown."""
        return self.address(query=query_id) if self.server else f"#q-{anchor(query_id)}"

    def address(self, **changes: str) -> str:
        """This comparison with other parameters."""
        names = [("run", side.name) for side in self.sides]
        own = {"ref": self.a.name, "b": self.b.name, "metric": self.figure.slug, **changes}
        return f"/compare?{urlencode([*names, *((k, v) for k, v in own.items() if v)])}"


def compare_page(
    sides: Sequence[ComparedSide],
    comparisons: Sequence[Comparison],
    dataset: Dataset | None = None,
    *,
    chosen: int = 0,
    metric: str = "",
    excerpt: int | None = EXCERPT,
    server: bool = False,
) -> ComparePage:
    """A comparison of runs with the first of them, in the order of `comparisons`."""
    # The run of a baseline was made with the settings of its run, label included.
    headers = [
        side.header.model_copy(update={"label": None}) if side.header.baseline_of else side.header
        for side in sides
    ]
    names = distinguish(headers)
    labels = [header.label or name for header, name in zip(headers, names, strict=True)]
    if len(set(labels)) < len(labels):
        labels = names
    metrics = list(comparisons[chosen].metrics)
    figure = parse_figure(metric if metric in metrics else metrics[0])
    docs = JudgedDocuments.of(sides[0].report.config, dataset, excerpt=excerpt)
    return ComparePage(sides, labels, comparisons, chosen, figure, docs, server)


def render_comparison_page(
    sides: Sequence[ComparedSide],
    comparisons: Sequence[Comparison],
    dataset: Dataset | None = None,
) -> str:
    """A comparison as one file.

    Parameters:
        sides: the runs; the others are compared with the first.
        comparisons: one for each of the others, in their order.
        dataset: adds grades, titles and texts.
    """
    return render_compare_file(compare_page(sides, comparisons, dataset))


def render_compare_file(page: ComparePage) -> str:
    """A comparison as one file, whichever of its runs is chosen."""
    title = f"{page.b_label} {page.outcome}, against {page.labels[0]}"
    return render_page("compare_file.html", compared=page, title=title, shown=IN_FILE)
