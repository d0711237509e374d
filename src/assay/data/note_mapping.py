"""The note mapping, `note_mapping.json`: which note holds which document."""

import os
from collections.abc import Mapping
from pathlib import Path

import orjson

from assay.data.table import read_json
from assay.data.text_file import plain_file, short_repr, write_file
from assay.errors import DataError

VARIABLE = "ASSAY_NOTE_MAPPING"
FILE = "note_mapping.json"


def note_mapping_path(given: Path | None = None) -> Path:
    """`given`, else ASSAY_NOTE_MAPPING, else `note_mapping.json` in the current folder."""
    return given or Path(os.environ.get(VARIABLE) or FILE)


def read_note_mapping(path: Path) -> dict[str, int]:
    """Note ids by document id; `DataError` if the file is missing or malformed."""
    if not path.exists():
        how = f"create one with: assay nextcloud upload, or set {VARIABLE} to its path"
        raise DataError(f"no note mapping found; {how}", file=path)
    mapping = read_json(plain_file(path))
    if not isinstance(mapping, dict) or not all(type(note) is int for note in mapping.values()):
        form = 'must be one JSON object, as {"document id": note id, ...}'
        raise DataError(f"{form}, got {short_repr(mapping)}", file=path)
    return mapping


def documents_by_note(mapping: Mapping[str, int], path: Path) -> dict[int, str]:
    """Document ids by note id; `DataError` if a note holds two documents."""
    documents: dict[int, str] = {}
    for doc_id, note_id in mapping.items():
        other = documents.setdefault(note_id, doc_id)
        if other != doc_id:
            what = f"note {note_id} is mapped to {other!r} and to {doc_id!r}"
            raise DataError(f"{what}; delete one of the two", file=path)
    return documents


def write_note_mapping(mapping: Mapping[str, int], path: Path) -> None:
    """Replace the mapping atomically."""
    write_file(path, orjson.dumps(dict(mapping), option=orjson.OPT_INDENT_2))
