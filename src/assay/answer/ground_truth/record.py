"""One reference answer with where it came from, as `ground_truth.json` holds it.

The first five keys are those that readers of the file rely on; `provenance` comes after them. Where
the text may not be passed on, `query_text` and `ground_truth_answer` are null, and the provenance
holds their hashes.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import orjson

from assay.data.json_lines import shown
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


def from_json(fields: Any, file: Path) -> GroundTruth:
    """Text that was left out is empty here: `load_ground_truth` fills it in."""
    try:
        return GroundTruth(
            _text(fields, "query_id"),
            _text(fields, "query_text", optional=True),
            _text(fields, "ground_truth_answer", optional=True),
            tuple(fields["expected_document_ids"]),
            int(fields["highly_relevant_count"]),
            dict(fields.get("provenance") or {}),
        )
    except (KeyError, TypeError, ValueError) as error:
        message = f"is no list of reference answers: {error!r} in {shown(fields)}"
        raise DataError(message, file=file) from None


def read_records(path: Path) -> list[GroundTruth]:
    try:
        content = orjson.loads(path.read_bytes())
    except (OSError, orjson.JSONDecodeError) as error:
        raise DataError(f"cannot be read as JSON: {error}", file=path) from None
    if not isinstance(content, list):
        raise DataError(f"must be a JSON list of records, got {shown(content)}", file=path)
    return [from_json(fields, path) for fields in content]


def text_hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _text(fields: Any, key: str, *, optional: bool = False) -> str:
    value = fields[key]
    if optional and value is None:
        return ""
    if not isinstance(value, str):
        raise ValueError(f"{key} must be text")
    return value
