"""Only what is ours is deleted."""

from pathlib import Path

import pytest
from tests.nextcloud.notes_server import Fault, NotesServer

from assay.data.dataset import Document
from assay.errors import DataError
from assay.nextcloud.client import NotesClient, NotesError
from assay.nextcloud.note import CATEGORY
from assay.nextcloud.upload import clean_up, plan_cleanup, upload_documents


@pytest.fixture
async def uploaded(client: NotesClient, mapping_path: Path) -> list[Document]:
    documents = [Document(f"d{n}", "", f"Text {n}.") for n in range(4)]
    await upload_documents(documents, client, mapping_path)
    return documents


async def test_notes_of_others_and_notes_elsewhere_stay(
    client: NotesClient, server: NotesServer, mapping_path: Path, uploaded: list[Document]
) -> None:
    theirs = server.add("theirs", "x", CATEGORY)
    moved = next(iter(server.notes.values()))
    moved.category = "keep"
    plan = await plan_cleanup(client, mapping_path, CATEGORY)
    await clean_up(plan, client, mapping_path)
    assert set(server.notes) == {theirs.id, moved.id}
    assert (len(plan.delete), plan.left) == (3, 1)
    assert not mapping_path.exists()


async def test_a_whole_category_goes_only_when_asked_for(
    client: NotesClient, server: NotesServer, mapping_path: Path, uploaded: list[Document]
) -> None:
    server.add("theirs", "x", CATEGORY)
    other = server.add("other", "x", "another category")
    plan = await plan_cleanup(client, mapping_path, CATEGORY, everything=True)
    await clean_up(plan, client, mapping_path)
    assert set(server.notes) == {other.id}


async def test_without_a_mapping_nothing_is_deleted(
    client: NotesClient, server: NotesServer, mapping_path: Path
) -> None:
    server.add("theirs", "x", CATEGORY)
    with pytest.raises(DataError, match="no note mapping"):
        await plan_cleanup(client, mapping_path, CATEGORY)


async def test_a_cleanup_that_failed_goes_on_from_there(
    client: NotesClient, server: NotesServer, mapping_path: Path, uploaded: list[Document]
) -> None:
    plan = await plan_cleanup(client, mapping_path, CATEGORY)
    server.faults = [Fault("DELETE", 403)]
    with pytest.raises(NotesError, match="read-only"):
        await clean_up(plan, client, mapping_path)
    assert mapping_path.exists()
    await clean_up(await plan_cleanup(client, mapping_path, CATEGORY), client, mapping_path)
    assert not server.notes
