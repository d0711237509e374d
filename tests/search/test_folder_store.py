"""The index in a folder: processes, damage, a full disk, and what is kept by the engine."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections import namedtuple
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from qdrant_edge import HnswIndexConfig
from tests.search.samples import DOCUMENTS, WordEmbedder

from assay.data import Document
from assay.errors import SearchError
from assay.search import edge_engine, folder_store
from assay.search.embedding import VectorCache
from assay.search.folder_store import FolderStore
from assay.search.index import build_index, open_index
from assay.search.index_files import live_generation, read_manifest, seal
from assay.search.modes import ZERO_SHOT_MODES

# A process that embeds a little, says so, and then waits to be killed.
KILLED = """
import sys
from pathlib import Path
from assay.search import embedding
from assay.search.folder_store import FolderStore
from assay.search.index import build_index
from tests.search.samples import DOCUMENTS, WordEmbedder

embedding.TEXTS_UNTIL_SAVED = 2

class Waiting(WordEmbedder):
    def embed(self, texts, progress=lambda *_: None):
        if len(self.seen) >= 4:
            print("halfway", flush=True)
            sys.stdin.read()
        return super().embed(texts, progress)

build_index(DOCUMENTS, Waiting(), FolderStore(Path(sys.argv[1]), "test"))
"""

SEARCHING = """
import sys
from pathlib import Path
from assay.search.folder_store import FolderStore
from assay.search.index import open_index
from tests.search.samples import WordEmbedder

with open_index(FolderStore(Path(sys.argv[1]), "test"), WordEmbedder()) as retriever:
    print(retriever.search("green tea", 1)[0].doc_id, flush=True)
    sys.stdin.read()
    print(retriever.search("green tea", 1)[0].doc_id, flush=True)
