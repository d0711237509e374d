"""BM25 that is counted once: what is opened ranks as what was built, or is built again."""

import errno
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tests.search.samples import DOCUMENTS

from assay.data import Dataset, Document, load_dataset
from assay.search import bm25
from assay.search.bm25 import Bm25Index, Bm25Settings, open_bm25

NOTES = load_dataset("notes")
QUERIES = [query.text for query in NOTES.queries.values()]


@pytest.fixture(autouse=True)
def builds(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every index is kept, and made of many blocks; returns the names of those that are built."""
    monkeypatch.setattr(bm25, "KEPT_FROM", 1)
    monkeypatch.setattr(bm25, "_POSTINGS_AT_ONCE", 500)
    built: list[str] = []
    write = bm25._written

    def written(path: Path, *rest: Any) -> Bm25Index:
        built.append(path.name)
        return write(path, *rest)

    monkeypatch.setattr(bm25, "_written", written)
    return built


def small(*documents: Document, name: str = "small") -> Dataset:
    return Dataset(name, {one.id: one for one in documents}, {}, {})


def kept(cache: Path) -> list[Path]:
    return sorted(path for path in (cache / "bm25").glob("*") if path.is_dir())


def test_what_is_opened_ranks_as_what_is_counted_in_memory_to_the_last_digit(
    builds: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    first, opened = open_bm25(NOTES), open_bm25(NOTES)
    assert len(builds) == 1
    monkeypatch.setattr(bm25, "_POSTINGS_AT_ONCE", 1 << 20)
    in_memory = Bm25Index(NOTES.documents.values())
    for query in QUERIES:
        for depth in (3, 100):
            found = in_memory.search(query, depth)
            assert opened.search(query, depth) == first.search(query, depth) == found
    assert opened.model == in_memory.model


def test_each_setting_has_an_index_and_changed_documents_replace_theirs(
    surroundings: Path, builds: list[str]
) -> None:
    data = small(*DOCUMENTS)
    open_bm25(data)
    other = open_bm25(data, Bm25Settings(0.9, 0.4))
    assert other.model.settings == Bm25Settings(0.9, 0.4)
    assert len(kept(surroundings)) == 2
    longer = Document("tea", "Green tea", "Green tea is steeped, with a zeppelin above.")
    changed = open_bm25(small(longer, *DOCUMENTS[1:]))
    assert [doc_id for doc_id, _ in changed.search("zeppelin", 3)] == ["tea"]
    assert [path.name for path in kept(surroundings)] == sorted(builds[1:])


def test_a_flipped_bit_in_each_file_is_noticed_and_the_index_built_again(
    surroundings: Path, caplog: pytest.LogCaptureFixture, builds: list[str]
) -> None:
    data = small(*DOCUMENTS)
    right = open_bm25(data).search("brewed water", 5)
    (folder,) = kept(surroundings)
    for name in sorted(path.name for path in folder.iterdir()):
        path = folder / name
        status = path.stat()
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 4
        path.write_bytes(content)
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
        caplog.clear()
        assert open_bm25(data).search("brewed water", 5) == right
        assert "it is rebuilt" in caplog.text, name
    assert len(builds) == 7


def test_two_builders_of_one_index_build_it_once(builds: list[str]) -> None:
    with ThreadPoolExecutor(4) as pool:
        opened = list(pool.map(lambda _: open_bm25(NOTES), range(4)))
    assert len(builds) == 1
    assert len({str(index.search("tea", 5)) for index in opened}) == 1


def test_a_build_that_is_broken_off_leaves_nothing_to_open(surroundings: Path) -> None:
    class Ends(dict[str, Document]):
        def values(self) -> Iterator[Document]:  # type: ignore[override]
            yield from DOCUMENTS
            raise KeyboardInterrupt

    data = Dataset("small", Ends({one.id: one for one in DOCUMENTS}), {}, {})
    data.__dict__["corpus_fingerprint"] = small(*DOCUMENTS).corpus_fingerprint
    with pytest.raises(KeyboardInterrupt):
        open_bm25(data)
    assert kept(surroundings) == []
    assert open_bm25(small(*DOCUMENTS)).search("saffron", 1)[0][0] == "soup"


def test_a_cache_that_cannot_be_written_is_told_and_done_without(
    surroundings: Path, caplog: pytest.LogCaptureFixture
) -> None:
    surroundings.mkdir()
    (surroundings / "bm25").write_text("in the way")
    assert open_bm25(small(*DOCUMENTS)).search("saffron", 1)[0][0] == "soup"
    assert "the BM25 index cannot be kept" in caplog.text
    assert "it is built in memory" in caplog.text
    assert str(surroundings) not in caplog.text


@pytest.mark.skipif(not hasattr(os, "posix_fallocate"), reason="needs posix_fallocate")
def test_a_disk_that_fills_while_an_index_is_written_is_told(
    surroundings: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Whoever writes into a mapped file without room is killed; asked for first, it is an error."""

    def full(*_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    assert open_bm25(small(*DOCUMENTS)).search("saffron", 1)[0][0] == "soup"
    assert "No space left" in caplog.text
    assert kept(surroundings) == []


def test_nothing_is_kept_of_few_documents_nor_in_a_private_run(
    surroundings: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ASSAY_PRIVATE", "1")
    open_bm25(small(*DOCUMENTS))
    monkeypatch.delenv("ASSAY_PRIVATE")
    monkeypatch.setattr(bm25, "KEPT_FROM", len(DOCUMENTS) + 1)
    open_bm25(small(*DOCUMENTS))
    assert not (surroundings / "bm25").exists()


def test_documents_without_a_word_or_with_odd_ids_are_kept_too() -> None:
    for _ in range(2):
        assert open_bm25(small(Document("none", "", "the of"))).search("tea", 5) == []
        odd = open_bm25(small(Document("\ud800 é", "", "tea"), name="odd"))
        assert [doc_id for doc_id, _ in odd.search("tea", 5)] == ["\ud800 é"]
