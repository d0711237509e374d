"""Notes of a Nextcloud as a data set, updated by what changed since the last sync.

The folder holds a data set in BEIR format, which every verb takes, and `notes.json`, the notes
as they were at the last sync. Where no data set gives the queries, the titles of the notes become
the queries: a search for a title should find its note.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import orjson

from assay.data.beir import write_beir
from assay.data.dataset import Dataset, Document, Query
from assay.data.text_file import write_file
from assay.errors import DataError, UsageError
from assay.files import read_file
from assay.net.json import parse_json
from assay.nextcloud.client import Listing, NotesClient
from assay.nextcloud.note import Note, document_from
from assay.progress import Progress, silent

_FILE = "notes.json"


@dataclass(frozen=True, slots=True)
class SyncState:
    """The notes at the last sync; `etag` and `last_modified` are those of its listing."""

    source: str
    etag: str | None = None
    last_modified: int = 0
    notes: Mapping[int, Note] = field(default_factory=dict)


def read_sync_state(folder: Path, source: str) -> SyncState:
    """The state in `folder`; an empty one where the folder is new, so that all is fetched."""
    path = folder / _FILE
    try:
        value = parse_json(read_file(path, limit=2**31))
        seen = SyncState(
            str(value["source"]),
            value["etag"],
            int(value["last_modified"]),
            {note.id: note for note in map(Note.from_json, value["notes"])},
        )
    except FileNotFoundError:
        _refuse_foreign(folder)
        return SyncState(source)
    except (orjson.JSONDecodeError, KeyError, TypeError, ValueError):
        return SyncState(source)  # damaged: what it would have saved is fetched again
    if seen.source != source:
        raise UsageError(
            f"{folder} contains the notes of {seen.source}, not those of {source}; "
            "choose another folder: --folder DIR"
        )
    return seen


def write_sync_state(folder: Path, seen: SyncState) -> None:
    """Save the state that the next sync starts from."""
    value = {
        "source": seen.source,
        "etag": seen.etag,
        "last_modified": seen.last_modified,
        "notes": [asdict(note) for note in seen.notes.values()],
    }
    write_file(folder / _FILE, orjson.dumps(value))


def _refuse_foreign(folder: Path) -> None:
    """A data set that was not made by a sync must not be overwritten."""
    if (folder / "corpus.jsonl").exists():
        raise UsageError(
            f"{folder} contains a data set that was not created by a sync; "
            "choose another folder: --folder DIR"
        )


@dataclass(frozen=True, slots=True)
class SyncReport:
    """What a sync changed; `fetched` counts the notes that the server sent."""

    notes: int
    added: int
    changed: int
    removed: int
    fetched: int


async def sync_notes(
    client: NotesClient,
    folder: Path,
    *,
    category: str,
    doc_ids: Mapping[int, str],
    questions: Dataset | None = None,
    progress: Progress = silent,
) -> SyncReport:
    """Update the data set in `folder` from the notes of a category.

    Parameters:
        client: The account whose notes are read.
        folder: Where the data set is written.
        category: The category of the notes.
        doc_ids: The documents that notes hold, by note id.
        questions: Where queries and judgments come from; by default the titles are the queries.
        progress: Called as the sync proceeds.
    """
    source = f"{client.account.username} at {client.account.host}, category {category!r}"
    before = read_sync_state(folder, source)
    progress("reading notes", 0, None)
    listing = await client.notes_in(
        category, prune_before=before.last_modified, unless_etag=before.etag
    )
    now = before if listing is None else await _merged(before, listing, client)
    report = _compared(before, now, 0 if listing is None else len(listing.notes))
    documents = [document_from(note, doc_ids.get(note.id)) for note in now.notes.values()]
    if not documents:
        raise DataError(f"no notes found for {source}; upload some with: assay nextcloud upload")
    write_beir(_dataset(folder.name, documents, questions), folder)
    write_sync_state(folder, now)  # last: after a crash, these notes are fetched again
    return report


async def _merged(before: SyncState, listing: Listing, client: NotesClient) -> SyncState:
    notes = {note_id: note for note_id, note in before.notes.items() if note_id in listing.ids}
    notes.update({note.id: note for note in listing.notes})
    for note_id in sorted(listing.ids - notes.keys()):
        # Unchanged on the server and unknown here: it was moved into the category.
        notes[note_id] = await client.get(note_id)
    ordered = dict(sorted(notes.items()))
    return SyncState(before.source, listing.etag, listing.last_modified, ordered)


def _compared(before: SyncState, now: SyncState, fetched: int) -> SyncReport:
    old, new = before.notes, now.notes
    changed = [
        each
        for each in old.keys() & new.keys()
        if (old[each].title, old[each].content) != (new[each].title, new[each].content)
    ]
    return SyncReport(
        notes=len(new),
        added=len(new.keys() - old.keys()),
        changed=len(changed),
        removed=len(old.keys() - new.keys()),
        fetched=fetched,
    )


def _dataset(name: str, documents: Sequence[Document], questions: Dataset | None) -> Dataset:
    """The documents with the queries of `questions`, else with their titles as queries."""
    by_id = {document.id: document for document in documents}
    if questions is not None:
        made = questions.judged_by
        return Dataset(name, by_id, questions.queries, questions.judgments, judged_by=made)
    titled = [document for document in documents if document.title.strip()]
    queries = {document.id: Query(document.id, document.title) for document in titled}
    judgments = {document.id: {document.id: 1} for document in titled}
    return Dataset(name, by_id, queries, {"test": judgments})
