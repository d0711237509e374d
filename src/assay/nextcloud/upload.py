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
from assay.nextcloud.note import CATEGORY, Note, PlannedNote, check_category, marker_of, plan_notes
from assay.progress import Progress, silent

CONCURRENCY = 8

_WRITE_INTERVAL = 1.0
# A server whose answer did not come in time may still be at work: the note is looked for after each
# of these pauses before it is created again.
_LATE_PAUSES = (0.0, 2.0, 5.0, 10.0)
_LATE_STATUSES = (None, 408, 504)


@dataclass(frozen=True, slots=True)
class UploadReport:
    """What an upload did.

    `adopted` notes were created by an earlier upload that ended before it could record them.
    `copies` of a document's note were deleted, which earlier uploads or lost answers left.
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
    """What an upload has to do; the attributes are those of `UploadReport`."""

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
    concurrency: int = CONCURRENCY,
    progress: Progress = silent,
) -> UploadReport:
    """Give every document its note, or raise; a second call does what the first one left.

    Parameters:
        documents: What is uploaded.
        client: The account whose notes they become.
        mapping_path: The note mapping, which is read, extended and written.
        category: The category of the notes.
        concurrency: How many requests to send at once.
        progress: Called with each note that is done.
    """
    started = time.monotonic()
    check_category(category)
    planned = plan_notes(documents)
    mapping = read_note_mapping(mapping_path) if mapping_path.exists() else {}
    progress("reading notes", 0, None)
    listing = await client.notes_in(category)
    assert listing is not None, "only a listing with a tag can be unchanged"
    plan = plan_upload(planned, mapping, listing.notes)
    mapping_file = _MappingFile(mapping_path, {**plan.outdated, **plan.unchanged, **plan.adopt})
    mapping_file.write()  # fails now, and not after an hour, where the file cannot be written
    work = _Upload(client, category, mapping_file, planned, progress)
    await work.run(plan, concurrency)
    return UploadReport(
        documents=len(planned),
        created=len(plan.create),
        updated=len(plan.update),
        adopted=len(plan.adopt),
        unchanged=len(plan.unchanged),
        copies=len(plan.copies) + work.late_copies,
        outdated=len(plan.outdated),
        foreign=plan.foreign,
        seconds=time.monotonic() - started,
    )


def plan_upload(
    planned: Sequence[PlannedNote], mapping: Mapping[str, int], notes: Iterable[Note]
) -> UploadPlan:
    """What is left to do, given the notes of the category as they are now."""
    existing = {note.id: note for note in notes}
    doc_ids = {each.doc_id for each in planned}
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
    for each in planned:
        known = existing.get(mapping.get(each.doc_id, -1))
        same = unmapped.pop((each.marker, each.content), [])
        if known is not None and each.matches(known):
            unchanged[each.doc_id] = known.id
        elif known is not None:
            update.append((each, known))
        elif same:
            adopt[each.doc_id] = same.pop(0)
        else:
            create.append(each)
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
    late_copies: int = field(default=0, init=False)
    _done: int = field(default=0, init=False)

    async def run(self, plan: UploadPlan, concurrency: int) -> None:
        self._done = len(plan.adopt) + len(plan.unchanged)
        try:
            await for_each(plan.copies, self.client.delete, concurrency)
            await for_each(plan.update, self._update, concurrency)
            await for_each(plan.create, self._create, concurrency)
            await self._verify()
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
                found = await self._look_for(planned, late=error.status in _LATE_STATUSES)
            if found is not None:
                return found
        raise AssertionError("unreachable: the last attempt returns or raises")

    async def _look_for(self, planned: PlannedNote, *, late: bool) -> int | None:
        """The note of a creation that failed, `late` where it may still be under way."""
        for pause in _LATE_PAUSES if late else (0.0,):
            if pause:
                await self.client.retry.sleep(pause)
            found = await self._find(planned)
            if found is not None:
                return found
        return None

    async def _find(self, planned: PlannedNote) -> int | None:
        listing = await self.client.notes_in(self.category, exclude=("content",))
        mapped = set(self.mapping.notes.values())
        for note in listing.notes if listing else ():
            if note.id not in mapped and marker_of(note.title) == planned.marker:
                complete = await self.client.get(note.id)
                if not complete.content and planned.content:
                    # The server made the file and failed before its text.
                    complete = await self.client.update(complete, planned.title, planned.content)
                if complete.content == planned.content:
                    return note.id
        return None

    async def _verify(self) -> None:
        """Check against a last listing that every document has its note in the category."""
        listing = await self.client.notes_in(self.category)
        existing = {note.id: note for note in listing.notes} if listing else {}
        notes = self.mapping.notes
        missing = [doc_id for doc_id, note_id in notes.items() if note_id not in existing]
        if missing:
            raise self._disturbed(missing, "have disappeared", "deletes or moves")
        changed = [
            each.doc_id
            for each in self.planned
            if not each.matches_by_marker(existing[notes[each.doc_id]])
        ]
        if changed:
            raise self._disturbed(changed, "differ from what was written", "changes")
        await self._delete_copies(existing)

    async def _delete_copies(self, existing: Mapping[int, Note]) -> None:
        """A creation that was given up and repeated may have succeeded after all."""
        mapped = set(self.mapping.notes.values())
        written = {(each.marker, each.content) for each in self.planned}
        for note in existing.values():
            if note.id not in mapped and (marker_of(note.title), note.content) in written:
                await self.client.delete(note.id)
                self.late_copies += 1

    def _disturbed(self, doc_ids: Sequence[str], what: str, does: str) -> NotesError:
        return NotesError(
            f"{len(doc_ids)} notes {what}, such as that of {doc_ids[0]!r}: someone else {does} "
            f"notes in category {self.category!r}; upload again"
        )

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
class CategoryStatus:
    """What a category holds.

    `missing` are documents whose note is not in the category, `foreign` counts notes in it that
    hold no document.
    """

    host: str
    category: str
    api_versions: str
    notes: int
    mapped: int
    missing: tuple[str, ...]
    foreign: int


async def category_status(client: NotesClient, mapping_path: Path, category: str) -> CategoryStatus:
    """Compare a category with the note mapping."""
    mapping = read_note_mapping(mapping_path) if mapping_path.exists() else {}
    listing = await client.notes_in(category, exclude=("content",))
    there = listing.ids if listing else frozenset()
    return CategoryStatus(
        host=client.account.host,
        category=category,
        api_versions=listing.api_versions if listing else "",
        notes=len(there),
        mapped=len(mapping),
        missing=tuple(doc_id for doc_id, note_id in mapping.items() if note_id not in there),
        foreign=len(there - set(mapping.values())),
    )


@dataclass(frozen=True, slots=True)
class CleanupPlan:
    """Which notes to delete.

    `left` counts notes in the category that the mapping does not name; `elsewhere` counts mapped
    notes that are not in it: they were deleted already, or moved to another category.
    """

    delete: tuple[int, ...]
    left: int
    elsewhere: int


async def plan_cleanup(
    client: NotesClient, mapping_path: Path, category: str, *, everything: bool = False
) -> CleanupPlan:
    """The mapped notes in the category, or with `everything` all of its notes.

    With `everything` no mapping is needed.
    """
    mapped: set[int] = set()
    if mapping_path.exists() or not everything:
        mapped = set(read_note_mapping(mapping_path).values())
    listing = await client.notes_in(category, exclude=("content",))
    there = listing.ids if listing else frozenset()
    chosen = there if everything else there & mapped
    return CleanupPlan(tuple(sorted(chosen)), len(there - chosen), len(mapped - there))


async def clean_up(
    plan: CleanupPlan,
    client: NotesClient,
    mapping_path: Path,
    *,
    concurrency: int = 8,
    progress: Progress = silent,
) -> None:
    """Delete the planned notes and the mapping.

    On a failure the mapping keeps the notes that are left, so that a second call can continue.
    """
    gone: set[int] = set()

    async def delete(note_id: int) -> None:
        await client.delete(note_id)
        gone.add(note_id)
        progress("deleting notes", len(gone), len(plan.delete))

    try:
        await for_each(plan.delete, delete, concurrency)
    except BaseException:
        _forget(gone, mapping_path)
        raise
    mapping_path.unlink(missing_ok=True)


def _forget(gone: set[int], mapping_path: Path) -> None:
    if mapping_path.exists():
        mapping = read_note_mapping(mapping_path)
        write_note_mapping({d: n for d, n in mapping.items() if n not in gone}, mapping_path)
