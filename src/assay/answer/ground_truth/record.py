"""One reference answer with where it came from, as `ground_truth.json` holds it.

The first five keys are those that readers of the file rely on; `provenance` comes after them. Where
the text may not be passed on, `query_text` and `ground_truth_answer` are null, and the provenance
holds their hashes.
"""

import codecs
import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import orjson

from assay.data.text_file import shown
from assay.errors import DataError

QUERY_HASH = "query_text_sha256"
ANSWER_HASH = "ground_truth_answer_sha256"


@dataclass(frozen=True, slots=True)
class GroundTruth:
    """`expected_document_ids` are the most relevant documents, best first as they were judged."""

    query_id: str
    query_text: str
    ground_truth_answer: str
    expected_document_ids: tuple[str, ...]
    highly_relevant_count: int
    provenance: Mapping[str, Any] = field(default_factory=dict)


def to_json(truth: GroundTruth, *, text: bool = True) -> dict[str, Any]:
    """Without `text`, the hashes stand in the place of what the documents' owner keeps."""
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


def from_json(fields: Any, file: Path, place: int) -> GroundTruth:
    """Text that was left out is empty here: `load_ground_truth` fills it in. `place` counts the
    records from 1, for messages.
    """
    try:
        if not isinstance(fields, dict):
            raise ValueError("must be an object, as {...}")
        provenance = fields.get("provenance")
        return GroundTruth(
            _text(fields, "query_id"),
            _text(fields, "query_text", optional=True),
            _text(fields, "ground_truth_answer", optional=True),
            _ids(fields, "expected_document_ids"),
            _count(fields, "highly_relevant_count"),
            {} if provenance is None else _provenance(provenance),
        )
    except ValueError as error:
        message = f"record {place} is no reference answer: {error}, got {shown(fields)}"
        raise DataError(message, file=file) from None


def read_records(path: Path) -> list[GroundTruth]:
    content = _content(path)
    if not isinstance(content, list):
        raise DataError(f"must be a JSON list of records, got {shown(content)}", file=path)
    truths = [from_json(fields, path, place) for place, fields in enumerate(content, 1)]
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
        return orjson.loads(path.read_bytes().removeprefix(codecs.BOM_UTF8))
    except FileNotFoundError:
        raise DataError("there is no such file", file=path) from None
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror}", file=path) from None
    except orjson.JSONDecodeError as error:
        raise DataError(f"is not valid JSON: {error}", file=path) from None


def text_hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _value(fields: dict[str, Any], key: str) -> Any:
    if key not in fields:
        raise ValueError(f"{key!r} is missing")
    return fields[key]


def _text(fields: dict[str, Any], key: str, *, optional: bool = False) -> str:
    value = _value(fields, key)
    if optional and value is None:
        return ""
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"{key!r} must be text that is not blank{' or null' * optional}")
    return value


def _ids(fields: dict[str, Any], key: str) -> tuple[str, ...]:
    value = _value(fields, key)
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise ValueError(f"{key!r} must be a list of document ids, each of them text")
    return tuple(value)


def _count(fields: dict[str, Any], key: str) -> int:
    value = _value(fields, key)
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError(f"{key!r} must be a whole number >= 0")
    return value


def _provenance(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError("'provenance' must be an object, as {...}")
    if "document_ids" in value:
        _ids(value, "document_ids")
    return value
