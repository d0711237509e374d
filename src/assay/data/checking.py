"""What is wrong with a data set: all of it, with file and line, where a reader stops at the first.

Errors are what `load_dataset` refuses. Warnings are what it reads all the same, and what makes
scores mean less than they seem to.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

from assay.data.dataset import UNANSWERABLE, Dataset
from assay.data.load import read_dataset
from assay.data.text_file import Findings
from assay.errors import DataError
from assay.progress import Progress, silent


@dataclass(frozen=True, slots=True)
class DatasetCheck:
    """What a check found.

    Attributes:
        name: the data set, as it was named.
        documents, queries, judgments: how many could be read.
        error_count: how many errors there are.
        errors: the first thousand of them, each with file and line.
        warnings: one for each kind, with its count and places.
    """

    name: str
    documents: int
    queries: int
    judgments: int
    error_count: int
    errors: tuple[str, ...]
    warnings: tuple[str, ...]


def check_dataset(
    name: str | Path,
    *,
    archive: Path | None = None,
    columns: Mapping[str, str] | Sequence[str] = (),
    progress: Progress = silent,
) -> DatasetCheck:
    """Read a data set to its end and list what is wrong; see `load_dataset` for the parameters.

    Raises:
        UsageError: there is no data set of that name.
    """
    findings = Findings(collect=True)
    dataset = Dataset(str(name), {}, {}, {})
    try:
        dataset = read_dataset(name, archive, columns, progress, findings)
    except DataError as error:
        findings.refuse(error)
    _note_doubtful(dataset, findings)
    judged = [grades for split in dataset.judgments.values() for grades in split.values()]
    return DatasetCheck(
        name=str(name),
        documents=len(dataset.documents),
        queries=len(dataset.queries),
        judgments=sum(map(len, judged)),
        error_count=findings.error_count,
        errors=tuple(map(str, findings.errors)),
        warnings=findings.messages,
    )


def _note_doubtful(dataset: Dataset, findings: Findings) -> None:
    """What is legal and probably not meant."""
    judged = {query_id for each in dataset.judgments.values() for query_id in each}
    for query in dataset.queries.values():
        answerable = UNANSWERABLE not in query.tags and query.id not in dataset.answers
        if query.id not in judged and answerable:
            findings.note("queries without any judgment, which no run asks", repr(query.id))
    for split, judgments in dataset.judgments.items():
        for query_id, grades in judgments.items():
            reference = dataset.answers.get(query_id)
            if reference is not None and reference.answer is None:
                continue  # nothing answers it, and that is what it asks for
            if grades and not any(grade > 0 for grade in grades.values()):
                what = f"queries of split {split!r} whose documents are all judged not relevant"
                findings.note(what, repr(query_id))
    _note_same(
        ((query.id, " ".join(query.text.casefold().split())) for query in dataset.queries.values()),
        "queries with the text of another one",
        findings,
    )
    _note_same(
        ((each.id, each.full_text) for each in dataset.documents.values()),
        "documents with the text of another one (a system cannot tell which is meant)",
        findings,
    )
    for one, other in combinations(sorted(dataset.judgments), 2):
        for query_id in dataset.judgments[one].keys() & dataset.judgments[other].keys():
            what = f"queries that are judged in {one!r} and in {other!r}"
            findings.note(what, repr(query_id))
    for doc_id in dataset.known_ids:
        if doc_id != doc_id.strip():
            findings.note("document ids that begin or end with a space", repr(doc_id))


def _note_same(texts: Iterable[tuple[str, str]], what: str, findings: Findings) -> None:
    first: dict[str, str] = {}
    for identifier, text in texts:
        earlier = first.setdefault(text, identifier) if text else identifier
        if earlier != identifier:
            findings.note(what, f"{identifier!r} as {earlier!r}")
