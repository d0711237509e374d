"""A corpus that stays on the disk: the same data set, whatever holds its documents."""

import pickle
from pathlib import Path

import pytest
from tests.data.conftest import CORPUS, WriteDataset

from assay.data import load_dataset
from assay.data import stored_documents as module
from assay.data.stored_documents import StoredDocuments
from assay.errors import DataError


@pytest.fixture
def on_disk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Every corpus is large, and the cache is the test's own."""
    monkeypatch.setenv("ASSAY_CORPUS_IN_MEMORY_MB", "0")
    monkeypatch.setenv("ASSAY_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "corpora"


@pytest.fixture
def small(write_dataset: WriteDataset) -> Path:
    return write_dataset()


def test_the_data_set_is_the_same(on_disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stored = load_dataset("notes")
    assert isinstance(stored.documents, StoredDocuments)
    monkeypatch.setenv("ASSAY_CORPUS_IN_MEMORY_MB", "64")
    memory = load_dataset("notes")
    assert stored.fingerprint == memory.fingerprint
    assert list(stored.documents) == list(memory.documents)
    assert dict(stored.documents.items()) == dict(memory.documents)
    assert stored.documents["note-001"] == memory.documents["note-001"]
    assert "note-001" in stored.known_ids
    assert "note-x" not in stored.documents
    assert stored.documents.get("note-x") is None
    assert repr(stored) == repr(memory)


def test_it_is_read_once(on_disk: Path, small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = load_dataset(small)
    assert first.fingerprint
    monkeypatch.setattr(module, "_build", lambda *_: pytest.fail("the corpus is read again"))
    again = load_dataset(small)
    monkeypatch.setattr(StoredDocuments, "read", lambda _: pytest.fail("the documents are hashed"))
    assert again.fingerprint == first.fingerprint


def test_a_corpus_that_changed_is_read_again(on_disk: Path, small: Path) -> None:
    before = load_dataset(small).fingerprint
    (small / "corpus.jsonl").write_text(CORPUS + '{"_id": "d4", "text": "other"}\n')
    after = load_dataset(small)
    assert "d4" in after.documents
    assert after.fingerprint != before
    assert len(list(on_disk.glob("*.sqlite3"))) == 1  # the earlier one is deleted


def test_warnings_come_every_time_and_duplicates_are_refused(on_disk: Path, small: Path) -> None:
    (small / "corpus.jsonl").write_text(CORPUS + CORPUS)
    messages = [load_dataset(small).warnings for _ in range(2)]
    assert messages[0] == messages[1]
    assert "rows that repeat an earlier one" in messages[0][0]
    (small / "corpus.jsonl").write_text(CORPUS + CORPUS + '{"_id": "d1", "text": "else"}\n')
    with pytest.raises(
        DataError, match=r"corpus.jsonl:5: id 'd1' is already used for other content"
    ):
        load_dataset(small)
    assert len(list(on_disk.iterdir())) == 1


def test_it_can_be_sent_to_another_process(on_disk: Path, small: Path) -> None:
    documents = load_dataset(small).documents
    assert list(pickle.loads(pickle.dumps(documents))) == ["d1", "d2"]
