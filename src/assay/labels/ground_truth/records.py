"""Reference answers with their provenance, as `ground_truth.json` holds them.

The first five keys are those that readers of the file rely on; `provenance` comes after them. Where
the text may not be redistributed, `query_text` and `ground_truth_answer` are null, the provenance
holds their hashes, and `load_ground_truth` makes the text again from the reader's copy of the data.
"""

import codecs
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import orjson

from assay.data.dataset import Dataset, Document, Query
from assay.data.text_file import short_repr
from assay.errors import DataError
from assay.files import read_file
from assay.llm.answerer import extract_finding
from assay.llm.passages import Passage
from assay.net.json import JsonObject, parse_json
from assay.text import text_hash

QUERY_HASH = "query_text_sha256"
ANSWER_HASH = "ground_truth_answer_sha256"


@dataclass(frozen=True, slots=True)
class GroundTruth:
    """A reference answer. `expected_document_ids` are the documents of the highest grade."""

    query_id: str
    query_text: str
    ground_truth_answer: str
    expected_document_ids: tuple[str, ...]
    highly_relevant_count: int
    provenance: Mapping[str, Any] = field(default_factory=dict)


def record_to_json(truth: GroundTruth, *, text: bool = True) -> JsonObject:
    """The record as JSON; without `text`, hashes replace question and answer."""
    fields = asdict(truth)
    fields["query_text"] = truth.query_text or None
    fields["ground_truth_answer"] = truth.ground_truth_answer or None
    if text or not truth.ground_truth_answer:  # what was left out stays left out
        return fields
    hashes = {
        QUERY_HASH: text_hash(truth.query_text),
        ANSWER_HASH: text_hash(truth.ground_truth_answer),
    }
    fields["query_text"] = fields["ground_truth_answer"] = None
    return fields | {"provenance": {**truth.provenance, **hashes}}


def record_from_json(fields: Any, file: Path, place: int) -> GroundTruth:
    """A record from JSON; text that was left out is empty. `place` is its number, for messages."""
    if problem := _problem(fields):
        message = f"record {place} is not a reference answer: {problem}, got {short_repr(fields)}"
        raise DataError(message, file=file)
    return GroundTruth(
        fields["query_id"],
        fields["query_text"] or "",
        fields["ground_truth_answer"] or "",
        tuple(fields["expected_document_ids"]),
        fields["highly_relevant_count"],
        fields.get("provenance") or {},
    )


def _problem(fields: Any) -> str:
    """What is wrong with a record; empty if nothing is."""
    if not isinstance(fields, dict):
        return "must be an object, as {...}"
    for key, (is_right, what) in _FIELDS.items():
        if key not in fields:
            return f"{key!r} is missing"
        if not is_right(fields[key]):
            return f"{key!r} must be {what}"
    provenance = fields.get("provenance")
    if not isinstance(provenance, dict | None):
        return "'provenance' must be an object, as {...}"
    if provenance and not _are_ids(provenance.get("document_ids", [])):
        return f"'document_ids' must be {_IDS}"
    return ""


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _are_ids(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


_IDS = "a list of document ids, each of them text"
_TEXT_OR_NULL = (lambda value: value is None or _is_text(value), "a non-blank string or null")
_FIELDS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "query_id": (_is_text, "a non-blank string"),
    "query_text": _TEXT_OR_NULL,
    "ground_truth_answer": _TEXT_OR_NULL,
    "expected_document_ids": (_are_ids, _IDS),
    "highly_relevant_count": (lambda value: type(value) is int and value >= 0, "an integer >= 0"),
}
"""Every required field: what it may hold, as a check and in words."""


def read_records(path: Path) -> list[GroundTruth]:
    """The records of a file as they are; text that was left out is empty."""
    content = _content(path)
    if not isinstance(content, list):
        raise DataError(f"must be a JSON list of records, got {short_repr(content)}", file=path)
    truths = [record_from_json(fields, path, place) for place, fields in enumerate(content, 1)]
    first: dict[str, int] = {}
    for place, truth in enumerate(truths, 1):
        if (earlier := first.setdefault(truth.query_id, place)) != place:
            message = (
                f"records {earlier} and {place} are both for query {truth.query_id!r}; keep one"
            )
            raise DataError(message, file=path)
    return truths


