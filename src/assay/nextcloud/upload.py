"""A data set's documents as notes: all of them, each once, however often it is interrupted.

What is left to do is known from two places. The mapping says which note stands for which document.
A note that was made just before a kill is not in it, and is known by its mark and its content.
"""

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from assay.data.dataset import Document
from assay.data.note_mapping import read_note_mapping, write_note_mapping
from assay.net.gather import for_each
from assay.nextcloud.client import NotesClient
from assay.nextcloud.failures import NotesError
from assay.nextcloud.note import Draft, Note, check_category, drafts_of, mark_of
from assay.progress import Progress, silent


@dataclass(frozen=True, slots=True)
class Plan:
    create: Sequence[Draft]
    update: Sequence[tuple[Draft, Note]]
    adopt: Mapping[str, int]
    unchanged: Mapping[str, int]
    copies: Sequence[int]
    outdated: Mapping[str, int]
    foreign: int


def plan_upload(drafts: Sequence[Draft], mapping: Mapping[str, int], notes: Iterable[Note]) -> Plan:
    """What is left to do, given the notes of the category as they are now."""
    there = {note.id: note for note in notes}
    wanted = {draft.doc_id for draft in drafts}
    outdated = {d: n for d, n in mapping.items() if d not in wanted and n in there}
    spoken_for = {mapping[doc_id] for doc_id in wanted & mapping.keys()} | set(outdated.values())
    nameless: dict[tuple[str, str], list[int]] = {}
    for note in there.values():
        if note.id not in spoken_for:
            nameless.setdefault((mark_of(note.title), note.content), []).append(note.id)
    create: list[Draft] = []
    update: list[tuple[Draft, Note]] = []
    adopt: dict[str, int] = {}
    unchanged: dict[str, int] = {}
    copies: list[int] = []
    for draft in drafts:
        known = there.get(mapping.get(draft.doc_id, -1))
        same = nameless.pop((draft.mark, draft.content), [])
        if known is not None and draft.is_in(known):
            unchanged[draft.doc_id] = known.id
        elif known is not None:
            update.append((draft, known))
        elif same:
            adopt[draft.doc_id] = same.pop(0)
        else:
            create.append(draft)
        copies += same
    foreign = sum(map(len, nameless.values()))
    return Plan(create, update, adopt, unchanged, copies, outdated, foreign)


CATEGORY = "nfcorpus_rag_eval"
CONCURRENCY = 8
_SECONDS_BETWEEN_WRITES = 1.0
_MOST_CREATIONS = 3


