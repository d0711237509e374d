"""Matrix of queries by runs, and parts of runs as one HTML file to send."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from assay.data.dataset import Dataset
from assay.errors import RunError, UsageError, did_you_mean
from assay.metrics.metric import parse_metric
from assay.report.html_queries import JudgedDocuments, query_view, slice_key, slices_of
from assay.report.html_templates import render_page
from assay.run.folder import RunFolder
from assay.run.models import QueryRow
from assay.run.report_file import read_query_scores
from assay.run.title import distinguish

MATRIX_LIMIT = 20
"""Runs that one matrix shows at most."""

MATRIX_ORDERS = {
    "spread": "most different first",
    "change": "largest change from the first run to the last",
    "worst": "worst on average first",
    "best": "best on average first",
    "plan": "as asked",
}

_STEPS = 5

SHARED_ROWS = 2000
"""Queries that the page of a matrix has at most."""

SHARED_QUERIES = 200
"""Queries with their documents that the page of a slice has at most; each takes some kilobytes."""


@dataclass(frozen=True, slots=True)
class MatrixColumn:
    """A run of the matrix."""

    name: str
    label: str
    mean: float


@dataclass(frozen=True)
class MatrixRow:
    """One query; a score is None where a run did not ask it."""

    query_id: str
    text: str
    scores: Sequence[float | None]
    slices: frozenset[str] = frozenset()

    @cached_property
    def known(self) -> list[float]:
        """The scores that there are."""
        return [score for score in self.scores if score is not None]

    @cached_property
    def mean(self) -> float:
        """Over the runs."""
        return sum(self.known) / len(self.known) if self.known else 0.0

    @cached_property
    def spread(self) -> float:
        """The mean squared distance from the mean: rows are sorted by it."""
        return sum((score - self.mean) ** 2 for score in self.known) / max(1, len(self.known))

    @property
    def change(self) -> float:
        """From the first run to the last."""
        return self.known[-1] - self.known[0] if len(self.known) > 1 else 0.0

    @property
    def tones(self) -> list[str]:
        """The CSS class of each cell: five steps from 0 to 1."""
        return [
            "none" if score is None else f"step-{min(_STEPS - 1, int(score * _STEPS))}"
            for score in self.scores
        ]


@dataclass(frozen=True, slots=True)
class Matrix:
    """All queries of some runs on the same judgments; `target` where all runs are of one."""

    metric: str
    columns: Sequence[MatrixColumn]
    rows: Sequence[MatrixRow]
    target: str = ""

    def ordered(self, order: str) -> list[MatrixRow]:
        """The rows in one of MATRIX_ORDERS."""
        keys = {
            "spread": lambda row: -row.spread,
            "change": lambda row: -abs(row.change),
            "worst": lambda row: row.mean,
            "best": lambda row: -row.mean,
        }
        return sorted(self.rows, key=keys[order]) if order in keys else list(self.rows)


def read_matrix(folders: Sequence[RunFolder], tags: Mapping[str, Sequence[str]]) -> Matrix:
    """The scores of runs, query by query, in the first metric that all of them have.

    Parameters:
        folders: the runs, which must be on the same judgments.
        tags: of queries, by id.
    """
    reports = [folder.read_report() for folder in folders]
    first = reports[0]
    for folder, report in zip(folders, reports, strict=True):
        if report.dataset.fingerprint != first.dataset.fingerprint:
            raise RunError(
                f"runs {folders[0].name!r} and {folder.name!r} were made on different data, so "
                "their queries do not compare"
            )
    shared = [name for name in first.statistics if all(name in r.statistics for r in reports)]
    if not shared:
        raise RunError("these runs have no metric in common: they were run with different --top-k")
    key = parse_metric(shared[0]).key
    texts: dict[str, str] = {}
    slices: dict[str, frozenset[str]] = {}
    scores: list[dict[str, float]] = []
    for folder in folders:
        own: dict[str, float] = {}
        for query_id, score, row in read_query_scores(folder.report_file, key, texts):
            own[query_id] = score
            if row is not None:
                texts[query_id] = row.query_text
                found = slices_of(row, tags.get(query_id, ()))
                slices[query_id] = frozenset(slice_key(*each) for each in found)
        scores.append(own)
    rows = [
        MatrixRow(query_id, text, [own.get(query_id) for own in scores], slices[query_id])
        for query_id, text in texts.items()
    ]
    targets = {report.target.name for report in reports}
    target = first.target.name if len(targets) == 1 else ""
    labels = distinguish([folder.read_header() for folder in folders])
    if target:  # what differs is left, without its brackets
        labels = [each.removeprefix(target).strip(" ()") or target for each in labels]
    columns = [
        MatrixColumn(folder.name, label, report.statistics[shared[0]].mean)
        for folder, label, report in zip(folders, labels, reports, strict=True)
    ]
    return Matrix(shared[0], columns, rows, target)


def render_matrix_page(matrix: Matrix, rows: Sequence[MatrixRow], chosen: str = "") -> str:
    """The scores of runs query by query, as one file.

    Parameters:
        matrix: has the runs and their means.
        rows: the queries to show, in their order; the first 2,000 are.
        chosen: in words, which queries these are; empty for all.
    """
    return render_page(
        "matrix_page.html",
        title="Queries by runs",
        chosen=chosen,
        metric=matrix.metric,
        columns=matrix.columns,
        rows=rows[:SHARED_ROWS],
        total=len(rows),
        links=False,
    )


def render_slice_page(
    folder: RunFolder, rows: Sequence[QueryRow], dataset: Dataset | None, chosen: str
) -> str:
    """Queries of a run with what was retrieved for each, as one file.

    Parameters:
        folder: the run.
        rows: the queries to show, in their order; the first 200 are.
        dataset: adds grades, titles and texts.
        chosen: in words, which queries these are.
    """
    report = folder.read_report()
    metric, _ = report.headline
    judged = JudgedDocuments.of(report.config, dataset)
    return render_page(
        "slice_page.html",
        title=chosen,
        run=folder.name,
        report=report,
        metric=metric,
        mean=sum(row.score(metric) for row in rows) / len(rows) if rows else None,
        queries=[query_view(row, metric, judged) for row in rows[:SHARED_QUERIES]],
        total=len(rows),
        graded=dataset is not None,
    )


def rows_of_slice(folder: RunFolder, dataset: Dataset | None, name: str) -> list[QueryRow]:
    """The queries of a slice such as `Form of the query: question`, worst first.

    Raises `UsageError` where the run has no query in such a slice.
    """
    queries = dataset.queries if dataset else {}
    metric, _ = folder.read_report().headline
    found, known = [], set()
    for row in folder.read_rows():
        tags = queries[row.query_id].tags if row.query_id in queries else ()
        slices = {slice_key(*each) for each in slices_of(row, tags)}
        known |= slices
        if name in slices:
            found.append(row)
    if not found:
        names = ", ".join(map(repr, sorted(known)))
        raise UsageError(
            f"no query is in slice {name!r}; there are {names}{did_you_mean(name, known)}"
        )
    return sorted(found, key=lambda row: row.score(metric))
