"""A slice of a run's queries as one HTML file to send."""

from collections.abc import Sequence

from assay.data.dataset import Dataset
from assay.errors import UsageError, did_you_mean
from assay.report.html_queries import JudgedDocuments, query_view, slice_key, slices_of
from assay.report.html_templates import render_page
from assay.run.folder import RunFolder
from assay.run.models import QueryRow

SHARED_QUERIES = 200
"""Queries with their documents that the page of a slice has at most; each takes some kilobytes."""


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
