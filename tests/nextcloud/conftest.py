"""A Notes server, an account on it, documents, and pauses that are counted instead of waited."""

import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from tests.nextcloud.notes_server import PASSWORD, USER, NotesServer

from assay.data.dataset import Document
from assay.net.retry import RetryPolicy
from assay.nextcloud.client import Account, NotesClient


@pytest.fixture(autouse=True)
def surroundings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    ours = ("ASSAY_NOTE", "NEXTCLOUD_", "QDRANT_", "COLLECTION_NAME")
    for name in [name for name in os.environ if name.startswith(ours)]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("ASSAY_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def server() -> Iterator[NotesServer]:
    with NotesServer().running() as server:
        yield server


@pytest.fixture
def pauses() -> list[float]:
    return []


@pytest.fixture
async def client(server: NotesServer, pauses: list[float]) -> AsyncIterator[NotesClient]:
    async def sleep(seconds: float) -> None:
        pauses.append(seconds)

    account = Account(server.url, USER, PASSWORD)
    async with NotesClient(
        account, RetryPolicy(attempts=4, max_retry_after=120.0, sleep=sleep)
    ) as client:
        yield client


@pytest.fixture
def mapping_path(tmp_path: Path) -> Path:
    return tmp_path / "note_mapping.json"


@pytest.fixture
def documents() -> list[Document]:
    return [
        Document("MED-10", "Statin use and breast cancer", "Statins were asked after."),
        Document("MED-14", 'What: a title / with "odd" characters?', "A text of its own."),
        Document("MED-118", "A very long title " * 10, "Alkylphenols in breast milk."),
        Document("MED-301", "", "It has no title.\n\nBut two paragraphs."),
        Document("MED-306", "Empty", ""),
    ]
