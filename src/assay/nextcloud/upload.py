"""Uploads documents as notes, each exactly once, waits for their index, and cleans them up.

What is left to do is known from two places. The mapping, which is written at the end, says which
note holds which document. A note that was created before a crash is not in it, and is recognized by
its content and its marker: the `MED-10` of a title that begins with `[MED-10]`.

The Notes app keeps a note as a file named after its title: it takes characters out that file
systems dislike, and cuts the name after 100. What it would cut is kept in the note's content.
"""

import asyncio
import random
import re
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from assay.data.dataset import Document
from assay.data.note_mapping import read_note_mapping, write_note_mapping
from assay.errors import DataError
from assay.net.gather import for_each
from assay.nextcloud.client import Note, NotesClient, NotesError
from assay.progress import Progress, silent
from assay.text import strip_controls

CATEGORY = "nfcorpus_rag_eval"
_CONCURRENCY = 8
# One for each time that a request may or may not have worked, and one that finds all in place.
_MAX_ROUNDS = 8
_SAMPLE_SIZE = 20
_TOP_K = 10
_SEARCH_CONCURRENCY = 4
# A real server was seen to take 28 s for a search while it indexed.
_SEARCH_TIMEOUT_S = 120.0
_QUERY_CHARACTERS = 400
_TITLE_LENGTH = 100
# Titles are compared as far as the app keeps them when it numbers a cut one.
_COMPARED_LENGTH = 80
_DROPPED = re.compile(r'[*|/\\:"<>?]')
_MARKER = re.compile(r"\s*+\[([^\]]{1,200})\]")
_NUMBERED = re.compile(r"\s\(\d+\)$")  # ` (2)`: how the app tells two notes of one title apart


@dataclass(frozen=True, slots=True)
class PlannedNote:
    """What the note of a document has to hold."""

    doc_id: str
    title: str
    content: str

    @classmethod
    def of(cls, document: Document) -> "PlannedNote":
        """A title that the app would cut is repeated in the content."""
        title = " ".join(strip_controls(document.title).split())
        text = strip_controls(document.text)
        marked = f"[{document.id}] {title}".strip()
        content = text if _kept(marked) == marked else f"{title}\n\n{text}"
        return cls(document.id, marked, content)

    def matches(self, note: Note) -> bool:
        """Whether the note holds the content under this title, as the app may have changed it."""
        stored = (_letters(note.title), _letters(_NUMBERED.sub("", note.title)))
        return note.content == self.content and _letters(_kept(self.title)) in stored


def plan_notes(documents: Iterable[Document]) -> list[PlannedNote]:
    """A note for each document, each with a distinct marker, by which it is recognized later."""
    planned = [PlannedNote.of(document) for document in documents]
    seen: dict[str, str] = {}
    for note in planned:
        marker = marker_of(note.title)
        other = seen.setdefault(marker, note.doc_id)
        if not marker or other != note.doc_id:
            what = f"looks like {other!r} in" if marker else "does not fit into"
            raise DataError(
                f"document id {note.doc_id!r} {what} the title of a note, which holds 100 "
                'characters and none of * | / \\ : " < > ?; give the document another id'
            )
    return planned


def marker_of(title: str) -> str:
    """The `MED-10` of a title that begins with `[MED-10]`, as far as the app keeps it."""
    match = _MARKER.match(_kept(title))
    return " ".join(match[1].split()) if match else ""


def _kept(title: str) -> str:
    return _DROPPED.sub("", title).strip()[:_TITLE_LENGTH]


def _letters(text: str) -> str:
    return re.sub(r"[\W_]+", "", text).casefold()[:_COMPARED_LENGTH]


@dataclass(frozen=True, slots=True)
class UploadReport:
    """What an upload did. `copies` were deleted: second notes of a document, made by requests that
    seemed lost. `others` are the category's other notes, which stay, and which a search can find.
    """

    documents: int
    created: int
    updated: int
    unchanged: int
    copies: int
    others: int
    seconds: float


@dataclass(frozen=True, slots=True)
class UploadPlan:
    """What an upload has to do; `outdated` notes hold documents that the data set had before."""

    create: Sequence[PlannedNote]
    update: Sequence[tuple[PlannedNote, Note]]
    unchanged: Mapping[str, int]
    copies: Sequence[int]
    outdated: Mapping[str, int]
    foreign: int