def _content(path: Path) -> Any:
    try:
        content = read_file(path).removeprefix(codecs.BOM_UTF8).strip()
        if content.startswith(b"{"):  # lines with facts, some of them with an answer
            lines = [parse_json(line) for line in content.splitlines() if line.strip()]
            if answered := [each for each in lines if isinstance(each.get("answer"), str)]:
                return [_from_line(each) for each in answered]
        return parse_json(content)
    except FileNotFoundError:
        raise DataError("no such file", file=path) from None
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror}", file=path) from None
    except orjson.JSONDecodeError as error:
        raise DataError(f"is not valid JSON: {error}", file=path) from None


def _from_line(fields: JsonObject) -> JsonObject:
    """A line with facts as a record of `ground_truth.json`."""
    return {
        "query_id": fields.get("query_id", fields.get("qid")),
        "query_text": fields.get("query"),
        "ground_truth_answer": fields["answer"],
        "expected_document_ids": [],
        "highly_relevant_count": 0,
        "provenance": {},
    }


def extract(question: str, documents: Sequence[Document]) -> str:
    """A sentence from each document that has a suitable one, in their order."""
    passages = (Passage(each.id, each.title, each.text) for each in documents)
    found = (extract_finding(question, passage) for passage in passages)
    return " ".join(dict.fromkeys(filter(None, found)))


def load_ground_truth(path: Path, dataset: Dataset) -> list[GroundTruth]:
    """The records of a file with their text.

    Text that was left out is made again from `dataset`, and must have the hash that the file names:
    otherwise these would be other answers.
    """
    truths = read_records(path)
    if not truths:
        raise DataError("has no reference answers; write some with: assay ground-truth", file=path)
    return [_complete(truth, dataset, path) for truth in truths]


def _complete(truth: GroundTruth, dataset: Dataset, path: Path) -> GroundTruth:
    query = dataset.queries.get(truth.query_id)
    if query is None:
        raise DataError(
            f"query {truth.query_id!r} is not in {dataset.name!r}; use the reference answers of "
            "this data set",
            file=path,
        )
    expected = truth.expected_document_ids
    named = expected or truth.highly_relevant_count  # a line with facts names no document
    if named and not any(doc_id in dataset.documents for doc_id in expected):
        message = (
            f"{dataset.name!r} has none of the documents that query {truth.query_id!r} expects"
        )
        raise DataError(message, file=path)
    _check_same_data(truth, query, dataset, path)
    if truth.ground_truth_answer:
        return replace(truth, query_text=query.text)
    return _rebuild(truth, query.text, dataset, path)


def _check_same_data(truth: GroundTruth, query: Query, dataset: Dataset, path: Path) -> None:
    """Judgments may name documents that the corpus lacks; sources of an answer must be in it."""
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
            f"query {query.id!r} is {short_repr(truth.query_text)} here and "
            f"{short_repr(query.text)} in {dataset.name!r}: use the reference "
            "answers of this data set",
            file=path,
        )


def _rebuild(truth: GroundTruth, question: str, dataset: Dataset, path: Path) -> GroundTruth:
    ids = truth.provenance.get("document_ids", ())
    sources = [dataset.documents[each] for each in ids if each in dataset.documents]
    answer = extract(question, sources)
    for what, text, key in (("question", question, QUERY_HASH), ("answer", answer, ANSWER_HASH)):
        expected = truth.provenance.get(key)
        if text_hash(text) != expected:
            raise DataError(
                f"the {what} of query {truth.query_id!r} was omitted from the "
                f"file and differs here (SHA-256 {text_hash(text)}, expected {expected}): "
                f"this is another copy of {dataset.name!r}, or another version of Assay than "
                f"{truth.provenance.get('assay')!r}; write the file again with assay ground-truth",
                file=path,
            )
    return replace(truth, query_text=question, ground_truth_answer=answer)
