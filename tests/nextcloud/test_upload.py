"""Every document becomes one note, whatever happens on the way; and only ours are deleted."""

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.nextcloud.notes_server import Fault, NotesServer, NoteStore

from assay.data.dataset import Document
from assay.errors import DataError
from assay.nextcloud.client import Note, NotesClient, NotesError
from assay.nextcloud.upload import (
    CATEGORY,
    PlannedNote,
    UploadReport,
    clean_up,
    marker_of,
    plan_cleanup,
    plan_notes,
    upload_documents,
    wait_until_found,
)
from assay.progress import Progress, silent
from assay.targets.protocol import AgentAnswer


@dataclass
class Notes:
    client: NotesClient
    server: NotesServer
    path: Path

    async def upload(
        self, documents: int | Iterable[Document], progress: Progress = silent
    ) -> UploadReport:
        """Upload so many documents, d0, d1 and so on, or these."""
        if isinstance(documents, int):
            numbers = range(documents)
            documents = [Document(f"d{n}", f"Title {n}", f"Text {n}.") for n in numbers]
        return await upload_documents(documents, self.client, self.path, progress=progress)

    async def clean_up(self) -> tuple[int, int]:
        note_ids, left = await plan_cleanup(self.client, self.path, CATEGORY)
        await clean_up(note_ids, self.client, self.path)
        return len(note_ids), left

    @property
    def mapped(self) -> dict[str, int]:
        content: dict[str, int] = json.loads(self.path.read_text())
        return content

    def assert_each_once(self, count: int) -> None:
        assert self.server.titles() == [f"[d{n}] Title {n}" for n in range(count)]
        assert sorted(self.mapped.values()) == sorted(self.server.notes)


@pytest.fixture
def notes(client: NotesClient, server: NotesServer, tmp_path: Path) -> Notes:
    return Notes(client, server, tmp_path / "note_mapping.json")


async def test_each_document_becomes_a_note(notes: Notes, documents: list[Document]) -> None:
    report = await notes.upload(documents)
    assert (report.created, report.documents) == (5, 5)
    assert {note.category for note in notes.server.notes.values()} == {CATEGORY}
    before = notes.mapped
    assert list(before) == [document.id for document in documents]
    for doc_id, note_id in before.items():
        assert notes.server.notes[note_id].title.startswith(f"[{doc_id}]")
    notes.path.unlink()  # it is found again
    report = await notes.upload(documents)
    assert (report.unchanged, report.created, len(notes.server.notes)) == (5, 0, 5)
    assert notes.mapped == before


async def test_changed_and_deleted_notes_are_put_right(notes: Notes) -> None:
    await notes.upload(3)
    before = notes.mapped
    notes.server.notes[before["d0"]].content = "scribbled over"
    del notes.server.notes[before["d1"]]
    report = await notes.upload(3)
    assert (report.updated, report.created, report.unchanged) == (1, 1, 1)
    contents = sorted(note.content for note in notes.server.notes.values())
    assert contents == ["Text 0.", "Text 1.", "Text 2."]


async def test_other_notes_are_left_alone_and_counted(notes: Notes) -> None:
    theirs = notes.server.add("[d0] My thoughts on this", "Mine.", CATEGORY)
    report = await notes.upload(3)
    assert (report.others, report.created) == (1, 3)
    assert notes.server.notes[theirs.id].content == "Mine."
    report = await notes.upload(2)
    assert (report.others, len(notes.server.notes)) == (2, 4)
    assert sorted(notes.mapped) == ["d0", "d1", "d2"]


async def test_a_creation_whose_answer_was_lost_makes_no_second_note(notes: Notes) -> None:
    first, third = Fault("POST", 504, done=True), Fault("POST", 500, done=True)
    notes.server.faults = [first, Fault("POST", 502), third]

    def much_later(what: str, done: int, total: int | None) -> None:
        if what == "uploading notes" and done == total:
            notes.server.add("[d0] Title 0", "Text 0.", CATEGORY)

    report = await notes.upload(6, much_later)
    assert (report.created, report.copies) == (6, 1)  # what came after all is deleted at once
    notes.assert_each_once(6)