def plan_upload(
    planned: Sequence[PlannedNote], mapping: Mapping[str, int], notes: Iterable[Note]
) -> UploadPlan:
    """What is left to do, given the notes of the category as they are now."""
    existing = {note.id: note for note in notes}
    mapped = existing.keys() & set(mapping.values())
    doc_ids = {note.doc_id for note in planned}
    outdated = {d: n for d, n in mapping.items() if d not in doc_ids and n in existing}
    unmapped: dict[tuple[str, str], list[int]] = {}
    for note in existing.values():
        if note.id not in mapped:
            unmapped.setdefault((marker_of(note.title), note.content), []).append(note.id)
    create: list[PlannedNote] = []
    update: list[tuple[PlannedNote, Note]] = []
    unchanged: dict[str, int] = {}
    copies: list[int] = []
    for wanted in planned:
        known = existing.get(mapping.get(wanted.doc_id, -1))
        marker = marker_of(wanted.title)
        same = unmapped.pop((marker, wanted.content), [])
        # The app makes the file first; a failure can keep it from writing the text.
        empty = unmapped.pop((marker, ""), []) if wanted.content else []
        if known is not None and wanted.matches(known):
            unchanged[wanted.doc_id] = known.id
        elif known is not None:
            update.append((wanted, known))
        elif same:
            unchanged[wanted.doc_id] = same.pop(0)
        elif empty:
            update.append((wanted, existing[empty.pop(0)]))
        else:
            create.append(wanted)
        copies += same + empty
    foreign = sum(map(len, unmapped.values()))
    return UploadPlan(create, update, unchanged, copies, outdated, foreign)


async def upload_documents(
    documents: Iterable[Document],
    client: NotesClient,
    mapping_path: Path,
    *,
    category: str = CATEGORY,
    progress: Progress = silent,
) -> UploadReport:
    """Give every document its note in `category`, or raise; call it again to continue.

    `mapping_path` is the note mapping, which is read, extended and written. It ends when a listing
    shows every note as it should be. A creation whose response was lost may have happened, so
    nothing is created again before the next listing.
    """
    started = time.monotonic()
    planned = plan_notes(documents)
    mapping = read_note_mapping(mapping_path) if mapping_path.exists() else {}
    progress("reading notes", 0, None)
    first: UploadPlan | None = None
    lost: NotesError | None = None
    copies = 0
    for attempt in range(1, _MAX_ROUNDS + 1):
        plan = plan_upload(planned, mapping, await client.notes_in(category))
        first = first or plan
        mapping = {**plan.outdated, **plan.unchanged}
        write_note_mapping(mapping, mapping_path)  # fails now, and not after an hour of uploading
        try:
            lost = await _carry_out(plan, client, category, mapping, progress)
        finally:
            write_note_mapping(mapping, mapping_path)
        if attempt > 1 and not (plan.create or plan.update or plan.copies):
            return UploadReport(
                documents=len(planned),
                created=len(first.create),
                updated=len(first.update),
                unchanged=len(first.unchanged),
                copies=copies,
                others=len(first.outdated) + first.foreign,
                seconds=time.monotonic() - started,
            )
        copies += len(plan.copies)
        if lost is not None:
            await client.retry.sleep(client.retry.delay(attempt, lost.retry_after))
    if lost is not None:
        raise lost
    changed = [note.doc_id for note in (*plan.create, *(note for note, _ in plan.update))]
    raise NotesError(
        f"{len(changed)} notes in category {category!r} are changed by someone else as they are "
        f"written, such as that of {changed[:1]}; upload again"
    )


