"""Reference answers for whoever tests with them, with everything that the file had to leave out."""

from pathlib import Path

from assay.answer.ground_truth.record import (
    ANSWER_HASH,
    QUERY_HASH,
    GroundTruth,
    read_records,
    text_hash,
)
from assay.answer.ground_truth.writing import extract
from assay.data.dataset import Dataset, Query
from assay.data.text_file import shown
from assay.errors import DataError


def load_ground_truth(path: Path, dataset: Dataset) -> list[GroundTruth]:
    """Text that may not be passed on with the file is made anew from the reader's own copy of the
    data set, and must have the hash that the file names: else these would be other answers.
    """
    truths = read_records(path)
    if not truths:
        raise DataError("holds no reference answer; write some: assay ground-truth", file=path)
    return [_whole(truth, dataset, path) for truth in truths]


def _whole(truth: GroundTruth, dataset: Dataset, path: Path) -> GroundTruth:
    query = dataset.queries.get(truth.query_id)
    if query is None:
        raise DataError(f"query {truth.query_id!r} is not in {dataset.name!r}", file=path)
    if not any(doc_id in dataset.documents for doc_id in truth.expected_document_ids):
        message = (
            f"{dataset.name!r} has none of the documents that query {truth.query_id!r} expects"
        )
        raise DataError(message, file=path)
    _refuse_other_data(truth, query, dataset, path)
    if truth.query_text and truth.ground_truth_answer:
        return truth
    return _rebuilt(truth, query.text, dataset, path)


def _refuse_other_data(truth: GroundTruth, query: Query, dataset: Dataset, path: Path) -> None:
    """Judgments may name documents that the corpus lacks; what an answer was made from it has."""
    judged = {doc_id for each in dataset.judgments.values() for doc_id in each.get(query.id, ())}
    expected = set(truth.expected_document_ids) - dataset.documents.keys() - judged
    sources = set(truth.provenance.get("document_ids", ())) - dataset.documents.keys()
    for key, unknown in (("expected_document_ids", expected), ("document_ids", sources)):
        if unknown:
            raise DataError(
                f"{dataset.name!r} has no document {min(unknown)!r}, which {key!r} of query "
                f"{query.id!r} names",
                file=path,
            )
    if truth.query_text and truth.query_text.split() != query.text.split():
        raise DataError(
            f"query {query.id!r} is {shown(truth.query_text)} here and {shown(query.text)} in "
            f"{dataset.name!r}: these are answers to other questions",
            file=path,
        )


def _rebuilt(truth: GroundTruth, question: str, dataset: Dataset, path: Path) -> GroundTruth:
    ids = truth.provenance.get("document_ids", ())
    sources = [dataset.documents[each] for each in ids if each in dataset.documents]
    answer = extract(question, sources)
    for what, text, key in (("question", question, QUERY_HASH), ("answer", answer, ANSWER_HASH)):
        expected = truth.provenance.get(key)
        if text_hash(text) != expected:
            raise DataError(
                f"the {what} of query {truth.query_id!r} was left out of the file and comes out "
                f"otherwise here (SHA-256 {text_hash(text)}, expected {expected}); another copy of "
                f"{dataset.name!r}, or another version of Assay than "
                f"{truth.provenance.get('assay')!r}: write the file anew with assay ground-truth",
                file=path,
            )
    return GroundTruth(
        truth.query_id,
        question,
        answer,
        truth.expected_document_ids,
        truth.highly_relevant_count,
        truth.provenance,
    )
