"""Queries by runs: a row a query, a column a run, each cell a score."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from assay.errors import RunError
from assay.measure.metrics import parse_metric
from assay.report.html_queries import slice_key, slices_of
from assay.run.folder import RunFolder
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
        raise RunError("these runs have no metric in common: each asks for another number of ids")
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
