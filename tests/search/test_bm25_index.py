"""BM25 that is counted once: what is opened ranks as what was built, or is built again."""

import errno
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from tests.search.samples import DOCUMENTS, corpus
from tests.search.test_array_store import flip

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


def kept(cache: Path) -> list[Path]:
    return sorted(path for path in (cache / "bm25").glob("*") if path.is_dir())


def test_what_is_opened_ranks_as_before(builds: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    first, opened = open_bm25(NOTES), open_bm25(NOTES)
    assert len(builds) == 1
    monkeypatch.setattr(bm25, "_POSTINGS_AT_ONCE", 1 << 20)
    in_memory = Bm25Index(NOTES.documents.values())
    for query in QUERIES:
        for depth in (3, 100):
            found = in_memory.search(query, depth)
            assert opened.search(query, depth) == first.search(query, depth) == found
    assert opened.model == in_memory.model


def test_each_setting_has_an_index_of_its_own(surroundings: Path, builds: list[str]) -> None:
    data = corpus()
    open_bm25(data)
    other = open_bm25(data, Bm25Settings(0.9, 0.4))
    assert other.model.settings == Bm25Settings(0.9, 0.4)
    assert len(kept(surroundings)) == 2
    longer = Document("tea", "Green tea", "Green tea is steeped, with a zeppelin above.")
    changed = open_bm25(corpus([longer, *DOCUMENTS[1:]]))
    assert [doc_id for doc_id, _ in changed.search("zeppelin", 3)] == ["tea"]
    assert [path.name for path in kept(surroundings)] == sorted(builds[1:])


def test_a_flipped_bit_in_each_file_is_noticed(surroundings: Path, builds: list[str]) -> None:
    data = corpus()
    right = open_bm25(data).search("brewed water", 5)
    (folder,) = kept(surroundings)
    for count, path in enumerate(sorted(folder.iterdir()), 2):
        status = path.stat()
        flip(path)
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
        assert open_bm25(data).search("brewed water", 5) == right
        assert len(builds) == count, path.name


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

    data = Dataset("test", Ends({one.id: one for one in DOCUMENTS}), {}, {})
    data.__dict__["corpus_fingerprint"] = corpus().corpus_fingerprint
    with pytest.raises(KeyboardInterrupt):
        open_bm25(data)
    assert kept(surroundings) == []
    assert open_bm25(corpus()).search("saffron", 1)[0][0] == "soup"


@pytest.mark.parametrize("why", ["File exists", "No space left on device"])
def test_an_index_that_cannot_be_kept_is_built_in_memory(
    surroundings: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, why: str
) -> None:
    if why == "File exists":
        surroundings.mkdir()
        (surroundings / "bm25").write_text("in the way")
    else:  # whoever writes into a mapped file without room is killed: it is asked for first
        full = Mock(side_effect=OSError(errno.ENOSPC, why))
        monkeypatch.setattr(os, "posix_fallocate", full, raising=False)
    assert open_bm25(corpus()).search("saffron", 1)[0][0] == "soup"
    assert why in caplog.text
    assert "it is built in memory" in caplog.text
    assert str(surroundings) not in caplog.text
    assert kept(surroundings) == []


def test_few_or_private_are_not_kept(surroundings: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASSAY_PRIVATE", "1")
    open_bm25(corpus())
    monkeypatch.delenv("ASSAY_PRIVATE")
    monkeypatch.setattr(bm25, "KEPT_FROM", len(DOCUMENTS) + 1)
    open_bm25(corpus())
    assert not (surroundings / "bm25").exists()
