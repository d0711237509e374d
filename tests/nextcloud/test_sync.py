"""The folder follows the notes, and the server sends only what it must."""

from pathlib import Path

import pytest
from tests.nextcloud.notes_server import NotesServer

from assay.data import Dataset, Document, Query, load_dataset
from assay.data.note_mapping import documents_by_note, read_note_mapping
from assay.errors import DataError, UsageError
from assay.nextcloud import client as client_module
from assay.nextcloud.client import NotesClient
from assay.nextcloud.note import CATEGORY
from assay.nextcloud.sync import SyncReport, sync_notes
from assay.nextcloud.upload import upload_documents


class Clock:
    """A second for each look, so that what changed later is later."""

    def __init__(self) -> None:
        self.now = 1_000_000

    def __call__(self) -> int:
        self.now += 1
        return self.now


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "synced"


@pytest.fixture(autouse=True)
def clock(server: NotesServer) -> None:
    server.clock = Clock()


def fill(server: NotesServer, count: int) -> list[int]:
    return [server.add(f"Title {n}", f"Text {n}.", CATEGORY).id for n in range(count)]


async def synced(client: NotesClient, folder: Path) -> SyncReport:
    return await sync_notes(client, folder, category=CATEGORY, doc_ids={})


async def test_the_folder_is_a_data_set_of_the_notes(
    client: NotesClient, server: NotesServer, folder: Path
) -> None:
    first, second = fill(server, 2)
    server.add("elsewhere", "x", "another category")
    report = await synced(client, folder)
    data = load_dataset(folder)
    assert report == SyncReport(notes=2, added=2, changed=0, removed=0, fetched=2)
    assert data.documents[f"note:{first}"].text == "Text 0."
    assert data.judgments["test"][f"note:{second}"] == {f"note:{second}": 1}


async def test_half_a_surrogate_pair_in_a_note_is_replaced(
    client: NotesClient, server: NotesServer, folder: Path
) -> None:
    note = server.add("Half \ud83d", "a \udc00 pair", CATEGORY)
    await synced(client, folder)
    document = load_dataset(folder).documents[f"note:{note.id}"]
    assert (document.title, document.text) == ("Half ?", "a ? pair")


async def test_what_changed_is_fetched_and_what_is_gone_goes(
    client: NotesClient, server: NotesServer, folder: Path
) -> None:
    ids = fill(server, 5)
    await synced(client, folder)
    del server.notes[ids[0]]
    await client.update(await client.get(ids[1]), "Title 1", "New text.")
    server.add("Title 5", "Text 5.", CATEGORY)
    report = await synced(client, folder)
    assert report == SyncReport(notes=5, added=1, changed=1, removed=1, fetched=2)
    documents = load_dataset(folder).documents
    assert documents[f"note:{ids[1]}"].text == "New text."
    assert f"note:{ids[0]}" not in documents


async def test_an_unchanged_category_costs_one_empty_answer(
    client: NotesClient, server: NotesServer, folder: Path
) -> None:
    fill(server, 3)
    await synced(client, folder)
    await synced(client, folder)  # the first listing that names notes without sending them
    asked = server.count("GET")
    report = await synced(client, folder)
    assert report == SyncReport(notes=3, added=0, changed=0, removed=0, fetched=0)
    assert server.count("GET") == asked + 1


async def test_a_note_that_is_gone_from_a_later_part_is_missed_by_no_tag(
    client: NotesClient, server: NotesServer, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_module, "_CHUNK", 2)
    ids = fill(server, 5)
    server.clock = lambda: 1  # every note stays newer than any listing: all are sent each time
    await synced(client, folder)
    del server.notes[ids[-1]]
    assert (await synced(client, folder)).removed == 1


async def test_a_note_that_was_moved_into_the_category_is_fetched(
    client: NotesClient, server: NotesServer, folder: Path
) -> None:
    fill(server, 1)
    moved = server.add("Moved", "Old text.", "elsewhere")
    await synced(client, folder)
    moved.category = CATEGORY  # a file that was moved keeps its date
    assert (await synced(client, folder)).added == 1
    assert load_dataset(folder).documents[f"note:{moved.id}"].text == "Old text."


async def test_uploaded_documents_come_back_as_they_were(
    client: NotesClient, folder: Path, mapping_path: Path, documents: list[Document]
) -> None:
    await upload_documents(documents, client, mapping_path)
    doc_ids = documents_by_note(read_note_mapping(mapping_path), mapping_path)
    questions = Dataset("q", {}, {"q1": Query("q1", "statins")}, {"test": {"q1": {"MED-10": 2}}})
    await sync_notes(client, folder, category=CATEGORY, doc_ids=doc_ids, questions=questions)
    data = load_dataset(folder)
    assert {d.id: (d.title, d.text) for d in data.documents.values()} == {
        d.id: (d.title.strip(), d.text) for d in documents
    }
    assert data.judgments["test"] == {"q1": {"MED-10": 2}}


async def test_damaged_memory_is_made_anew(
    client: NotesClient, server: NotesServer, folder: Path
) -> None:
    fill(server, 2)
    await synced(client, folder)
    (folder / "notes.json").write_text("{")
    assert (await synced(client, folder)).fetched == 2


async def test_a_folder_of_something_else_is_not_written_over(
    client: NotesClient, server: NotesServer, folder: Path
) -> None:
    fill(server, 1)
    await synced(client, folder)
    with pytest.raises(UsageError, match="choose another folder"):
        await sync_notes(client, folder, category="another", doc_ids={})
    (folder / "notes.json").unlink()
    with pytest.raises(UsageError, match="not created by a sync"):
        await synced(client, folder)


async def test_an_empty_category_is_told(client: NotesClient, folder: Path) -> None:
    with pytest.raises(DataError, match="no notes found for ada at"):
        await synced(client, folder)
