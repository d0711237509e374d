"""One flipped bit in each file of an index and its caches: the same results, or a clear error.

The engine runs in a process of its own, since it ends the process when it meets damage that it did
not expect; here it must never meet any.
"""

import json
import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tests.search.samples import DOCUMENTS, WordEmbedder
from typer.testing import CliRunner

from assay.cli.app import app
from assay.errors import SearchError
from assay.search import index_files
from assay.search.embedding import VectorCache
from assay.search.folder_store import FolderStore
from assay.search.index import build_index
from assay.search.index_files import check_files, live_generation
from assay.search.integrity import check_kept_files
from assay.search.store import DamagedIndexError

ROOT = Path(__file__).parents[2]

# Opens the index, flips a bit in a file, and asks again: one line of JSON for each kind of file.
WORKER = """
import json, os, sys
from pathlib import Path
import numpy as np
from tests.search.samples import DOCUMENTS, WordEmbedder
from assay.errors import SearchError
from assay.search import folder_store
from assay.search.folder_store import FolderStore
from assay.search.index import build_index, open_index
from assay.search.index_files import live_generation

home = Path(sys.argv[1])
folder_store.FLAT_KB = int(sys.argv[2])

def found():
    with open_index(FolderStore(home, "test"), WordEmbedder()) as retriever:
        return [
            [(hit.doc_id, round(hit.score, 6)) for hit in retriever.search(query, 5, mode=mode)]
            for query in ("brewed water", "saffron") for mode in ("bm25", "dense", "hybrid")
        ]

build_index(DOCUMENTS, WordEmbedder(), FolderStore(home, "test"))
right = found()
kinds = sorted({path.name for path in live_generation(home / "test").rglob("*") if path.is_file()})
for name in [*kinds, "current"]:
    path = next((home / "test").rglob(name))
    status = path.stat()
    written = np.flatnonzero(np.fromfile(path, np.uint8))
    place = int(written[len(written) // 2]) if len(written) else 0
    with path.open("r+b") as file:
        file.seek(place)
        (byte,) = file.read(1)
        file.seek(place)
        file.write(bytes([byte ^ 1 << place % 8]))
    # A disk that fails changes no time.
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    try:
        found()
        noticed = ""
    except SearchError as error:
        noticed = str(error)
    build_index(DOCUMENTS, WordEmbedder(), FolderStore(home, "test"))
    print(json.dumps([name, noticed, found() == right]), flush=True)
"""


@pytest.mark.parametrize(("flat_kb", "kinds"), [(20_000, 9), (0, 14)], ids=["arrays", "engine"])
def test_a_flipped_bit_in_each_kind_of_file_of_an_index_is_noticed_and_mended(
    tmp_path: Path, flat_kb: int, kinds: int
) -> None:
    run = subprocess.run(
        [sys.executable, "-c", WORKER, str(tmp_path / "index"), str(flat_kb)],
        capture_output=True,
        text=True,
        timeout=100,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"},
    )
    assert run.returncode == 0, run.stderr[-2000:]
    outcomes = [json.loads(line) for line in run.stdout.splitlines()]
    assert len(outcomes) > kinds, "each kind of file is one line"
    for name, noticed, same in outcomes:
        assert "rebuild it with: assay index" in noticed or "there is no index" in noticed, name
        assert same, name
    assert "panicked" not in run.stderr
    mended = [line for line in run.stderr.splitlines() if "it is rebuilt, with vectors" in line]
    assert len(mended) >= len(outcomes) - 1, "a damaged pointer is an index that is not there"


def _flip(path: Path, place: int) -> None:
    content = bytearray(path.read_bytes())
    content[place] ^= 1 << (place % 8)
    path.write_bytes(content)


