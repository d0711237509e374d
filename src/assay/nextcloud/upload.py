"""Uploads documents as notes, each exactly once, however often interrupted; and cleans them up.

What is left to do is known from two places. The mapping says which note holds which document. A
note that was created just before a crash is not in it, and is recognized by its marker and content.
"""

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from assay.data.dataset import Document
from assay.data.note_mapping import read_note_mapping, write_note_mapping
from assay.net.gather import for_each
from assay.nextcloud.client import NotesClient, NotesError
from assay.nextcloud.note import (
    CATEGORY,
    Note,
    PlannedNote,
    marker_of,
    plan_notes,
    validate_category,
)
from assay.progress import Progress, silent

_CONCURRENCY = 8
_WRITE_INTERVAL = 1.0


@dataclass(frozen=True, slots=True)
class UploadReport:
    """What an upload did.

    `adopted` notes were created by an earlier upload that ended before it could record them.
    `outdated` notes hold documents that the data set no longer has, `foreign` are other notes in
    the category: both stay, and a search can find them.
    """

    documents: int
    created: int
    updated: int
    adopted: int
    unchanged: int
    copies: int
    outdated: int
    foreign: int
    seconds: float


@dataclass(frozen=True, slots=True)
class UploadPlan:
    """What an upload has to do; `copies` are further notes of one document, which go."""

    create: Sequence[PlannedNote]
    update: Sequence[tuple[PlannedNote, Note]]
    adopt: Mapping[str, int]
    unchanged: Mapping[str, int]
    copies: Sequence[int]
    outdated: Mapping[str, int]
    foreign: int


async def upload_documents(
    documents: Iterable[Document],
    client: NotesClient,
    mapping_path: Path,
    *,
    category: str = CATEGORY,
    progress: Progress = silent,
) -> UploadReport:
    """Give every document its note in `category`, or raise; call it again to continue.

    `mapping_path` is the note mapping, which is read, extended and written.
    """
    started = time.monotonic()
    validate_category(category)
    planned = plan_notes(documents)
    mapping = read_note_mapping(mapping_path) if mapping_path.exists() else {}
    progress("reading notes", 0, None)
    plan = plan_upload(planned, mapping, await client.notes_in(category))
    mapping_file = _MappingFile(mapping_path, {**plan.outdated, **plan.unchanged, **plan.adopt})
    mapping_file.write()  # fails now, and not after an hour, if the file cannot be written
    copies = await _Upload(client, category, mapping_file, planned, progress).run(plan)
    return UploadReport(
        documents=len(planned),
        created=len(plan.create),
        updated=len(plan.update),
        adopted=len(plan.adopt),
        unchanged=len(plan.unchanged),
        copies=copies,
        outdated=len(plan.outdated),
        foreign=plan.foreign,
        seconds=time.monotonic() - started,
    )


def plan_upload(
    planned: Sequence[PlannedNote], mapping: Mapping[str, int], notes: Iterable[Note]
) -> UploadPlan:
    """What is left to do, given the notes of the category as they are now."""
    existing = {note.id: note for note in notes}
    doc_ids = {note.doc_id for note in planned}
    outdated = {d: n for d, n in mapping.items() if d not in doc_ids and n in existing}
    mapped = {mapping[doc_id] for doc_id in doc_ids & mapping.keys()} | set(outdated.values())
    unmapped: dict[tuple[str, str], list[int]] = {}
    for note in existing.values():
        if note.id not in mapped:
            unmapped.setdefault((marker_of(note.title), note.content), []).append(note.id)
    create: list[PlannedNote] = []
    update: list[tuple[PlannedNote, Note]] = []
    adopt: dict[str, int] = {}
    unchanged: dict[str, int] = {}
    copies: list[int] = []
    for wanted in planned:
        known = existing.get(mapping.get(wanted.doc_id, -1))
        same = unmapped.pop((wanted.marker, wanted.content), [])
        if known is not None and wanted.matches(known):
            unchanged[wanted.doc_id] = known.id
        elif known is not None:
            update.append((wanted, known))
        elif same:
            adopt[wanted.doc_id] = same.pop(0)
        else:
            create.append(wanted)
        copies += same
    foreign = sum(map(len, unmapped.values()))
    return UploadPlan(create, update, adopt, unchanged, copies, outdated, foreign)


@dataclass
class _MappingFile:
    """The mapping as it grows, written once a second: what a crash loses is found by its marker."""

    path: Path
    notes: dict[str, int]
    _written: float = field(default=0.0, init=False)

    def add(self, doc_id: str, note_id: int) -> None:
        self.notes[doc_id] = note_id
        if time.monotonic() - self._written >= _WRITE_INTERVAL:
            self.write()

    def write(self) -> None:
        write_note_mapping(self.notes, self.path)
        self._written = time.monotonic()