"""


_LISTINGS = ("segment.json", "points.json")

Damage = Callable[[Path], None]


def start(code: str, folder: Path) -> "subprocess.Popen[str]":
    root = str(Path(__file__).parents[2])
    return subprocess.Popen(
        [sys.executable, "-c", code, str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=root,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([root, *sys.path])},
    )


def line_of(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "index"


@pytest.fixture
def store(folder: Path) -> FolderStore:
    return FolderStore(folder, "test")


@pytest.fixture(params=["arrays", "engine"])
def either(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """How an index is kept."""
    if request.param == "engine":
        monkeypatch.setattr(folder_store, "FLAT_KB", 0)
    return str(request.param)


def generations(folder: Path) -> list[Path]:
    return [path for path in (folder / "test").iterdir() if path.is_dir()]


def test_a_killed_build_is_taken_up_where_it_was(
    folder: Path, store: FolderStore, embedder: WordEmbedder
) -> None:
    with start(KILLED, folder) as process:
        assert line_of(process) == "halfway"
        process.send_signal(signal.SIGKILL)
    assert store.manifest() is None
    report = build_index(DOCUMENTS, embedder, store)
    assert report.added == len(DOCUMENTS)
    whole = WordEmbedder()
    build_index(DOCUMENTS, whole, FolderStore(folder, "other"), cache=VectorCache(folder / "new"))
    assert len(embedder.seen) == len(whole.seen) - 4
    assert len(generations(folder)) == 1  # what the killed process left is gone


def test_a_killed_build_leaves_the_old_index_as_it_was(
    folder: Path, store: FolderStore, embedder: WordEmbedder
) -> None:
    build_index(DOCUMENTS[:1], WordEmbedder(), store)
    before = store.manifest()
    with start(KILLED, folder) as process:
        assert line_of(process) == "halfway"
        process.kill()
    assert store.manifest() == before
    with open_index(store, embedder) as retriever:
        assert [hit.doc_id for hit in retriever.search("tea")] == ["tea"]


@pytest.mark.usefixtures("either")
def test_several_processes_search_one_index_while_it_is_replaced(
    folder: Path, store: FolderStore, embedder: WordEmbedder
) -> None:
    build_index(DOCUMENTS, embedder, store)
    with start(SEARCHING, folder) as one, start(SEARCHING, folder) as two:
        assert line_of(one) == line_of(two) == "tea"
        build_index(DOCUMENTS[1:], embedder, store)
        for process in (one, two):  # on the index that they opened, which is gone from the folder
            assert process.communicate("")[0] == "tea\n"
            assert process.returncode == 0
    assert len(generations(folder)) == 1


def test_a_second_builder_waits_for_the_first_and_then_has_nothing_to_do(
    folder: Path, store: FolderStore, embedder: WordEmbedder
) -> None:
    told: list[str] = []
    with start(KILLED, folder) as process:
        assert line_of(process) == "halfway"

        def progress(what: str, _done: int, _total: int | None) -> None:
            told.append(what)
            if what.startswith("waiting") and process.stdin and not process.stdin.closed:
                process.stdin.close()  # lets the first one go on

        report = build_index(DOCUMENTS, embedder, store, progress)
        assert process.wait() == 0
    assert told[0] == f"waiting for process {process.pid}, which is building this index"
    assert (report.added, report.unchanged) == (0, len(DOCUMENTS))
    assert embedder.seen == []


def _cut_short(generation: Path) -> None:
    files = [path for path in generation.rglob("*") if path.suffix in (".dat", ".npy")]
    os.truncate(max(files, key=lambda one: one.stat().st_size), 10)


def _listing(generation: Path) -> Path:
    return next(path for path in generation.rglob("*") if path.name in _LISTINGS)


def _remove_a_file(generation: Path) -> None:
    _listing(generation).unlink()


def _scramble(generation: Path) -> None:
    path = _listing(generation)
    path.write_bytes(b"\xff" * path.stat().st_size)


def _empty_manifest(generation: Path) -> None:
    (generation / "manifest.json").write_text("")


def _other_manifest(generation: Path) -> None:
    (generation / "manifest.json").write_text('{"manifest": {"corpus": 1}, "sizes": {}}')


def _no_files(generation: Path) -> None:
    shutil.rmtree(generation)


@pytest.mark.parametrize(
    "damage",
    [_cut_short, _remove_a_file, _scramble, _empty_manifest, _other_manifest, _no_files],
)
@pytest.mark.usefixtures("either")
def test_a_damaged_index_is_told_and_mended_by_building_again(
    folder: Path, store: FolderStore, embedder: WordEmbedder, damage: Damage
) -> None:
    build_index(DOCUMENTS, embedder, store)
    damage(generations(folder)[0])
    with pytest.raises(SearchError, match="rebuild it with: assay index"):
        open_index(store, embedder)
    embedder.seen.clear()
    changed = [replace(DOCUMENTS[0], text="Tea is steeped."), *DOCUMENTS[1:]]
    build_index(changed, embedder, store)
    assert embedder.seen == ["Green tea Tea is steeped."]
    with open_index(store, embedder) as retriever:
        assert len(retriever.search("water", 10)) == len(DOCUMENTS)


@pytest.mark.parametrize("damage", [_cut_short, _scramble])
@pytest.mark.usefixtures("either")
def test_the_same_documents_mend_a_damaged_index_too(
    folder: Path, store: FolderStore, embedder: WordEmbedder, damage: Damage
) -> None:
    build_index(DOCUMENTS, embedder, store)
    damage(generations(folder)[0])
    build_index(DOCUMENTS, embedder, store)
    with open_index(store, embedder) as retriever:
        assert len(retriever.search("water", 10)) == len(DOCUMENTS)


def test_a_pointer_to_nothing_is_no_index(
    folder: Path, store: FolderStore, embedder: WordEmbedder
) -> None:
    build_index(DOCUMENTS, embedder, store)
    (folder / "test" / "current").write_text("../../elsewhere")
    with pytest.raises(SearchError, match="there is no index"):
        open_index(store, embedder)


@pytest.mark.usefixtures("either")
def test_a_disk_that_is_nearly_full_is_refused_before_anything_is_lost(
    folder: Path,
    store: FolderStore,
    embedder: WordEmbedder,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    build_index(DOCUMENTS[:4], embedder, store)
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: usage(1 << 30, 1 << 30, 1 << 20))
    with pytest.raises(SearchError, match=r"1 MB free.*intact.*QDRANT_PATH"):
        build_index(DOCUMENTS, embedder, store)
    monkeypatch.undo()
    with open_index(store, embedder) as retriever:
        assert len(retriever.search("water", 10)) == 4
    assert len(generations(folder)) == 1


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path, embedder: WordEmbedder) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SearchError, match="QDRANT_PATH"):
        build_index(DOCUMENTS, embedder, FolderStore(tmp_path / "file", "test"))


@pytest.mark.parametrize("other", [3, 5])
def test_an_index_of_another_version_is_built_again_with_one_line_that_says_why(
    tmp_path: Path, embedder: WordEmbedder, caplog: pytest.LogCaptureFixture, other: int
) -> None:
    store = FolderStore(tmp_path, "test")
    build_index(DOCUMENTS, embedder, store)
    generation = live_generation(tmp_path / "test")
    assert generation is not None
    seal(generation, read_manifest(generation) | {"format": other})
    with pytest.raises(SearchError, match=rf"format {other}, not 4\); rebuild it"):
        open_index(store, embedder)
    assert build_index(DOCUMENTS, embedder, store).added == len(DOCUMENTS)
    (told,) = caplog.messages
    assert "made by another version of Assay" in told
    with open_index(store, embedder) as retriever:
        assert retriever.search("green tea", mode="bm25")[0].doc_id == "tea"


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX permissions")
def test_an_index_is_readable_by_its_owner_alone(tmp_path: Path) -> None:
    """It holds the texts of documents, those that RAG_INGEST took included."""
    build_index(DOCUMENTS, WordEmbedder(), FolderStore(tmp_path, "test"))
    assert (tmp_path / "test").stat().st_mode & 0o077 == 0
    files = [path for path in (tmp_path / "test").rglob("*") if path.is_file()]
    assert {path.stat().st_mode & 0o777 for path in files} == {0o600}


def test_a_large_index_is_made_of_segments_and_finds_what_one_list_finds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In segments, by copies of 4 bits; scores are those of the whole vectors."""
    documents = [Document(f"d{n}", "", f"tea {n % 7} water {n % 5} kettle {n}") for n in range(60)]
    embedder = WordEmbedder()
    monkeypatch.setattr(folder_store, "FLAT_KB", 10)
    build_index(documents, embedder, FolderStore(tmp_path, "list"))
    monkeypatch.setattr(edge_engine, "FLAT_KB", 10)
    monkeypatch.setattr(edge_engine, "_SEGMENT_KB", 40)
    monkeypatch.setattr(edge_engine, "_POINTS_IN_A_CALL", 10)
    build_index(documents[:50], embedder, FolderStore(tmp_path, "segments"))
    build_index(documents, embedder, FolderStore(tmp_path, "segments"))
    found = {}
    for name in ("list", "segments"):
        with open_index(FolderStore(tmp_path, name), embedder) as retriever:
            found[name] = [
                [(hit.doc_id, round(hit.score, 6)) for hit in retriever.search(query, 8, mode=mode)]
                for query in ("tea 3 kettle 17", "water 2")
                for mode in ZERO_SHOT_MODES
            ]
            shard = retriever._searcher._shard  # type: ignore[attr-defined]
            # Besides those with copies, there is one for points to come.
            assert (shard.info().segments_count > 2) == (name == "segments")
    assert found["segments"] == found["list"]


def test_an_index_with_graphs_of_an_earlier_version_loses_them_when_it_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def neighbors() -> set[int]:
        files = tmp_path.rglob("hnsw_config.json")
        return {json.loads(path.read_text(encoding="utf-8"))["m"] for path in files}

    documents = [Document(f"d{n}", "", f"tea {n % 7} kettle {n}") for n in range(60)]
    store, embedder = FolderStore(tmp_path, "test"), WordEmbedder()
    monkeypatch.setattr(folder_store, "FLAT_KB", 10)
    monkeypatch.setattr(edge_engine, "FLAT_KB", 10)
    with monkeypatch.context() as earlier:
        earlier.setattr(edge_engine, "_NO_GRAPH", HnswIndexConfig(16, 64, 1))
        build_index(documents[:50], embedder, store)
    assert neighbors() == {16}
    build_index(documents, embedder, store)
    assert neighbors() == {0}
    with open_index(store, embedder) as retriever:
        assert retriever.search("kettle 55", 1)[0].doc_id == "d55"
        assert retriever.search("kettle 5", 1)[0].doc_id == "d5"
