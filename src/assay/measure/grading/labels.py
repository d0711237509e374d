"""Pools that people grade: the table they fill in, and judgments of one or several graders."""

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from assay.data.text_file import write_file
from assay.errors import DataError, UsageError
from assay.measure.answers.calibration import cohen_kappa
from assay.measure.grading.grader import MAX_PASSAGE, PassagePair
from assay.measure.statistics import weighted_kappa

PairLabels = Mapping[tuple[str, str], int]
"""Grades by query id and document id."""

POOL_COLUMNS = ("query_id", "query", "doc_id", "title", "passage", "label")
"""A text is cut at `MAX_PASSAGE` characters; spreadsheets cut cells at 32,767."""


@dataclass(frozen=True, slots=True)
class GraderAgreement:
    """Two graders on the documents that both graded.

    `kappa` is about relevant or not, `weighted_kappa` about the grades; None where both always give
    the same one.
    """

    both: int
    same: float | None
    kappa: float | None
    weighted_kappa: float | None


def write_pool(path: Path, pairs: Iterable[PassagePair]) -> None:
    """Write the table with an empty column `label`, query by query."""
    write_file(path, pool_table(sorted(pairs, key=lambda pair: pair.query_id)))


def pool_table(pairs: Iterable[PassagePair], labels: PairLabels | None = None) -> bytes:
    """The table that a person fills in, with the labels that there are, as CSV."""
    text = io.StringIO()
    writer = csv.DictWriter(text, POOL_COLUMNS, lineterminator="\n")
    writer.writeheader()
    for pair in pairs:
        writer.writerow(
            {
                "query_id": pair.query_id,
                "query": _cell(pair.query),
                "doc_id": pair.doc_id,
                "title": _cell(pair.title),
                "passage": _cell(pair.passage[:MAX_PASSAGE]),
                "label": (labels or {}).get((pair.query_id, pair.doc_id), ""),
            }
        )
    return text.getvalue().encode("utf-8", "replace")


def _cell(text: str) -> str:
    """A spreadsheet runs what begins like a formula: a blank in front makes it text."""
    return f" {text}" if text[:1] in ("=", "+", "-", "@") else text


def combine_labels(graders: Sequence[PairLabels]) -> dict[tuple[str, str], int]:
    """One grade for each document: the median, the lower one of two in the middle."""
    grades: dict[tuple[str, str], list[int]] = {}
    for each in graders:
        for name, grade in each.items():
            grades.setdefault(name, []).append(grade)
    return {name: sorted(found)[(len(found) - 1) // 2] for name, found in grades.items()}


def grader_agreement(a: PairLabels, b: PairLabels) -> GraderAgreement:
    """How far two graders agree."""
    both = [name for name in a if name in b]
    if not both:
        return GraderAgreement(0, None, None, None)
    first, second = [a[name] for name in both], [b[name] for name in both]
    same = sum(x == y for x, y in zip(first, second, strict=True)) / len(both)
    relevant = [grade > 0 for grade in first], [grade > 0 for grade in second]
    return GraderAgreement(len(both), same, cohen_kappa(*relevant), weighted_kappa(first, second))


def write_label_qrels(path: Path, labels: PairLabels) -> None:
    """TREC's four columns."""
    try:
        write_file(path, label_qrels(labels))
    except UsageError as error:
        raise DataError(f"{error}; use --dataset-out instead", file=path) from None


def label_qrels(labels: PairLabels) -> bytes:
    """TREC's four columns as text. Raises `UsageError` for ids that these cannot hold."""
    lines = []
    for (query_id, doc_id), grade in labels.items():
        if any(len(each.split()) != 1 for each in (query_id, doc_id)):
            raise UsageError(f"qrels cannot hold ids with white space, got {query_id!r} {doc_id!r}")
        lines.append(f"{query_id} 0 {doc_id} {grade}\n")
    return "".join(lines).encode()