async def _carry_out(
    plan: UploadPlan,
    client: NotesClient,
    category: str,
    mapping: dict[str, int],
    progress: Progress,
) -> NotesError | None:
    """Extend `mapping` by each note made; the last failure after which a note may have been made.

    Raises any other failure.
    """
    total = len(plan.unchanged) + len(plan.update) + len(plan.create)
    done, lost = len(plan.unchanged), None

    async def write(planned: PlannedNote, known: Note | None = None) -> None:
        nonlocal done, lost
        try:
            if known is None:
                note = await client.create(planned.title, planned.content, category)
            else:
                note = await client.update(known, planned.title, planned.content)
        except NotesError as error:
            error.args = (
                f"document {planned.doc_id!r} could not be uploaded: {error}. {done:,} of "
                f"{total:,} documents are uploaded; run the same command to continue",
            )
            if known is not None or not error.maybe_done:
                raise
            lost = error
            return
        mapping[planned.doc_id] = note.id
        done += 1
        progress("uploading notes", done, total)

    await for_each(plan.copies, client.delete, _CONCURRENCY)
    await for_each(plan.update, lambda work: write(*work), _CONCURRENCY)
    await for_each(plan.create, write, _CONCURRENCY)
    return lost


async def plan_cleanup(
    client: NotesClient, mapping_path: Path, category: str
) -> tuple[list[int], int]:
    """The mapped notes in the category, and how many others are left alone."""
    mapped = set(read_note_mapping(mapping_path).values())
    there = {note.id for note in await client.notes_in(category)}
    return sorted(there & mapped), len(there - mapped)


async def clean_up(
    note_ids: Sequence[int], client: NotesClient, mapping_path: Path, progress: Progress = silent
) -> None:
    """Delete the planned notes, then the mapping. After a failure, plan again to continue."""
    gone = 0

    async def delete(note_id: int) -> None:
        nonlocal gone
        await client.delete(note_id)
        gone += 1
        progress("deleting notes", gone, len(note_ids))

    await for_each(note_ids, delete, _CONCURRENCY)
    mapping_path.unlink(missing_ok=True)


def sample_documents(
    documents: Mapping[str, Document], mapping: Mapping[str, int], size: int = _SAMPLE_SIZE
) -> list[Document]:
    """A random sample that includes the last uploaded document, which is often indexed last.

    Raises `DataError` if a document has no note: no search could ever return it.
    """
    searchable = [doc_id for doc_id in documents if documents[doc_id].full_text]
    lacking = [doc_id for doc_id in searchable if doc_id not in mapping]
    if lacking or not searchable:
        raise DataError(
            f"the note mapping has no note for {len(lacking):,} of {len(searchable):,} documents, "
            f"such as {lacking[:1]}; upload the data set again"
        )
    newest = max(searchable, key=lambda doc_id: mapping[doc_id])
    others = [doc_id for doc_id in searchable if doc_id != newest]
    drawn = random.Random(42).sample(others, min(size - 1, len(others)))
    return [documents[doc_id] for doc_id in (newest, *drawn)]


async def wait_until_found(
    documents: Sequence[Document],
    ask: Callable[[str, int], Awaitable[Any]],
    *,
    timeout: float = 600.0,
    pause: float = 2.0,
    progress: Progress = silent,
) -> float:
    """Search for `documents` in rounds until `ask`, of an opened agent, returns each of them.

    An index that says "idle" may not have started yet, so each document is searched for by its own
    beginning, at least once. The seconds it took, or `NotesError` with exit code 1.
    """
    started, failure = time.monotonic(), ""
    missing = {document.id: document for document in documents}

    async def look_for(document: Document) -> None:
        nonlocal failure
        try:
            async with asyncio.timeout(_SEARCH_TIMEOUT_S):
                answer = await ask(document.full_text[:_QUERY_CHARACTERS], _TOP_K)
        except Exception as error:  # a server that is still starting fails in many ways
            failure = str(error) or type(error).__name__
            return
        if document.id in answer.doc_ids:
            missing.pop(document.id, None)
        progress("waiting for the index", len(documents) - len(missing), len(documents))

    while True:
        await for_each(list(missing.values()), look_for, _SEARCH_CONCURRENCY)
        seconds = time.monotonic() - started
        if not missing:
            return seconds
        if seconds + pause > timeout:
            names = ", ".join(map(repr, list(missing)[:10]))
            why = f"; the last failed search: {failure}" if failure else ""
            raise NotesError(
                f"{len(missing)} of {len(documents)} documents are not found after {seconds:.0f} "
                f"s, such as {names}{why}; wait longer (--timeout), or see the logs of the indexer",
                exit_code=1,
            )
        await asyncio.sleep(pause)
