"""A corpus that stays on the disk: the same data set, whatever holds its documents."""

import json
import os
import pickle
from pathlib import Path

import pytest

from assay.data import Dataset, load_dataset
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
def small(tmp_path: Path) -> Path:
    folder = tmp_path / "small"
    (folder / "qrels").mkdir(parents=True)
    _write(folder, ["d1", "d2", "d3"])
    (folder / "queries.jsonl").write_text('{"_id": "q1", "text": "tea"}\n')
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq1\td2\t1\n")
    return folder


def _write(folder: Path, ids: list[str], text: str = "text") -> None:
    lines = [{"_id": each, "title": each.upper(), "text": f"{text} {each}"} for each in ids]
    content = "".join(json.dumps(line) + "\n" for line in lines)
    (folder / "corpus.jsonl").write_text(content)


def test_the_data_set_is_the_same(on_disk: Path) -> None:
    stored = load_dataset("notes")
    assert isinstance(stored.documents, StoredDocuments)
    memory = _in_memory()
    assert stored.fingerprint == memory.fingerprint
    assert list(stored.documents) == list(memory.documents)
    assert list(stored.documents.values()) == list(memory.documents.values())
    assert dict(stored.documents.items()) == dict(memory.documents)
    assert stored.documents["note-001"] == memory.documents["note-001"]
    assert len(stored.documents) == len(memory.documents)
    assert "note-001" in stored.known_ids
    assert "note-x" not in stored.documents
    assert stored.documents.get("note-x") is None
    assert repr(stored) == repr(memory)


def _in_memory() -> Dataset:
    os.environ["ASSAY_CORPUS_IN_MEMORY_MB"] = "64"
    try:
        return load_dataset("notes")
    finally:
        os.environ["ASSAY_CORPUS_IN_MEMORY_MB"] = "0"


def test_it_is_read_once(on_disk: Path, small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = load_dataset(small)
    assert first.fingerprint
    monkeypatch.setattr(module, "_build", lambda *_: pytest.fail("the corpus is read again"))
    again = load_dataset(small)
    monkeypatch.setattr(StoredDocuments, "read", lambda _: pytest.fail("the documents are hashed"))
    assert again.fingerprint == first.fingerprint


def test_a_corpus_that_changed_is_read_again(on_disk: Path, small: Path) -> None:
    before = load_dataset(small).fingerprint
    _write(small, ["d1", "d2", "d4"], text="other")
    after = load_dataset(small)
    assert "d4" in after.documents
    assert after.fingerprint != before
    assert len(list(on_disk.glob("*.sqlite3"))) == 1  # the earlier one is deleted


def test_warnings_come_every_time_and_duplicates_are_refused(on_disk: Path, small: Path) -> None:
    with (small / "corpus.jsonl").open("a") as file:
        file.write('{"_id": "d1", "title": "D1", "text": "text d1"}\n')
    messages = [load_dataset(small).warnings for _ in range(2)]
    assert messages[0] == messages[1]
    assert "rows that repeat an earlier one" in messages[0][0]
    with (small / "corpus.jsonl").open("a") as file:
        file.write('{"_id": "d1", "title": "D1", "text": "something else"}\n')
    with pytest.raises(
        DataError, match=r"corpus.jsonl:5: id 'd1' is already used for other content"
    ):
        load_dataset(small)
    assert len(list(on_disk.iterdir())) == 1


def test_it_can_be_sent_to_another_process(on_disk: Path, small: Path) -> None:
    documents = load_dataset(small).documents
    assert list(pickle.loads(pickle.dumps(documents))) == ["d1", "d2", "d3"]