async def test_a_failed_upload_is_an_error_that_keeps_what_was_done(notes: Notes) -> None:
    notes.server.faults = [Fault("POST", 507)]
    message = r"document '(d\d+)' could not be uploaded.*storage is full"
    with pytest.raises(NotesError, match=message) as failure:
        await notes.upload(20)
    found = re.match(message, str(failure.value))
    assert found is not None
    assert found[1] not in notes.mapped
    report = await notes.upload(20)
    assert report.created + report.unchanged == len(notes.server.notes) == 20


async def test_a_note_that_somebody_changes_or_deletes_meanwhile(notes: Notes) -> None:
    await notes.upload(3)
    first = notes.mapped["d0"]

    def change(what: str, done: int, total: int | None) -> None:
        if what == "uploading notes":
            notes.server.notes[first].content = "scribbled over"

    with pytest.raises(NotesError, match=r"1 notes in category .* changed by someone else.*'d0'"):
        await notes.upload(4, change)

    def delete(what: str, done: int, total: int | None) -> None:
        if what == "uploading notes":
            notes.server.notes.pop(first, None)

    await notes.upload(5, delete)  # made again
    notes.assert_each_once(5)


async def test_cleaning_up_leaves_notes_of_others_and_notes_elsewhere(notes: Notes) -> None:
    await notes.upload(4)
    theirs = notes.server.add("theirs", "x", CATEGORY)
    moved = next(iter(notes.server.notes.values()))
    moved.category = "keep"
    notes.server.faults = [Fault("DELETE", 403)]
    with pytest.raises(NotesError, match="read-only"):
        await notes.clean_up()
    assert notes.path.exists()  # it goes on from there
    deleted, left = await notes.clean_up()
    assert (1 <= deleted <= 3, left) == (True, 1)
    assert set(notes.server.notes) == {theirs.id, moved.id}
    assert not notes.path.exists()
    with pytest.raises(DataError, match="no note mapping"):
        await notes.clean_up()


IDS = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,20}", fullmatch=True)


@given(IDS, st.text(max_size=150), st.text(max_size=80))
@example("d1", "Statin use", "Text.")
@example("d1", "Why? How: so/and", "Text.")
@example("d1", "long " * 40, "Text.")
def test_the_note_of_every_document_is_recognized(doc_id: str, title: str, text: str) -> None:
    planned = PlannedNote.of(Document(doc_id, title, text))
    note = Note.from_json(NoteStore().add(planned.title, planned.content, CATEGORY).data())
    assert planned.matches(note)
    assert marker_of(note.title) == doc_id
    # What the app would cut from the title is kept in the text.
    assert planned.title in (note.title, f"[{doc_id}] {planned.content.partition(chr(10))[0]}")


@pytest.mark.parametrize(
    ("ids", "message"), [(("ab", "a/b"), "'a/b' looks like 'ab'"), (("x" * 120,), "does not fit")]
)
def test_ids_that_titles_cannot_hold_apart_are_refused(ids: tuple[str, ...], message: str) -> None:
    with pytest.raises(DataError, match=message):
        plan_notes(Document(each, "", "Text.") for each in ids)


async def test_it_ends_when_all_of_the_sample_are_found() -> None:
    documents = [Document(f"d{n}", f"Title {n}", "Text.") for n in range(2)]
    asked: list[str] = []

    async def ask(query: str, _top_k: int) -> AgentAnswer:
        asked.append(query)
        if len(asked) < 3:
            raise ConnectionError("still starting")  # counts as not yet
        return AgentAnswer(("d0", "d1") if len(asked) > 5 else ("d0",))

    await wait_until_found(documents, ask, pause=0.0)
    assert asked.count("Title 0 Text.") == 2  # what was found is not asked for again
    asked.clear()
    with pytest.raises(NotesError, match="the last failed search: still starting"):
        await wait_until_found(documents[:1], ask, timeout=0.0)
