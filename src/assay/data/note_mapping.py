"""The note mapping, `note_mapping.json`: which note holds which document."""

import os
from collections.abc import Mapping
from pathlib import Path

import orjson

from assay.data.text_file import short_repr, write_file
from assay.errors import DataError
from assay.files import read_file
from assay.net.json import parse_json

VARIABLE = "ASSAY_NOTE_MAPPING"
FILE = "note_mapping.json"

_FORM = '{"document id": note id, ...}'


def note_mapping_path(given: Path | None = None) -> Path:
    """`given`, else ASSAY_NOTE_MAPPING, else `note_mapping.json` in the current folder."""
    return given or Path(os.environ.get(VARIABLE) or FILE)


def read_note_mapping(path: Path) -> dict[str, int]:
    """Note ids by document id; `DataError` if the file is missing or malformed."""
    try:
        mapping = parse_json(read_file(path))
    except FileNotFoundError:
        raise DataError(
            "no note mapping found; create one with: assay nextcloud upload, "
            f"or set {VARIABLE} to its path",
            file=path,
        ) from None
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror}", file=path) from None
    except orjson.JSONDecodeError as error:
        raise DataError(f"is not valid JSON: {error.msg}", file=path, line=error.lineno) from None
    if not isinstance(mapping, dict):
        raise DataError(
            f"must be one JSON object, as {_FORM}, got {short_repr(mapping)}", file=path
        )
    for doc_id, note_id in mapping.items():
        if not isinstance(note_id, int) or isinstance(note_id, bool):
            raise DataError(
                f"the note of document {doc_id!r} must be a number, got {short_repr(note_id)}",
                file=path,
            )
    return mapping


def documents_by_note(mapping: Mapping[str, int], path: Path) -> dict[int, str]:
    """Document ids by note id; `DataError` if a note holds two documents."""
    documents: dict[int, str] = {}
    for doc_id, note_id in mapping.items():
        other = documents.setdefault(note_id, doc_id)
        if other != doc_id:
            raise DataError(
                f"note {note_id} is mapped to {other!r} and to {doc_id!r}; delete one of the two",
                file=path,
            )
    return documents


def write_note_mapping(mapping: Mapping[str, int], path: Path) -> None:
    """Replace the mapping atomically."""
    write_file(path, orjson.dumps(dict(mapping), option=orjson.OPT_INDENT_2))
