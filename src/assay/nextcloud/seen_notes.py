"""The notes as a sync last saw them: what the server need not send again."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import orjson

from assay.data.whole_file import write_whole
from assay.errors import UsageError
from assay.nextcloud.note import Note

_FILE = "notes.json"


@dataclass(frozen=True, slots=True)
class SeenNotes:
    """`etag` and `last_modified` as the Notes API gave them with the last listing."""

    source: str
    etag: str | None = None
    last_modified: int = 0
    notes: Mapping[int, Note] = field(default_factory=dict)


def read_seen(folder: Path, source: str) -> SeenNotes:
    """Nothing seen where the folder is new; everything is then fetched."""
    path = folder / _FILE
    try:
        value = orjson.loads(path.read_bytes())
        seen = SeenNotes(
            str(value["source"]),
            value["etag"],
            int(value["last_modified"]),
            {note.id: note for note in map(Note.from_json, value["notes"])},
        )
    except FileNotFoundError:
        _refuse_foreign(folder)
        return SeenNotes(source)
    except (orjson.JSONDecodeError, KeyError, TypeError, ValueError):
        return SeenNotes(source)  # damaged: what it would have saved is fetched again
    if seen.source != source:
        raise UsageError(
            f"{folder} holds the notes of {seen.source}, not those of {source}; "
            "choose another folder: --folder DIR"
        )
    return seen


def write_seen(folder: Path, seen: SeenNotes) -> None:
    value = {
        "source": seen.source,
        "etag": seen.etag,
        "last_modified": seen.last_modified,
        "notes": [note.as_json() for note in seen.notes.values()],
    }
    write_whole(folder / _FILE, orjson.dumps(value))


def _refuse_foreign(folder: Path) -> None:
    """A data set that no sync made is somebody's, and not to be written over."""
    if (folder / "corpus.jsonl").exists():
        raise UsageError(
            f"{folder} holds a data set that was not made by a sync; "
            "choose another folder: --folder DIR"
        )