@dataclass(frozen=True, slots=True)
class UploadReport:
    """`adopted` notes were made by an earlier upload that was ended before it could note them.

    `copies` of a document's note were deleted. `outdated` stand for documents that the data set no
    longer has, `foreign` are other notes in the category: both are left, and can be found.
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


async def upload(
    documents: Iterable[Document],
    client: NotesClient,
    mapping_path: Path,
    *,
    category: str = CATEGORY,
    concurrency: int = CONCURRENCY,
    progress: Progress = silent,
) -> UploadReport:
    """Afterwards each document has its note, or this raises; doing it again does what is left."""
    started = time.monotonic()
    check_category(category)
    drafts = drafts_of(documents)
    mapping = read_note_mapping(mapping_path) if mapping_path.exists() else {}
    progress("reading notes", 0, None)
    listing = await client.notes_in(category)
    assert listing is not None, "only a listing with a tag can be unchanged"
    plan = plan_upload(drafts, mapping, listing.notes)
    book = _Book(mapping_path, {**plan.outdated, **plan.unchanged, **plan.adopt})
    book.write()  # also tells now, and not after an hour, that the file cannot be written
    await _Upload(client, category, book, drafts, progress).carry_out(plan, concurrency)
    return UploadReport(
        documents=len(drafts),
        created=len(plan.create),
        updated=len(plan.update),
        adopted=len(plan.adopt),
        unchanged=len(plan.unchanged),
        copies=len(plan.copies),
        outdated=len(plan.outdated),
        foreign=plan.foreign,
        seconds=time.monotonic() - started,
    )


@dataclass
class _Book:
    """The mapping as it grows, on disk once a second: what a kill loses is found by its mark."""

    path: Path
    notes: dict[str, int]
    _written: float = field(default=0.0, init=False)

    def enter(self, doc_id: str, note_id: int) -> None:
        self.notes[doc_id] = note_id
        if time.monotonic() - self._written >= _SECONDS_BETWEEN_WRITES:
            self.write()

    def write(self) -> None:
        write_note_mapping(self.notes, self.path)
        self._written = time.monotonic()


@dataclass
class _Upload:
    client: NotesClient
    category: str
    book: _Book
    drafts: Sequence[Draft]
    progress: Progress
    _done: int = field(default=0, init=False)

    async def carry_out(self, plan: Plan, concurrency: int) -> None:
        self._done = len(plan.adopt) + len(plan.unchanged)
        try:
            await for_each(plan.copies, self.client.delete, concurrency)
            await for_each(plan.update, self._update, concurrency)
            await for_each(plan.create, self._create, concurrency)
            await self._check()
        finally:
            self.book.write()

    async def _update(self, change: tuple[Draft, Note]) -> None:
        draft, note = change
        try:
            await self.client.update(note, draft.title, draft.content)
        except NotesError as error:
            raise self._failed(draft, error) from error
        self._enter(draft, note.id)

    async def _create(self, draft: Draft) -> None:
        try:
            note_id = await self._created(draft)
        except NotesError as error:
            raise self._failed(draft, error) from error
        self._enter(draft, note_id)

    async def _created(self, draft: Draft) -> int:
        """A creation whose answer was lost may have happened: look, before doing it again."""
        for attempt in range(1, _MOST_CREATIONS + 1):
            try:
                return (await self.client.create(draft.title, draft.content, self.category)).id
            except NotesError as error:
                if not error.maybe_done or attempt == _MOST_CREATIONS:
                    raise
            found = await self._find(draft)
            if found is not None:
                return found
        raise AssertionError("unreachable: the last attempt returns or raises")

    async def _find(self, draft: Draft) -> int | None:
        listing = await self.client.notes_in(self.category, exclude=("content",))
        taken = set(self.book.notes.values())
        for note in listing.notes if listing else ():
            if note.id not in taken and mark_of(note.title) == draft.mark:
                whole = await self.client.get(note.id)
                if whole.content == draft.content:
                    return note.id
        return None

    async def _check(self) -> None:
        """That every document has its note in the category, by what the server says in the end."""
        listing = await self.client.notes_in(self.category)
        there = {note.id: note for note in listing.notes} if listing else {}
        missing = [doc_id for doc_id, note_id in self.book.notes.items() if note_id not in there]
        if missing:
            raise self._disturbed(missing, "are gone that were there just now", "deletes or moves")
        notes = self.book.notes
        changed = [d.doc_id for d in self.drafts if not d.stands_in(there[notes[d.doc_id]])]
        if changed:
            raise self._disturbed(changed, "do not hold what was written", "changes")

    def _disturbed(self, doc_ids: Sequence[str], what: str, does: str) -> NotesError:
        return NotesError(
            f"{len(doc_ids)} notes {what}, such as that of {doc_ids[0]!r}: somebody {does} notes "
            f"in category {self.category!r}; upload again"
        )

    def _enter(self, draft: Draft, note_id: int) -> None:
        self.book.enter(draft.doc_id, note_id)
        self._done += 1
        self.progress("uploading notes", self._done, len(self.drafts))

    def _failed(self, draft: Draft, error: NotesError) -> NotesError:
        return error.with_message(
            f"document {draft.doc_id!r} could not be uploaded: {error}. {self._done:,} of "
            f"{len(self.drafts):,} documents are there; the same command does the rest"
        )