def test_a_large_index_is_hashed_where_times_changed_and_entirely_on_demand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = FolderStore(tmp_path, "test")
    build_index(DOCUMENTS, WordEmbedder(), store)
    monkeypatch.setattr(index_files, "HASHED_WHEN_OPENED", 0)
    generation = live_generation(tmp_path / "test")
    assert generation is not None
    vectors = next(generation.rglob("vectors.npy"))
    status = vectors.stat()
    _flip(vectors, 100)
    os.utime(vectors, ns=(status.st_atime_ns, status.st_mtime_ns))
    check_files(generation)  # by size and time alone
    with pytest.raises(DamagedIndexError, match=r"vectors\.npy does not match its checksum"):
        check_files(generation, every=True)
    os.utime(vectors)
    with pytest.raises(DamagedIndexError, match=r"vectors\.npy does not match its checksum"):
        store.open()


def test_a_copied_index_is_hashed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A copy has other times: what was hashed gets the time that it was sealed with."""
    build_index(DOCUMENTS, WordEmbedder(), FolderStore(tmp_path, "test"))
    generation = live_generation(tmp_path / "test")
    assert generation is not None
    for path in generation.rglob("*"):
        os.utime(path)
    check_files(generation)

    def refuse(path: Path) -> str:
        raise AssertionError(f"{path} was hashed again")

    monkeypatch.setattr(index_files, "_file_hash", refuse)
    check_files(generation)


def test_a_flipped_bit_anywhere_in_the_vector_cache_changes_no_vector(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    texts = [f"text number {i}" for i in range(20)]
    right = WordEmbedder().embed(texts)
    path = tmp_path / "vectors.sqlite3"
    VectorCache(path).embed(texts, WordEmbedder())
    content = path.read_bytes()
    errors = []
    for place in range(0, len(content), max(1, len(content) // 100)):
        for leftover in tmp_path.glob("vectors*"):
            leftover.unlink()
        path.write_bytes(content)
        _flip(path, place)
        try:
            assert np.array_equal(VectorCache(path).embed(texts, WordEmbedder()), right), place
        except SearchError as error:
            errors.append(str(error))
    assert len(errors) <= 5
    assert all("vector cache" in error for error in errors)
    assert "vectors in the cache are damaged: they are computed again" in caplog.text


def test_doctor_finds_damage_in_all_that_is_kept(surroundings: Path) -> None:
    build_index(DOCUMENTS, WordEmbedder(), FolderStore(surroundings / "index", "test"))
    good = {one.what: one.damage for one in check_kept_files()}
    assert good["index test"] == good["vector cache"] == ""
    generation = live_generation(surroundings / "index" / "test")
    assert generation is not None
    _flip(next(generation.rglob("vectors.npy")), 100)
    with sqlite3.connect(surroundings / "vectors.sqlite3") as database:
        database.execute("UPDATE vectors SET vector = zeroblob(2048)")
    database.close()
    result = CliRunner().invoke(app, ["doctor", "--deep", "--json"])
    assert result.exit_code == 1
    found = json.loads(result.stdout)["kept_files"]
    assert "vectors.npy does not match its checksum" in found["index test"]
    assert "vectors do not match their checksums" in found["vector cache"]


def test_deep_is_about_the_installation() -> None:
    result = CliRunner().invoke(app, ["doctor", "http://127.0.0.1:9", "--deep"])
    assert result.exit_code != 0
    assert "pass it without a URL" in str(result.exception)


def test_doctor_goes_on_after_what_cannot_be_read(surroundings: Path) -> None:
    build_index(
        DOCUMENTS,
        WordEmbedder(),
        FolderStore(surroundings / "index", "test"),
        cache=VectorCache(surroundings / "other.sqlite3"),
    )
    os.mkfifo(surroundings / "vectors.sqlite3")
    (surroundings / "tuned").mkdir()
    (surroundings / "tuned" / "one.model").write_bytes(b"no model")
    found = {one.what: one.damage for one in check_kept_files()}
    assert found["vector cache"]
    assert found["tuned model one.model"]
    assert found["index test"] == ""