@dataclass
class _Upload:
    client: NotesClient
    category: str
    mapping: _MappingFile
    planned: Sequence[PlannedNote]
    progress: Progress
    _done: int = field(default=0, init=False)

    async def run(self, plan: UploadPlan) -> int:
        """Carry out the plan, and check the outcome; how many copies were deleted."""
        self._done = len(plan.adopt) + len(plan.unchanged)
        try:
            await for_each(plan.copies, self.client.delete, _CONCURRENCY)
            await for_each(plan.update, self._update, _CONCURRENCY)
            await for_each(plan.create, self._create, _CONCURRENCY)
            return len(plan.copies) + await self._verify()
        finally:
            self.mapping.write()

    async def _update(self, change: tuple[PlannedNote, Note]) -> None:
        planned, note = change
        try:
            await self.client.update(note, planned.title, planned.content)
        except NotesError as error:
            raise self._failed(planned, error) from error
        self._add(planned, note.id)

    async def _create(self, planned: PlannedNote) -> None:
        try:
            note_id = await self._created(planned)
        except NotesError as error:
            raise self._failed(planned, error) from error
        self._add(planned, note_id)

    async def _created(self, planned: PlannedNote) -> int:
        """The id of the new note. A creation whose response was lost may have happened: the note is
        looked for before another one is created.
        """
        policy = self.client.retry
        for attempt in range(1, policy.attempts + 1):
            try:
                made = await self.client.create(planned.title, planned.content, self.category)
                return made.id
            except NotesError as error:
                if not error.maybe_done or policy.gives_up(attempt, error.retry_after):
                    raise
                await policy.sleep(policy.delay(attempt, error.retry_after))
            found = await self._find(planned)
            if found is not None:
                return found
        raise AssertionError("unreachable: the last attempt returns or raises")

    async def _find(self, planned: PlannedNote) -> int | None:
        mapped = set(self.mapping.notes.values())
        for note in await self.client.notes_in(self.category, exclude=("content",)):
            if note.id not in mapped and marker_of(note.title) == planned.marker:
                complete = await self.client.get(note.id)
                if not complete.content and planned.content:
                    # The server made the file and failed before its text.
                    complete = await self.client.update(complete, planned.title, planned.content)
                if complete.content == planned.content:
                    return note.id
        return None

    async def _verify(self) -> int:
        """Plan again from a last listing: nothing may be left to do but to delete copies, which a
        creation leaves that was given up and repeated, and succeeded after all."""
        notes = await self.client.notes_in(self.category)
        left = plan_upload(self.planned, self.mapping.notes, notes)
        changed = [note.doc_id for note in left.create] + [note.doc_id for note, _ in left.update]
        if changed:
            raise NotesError(
                f"{len(changed)} notes differ from what was written, such as that of "
                f"{changed[0]!r}: someone else changes notes in category {self.category!r}; "
                "upload again"
            )
        await for_each(left.copies, self.client.delete, _CONCURRENCY)
        return len(left.copies)

    def _add(self, planned: PlannedNote, note_id: int) -> None:
        self.mapping.add(planned.doc_id, note_id)
        self._done += 1
        self.progress("uploading notes", self._done, len(self.planned))

    def _failed(self, planned: PlannedNote, error: NotesError) -> NotesError:
        return error.with_message(
            f"document {planned.doc_id!r} could not be uploaded: {error}. {self._done:,} of "
            f"{len(self.planned):,} documents are uploaded; run the same command to continue"
        )


@dataclass(frozen=True, slots=True)
class CleanupPlan:
    """Which notes to delete, and how many others of the category are left alone."""

    delete: tuple[int, ...]
    left: int


async def plan_cleanup(
    client: NotesClient, mapping_path: Path, category: str, *, everything: bool = False
) -> CleanupPlan:
    """The mapped notes in the category; with `everything` all of its notes, without a mapping."""
    mapped: set[int] = set()
    if not everything:
        mapped = set(read_note_mapping(mapping_path).values())
    there = {note.id for note in await client.notes_in(category, exclude=("content",))}
    chosen = there if everything else there & mapped
    return CleanupPlan(tuple(sorted(chosen)), len(there - chosen))


async def clean_up(
    plan: CleanupPlan, client: NotesClient, mapping_path: Path, progress: Progress = silent
) -> None:
    """Delete the planned notes, then the mapping. After a failure, plan again to continue."""
    gone = 0

    async def delete(note_id: int) -> None:
        nonlocal gone
        await client.delete(note_id)
        gone += 1
        progress("deleting notes", gone, len(plan.delete))

    await for_each(plan.delete, delete, _CONCURRENCY)
    mapping_path.unlink(missing_ok=True)
