"""An index that somebody else wrote: every checksum is right, and what it says is not.

It is refused as damaged, whatever is wrong with it: nothing of it is executed, nothing outside of
its folder is read or written, and building it again gives the right results.
"""

import base64
import io
import json
import os
import pickle
import re
import shutil
import zlib
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.search.samples import DOCUMENTS, WordEmbedder

from assay.errors import SearchError
from assay.net.json import JsonObject
from assay.search import index_files, postings
from assay.search.bm25 import Bm25Settings
from assay.search.bm25_index import Bm25Index
from assay.search.flat_index import FOLDER, FlatIndex
from assay.search.folder_store import FolderStore
from assay.search.index import build_index, open_index
from assay.search.index_files import live_generation, read_manifest, seal
from assay.search.store import DamagedIndexError

Array = Any
DEEP = "[" * 100_000


class _Attack:
    """Runs when it is unpickled."""

    def __reduce__(self) -> tuple[Callable[[str], None], tuple[str]]:
        return os.mkdir, ("executed",)


def array(name: str, change: Callable[[Array], Array]) -> Callable[[Path], object]:
    """Another array in the place of one of the index."""

    def damage(folder: Path) -> None:
        path = folder / f"{name}.npy"
        values = change(np.load(path).copy())
        np.save(path, values, allow_pickle=True)

    return damage


def content(name: str, value: bytes) -> Callable[[Path], object]:
    return lambda folder: (folder / name).write_bytes(value)


def table(change: Callable[[list[Any]], Any]) -> Callable[[Path], object]:
    def damage(folder: Path) -> None:
        path = folder / "points.json"
        path.write_text(json.dumps(change(json.loads(path.read_text()))))

    return damage


def payload(change: Callable[[bytes], bytes]) -> Callable[[Path], object]:
    """Other payloads, each of them changed."""

    def damage(folder: Path) -> None:
        values, ends = (np.load(folder / f"{name}.npy") for name in ("payloads", "payload_ends"))
        each = [change(one.tobytes()) for one in np.split(values, ends[:-1])]
        np.save(folder / "payloads.npy", np.frombuffer(b"".join(each), np.uint8))
        np.save(folder / "payload_ends.npy", np.cumsum([len(one) for one in each]))

    return damage


def put(place: int, value: float) -> Callable[[Array], Array]:
    def change(values: Array) -> Array:
        values.flat[place] = value
        return values

    return change


def header(words: str) -> bytes:
    """A file of an array whose header says this."""
    padded = words.ljust(-(-(len(words) + 11) // 64) * 64 - 11) + "\n"
    return b"\x93NUMPY\x01\x00" + len(padded).to_bytes(2, "little") + padded.encode()


def archived() -> bytes:
    stream = io.BytesIO()
    np.savez(stream, vectors=np.ones((9, 512), np.float32))
    return stream.getvalue()


HUGE = "{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000000, 512), }"
DAMAGES: dict[str, Callable[[Path], object]] = {
    "float64": array("vectors", lambda v: v.astype(np.float64)),
    "big-endian": array("vectors", lambda v: v.astype(">f4")),
    "Fortran order": array("vectors", np.asfortranarray),
    "one dimension": array("vectors", np.ravel),
    "other width": array("vectors", lambda v: v[:, :-1]),
    "fewer vectors": array("vectors", lambda v: v[:-1]),
    "more vectors": array("vectors", lambda v: np.concatenate([v, v])),
    "NaN": array("vectors", put(700, np.nan)),
    "infinity": array("vectors", put(700, np.inf)),
    "a pickle": array("vectors", lambda _: np.array([_Attack()] * 9, object)),
    "a bare pickle": content("vectors.npy", pickle.dumps(_Attack())),
    "an archive": content("vectors.npy", archived()),
    "an empty file": content("vectors.npy", b""),
    "a terabyte": content("vectors.npy", header(HUGE)),
    "a negative shape": content("vectors.npy", header(HUGE.replace("1000000000000", "-1"))),
    "a deep header": content("vectors.npy", header("-" * 9000 + "1")),
    "an open header": content("vectors.npy", header("(" * 150)),
    "a header of words": content("vectors.npy", header("{'descr': 'x', 'shape': 'y'}")),
    "terms in no order": array("terms", lambda v: v[::-1].copy()),
    "a term twice": array("terms", lambda v: np.repeat(v[:1], len(v))),
    "fewer terms": array("terms", lambda v: v[:-1]),
    "signed terms": array("terms", lambda v: v.astype(np.int32)),
    "ends beyond": array("ends", put(-1, 10**15)),
    "ends that fall": array("ends", put(0, 10**6)),
    "negative ends": array("ends", put(0, -5)),
    "rows beyond": array("rows", put(0, 2**32 - 1)),
    "fewer rows": array("rows", lambda v: v[:-1]),
    "all rows in one term": array("ends", lambda v: np.full_like(v, v[-1])),
    "weights NaN": array("weights", put(3, np.nan)),
    "payloads of texts": array("payloads", lambda v: v.astype("S1")),
    "payload ends beyond": array("payload_ends", put(-1, 10**12)),
    "payload ends that fall": array("payload_ends", put(0, 10**6)),
    "fewer payload ends": array("payload_ends", lambda v: v[:-1]),
    "points not JSON": content("points.json", b"[["),
    "points deep": content("points.json", DEEP.encode()),
    "points an object": table(lambda rows: {"points": rows}),
    "points without one": table(lambda rows: rows[:-1]),
    "points of numbers": table(lambda rows: [[1, *row[1:]] for row in rows]),
    "points of texts": table(lambda rows: [[*row[:3], "1"] for row in rows]),
    "points twice": table(lambda rows: [[rows[0][0], *row[1:]] for row in rows]),
    "points in no order": table(lambda rows: rows[::-1]),
    "other chunks": table(lambda rows: [[*row[:2], row[2] + 1, row[3]] for row in rows]),
    "endless chunks": table(lambda rows: [[*row[:3], 10**15] for row in rows]),
    "other documents": table(lambda rows: [[row[0], f"a{row[1]}", *row[2:]] for row in rows]),
    "payloads not JSON": payload(lambda _: b"{"),
    "payloads not UTF-8": payload(lambda _: b'{"\xff'),
    "payloads deep": payload(lambda _: DEEP.encode()),
    "payloads of lists": payload(lambda _: b"[]"),
    "payloads without a text": payload(lambda one: one.replace(b'"text"', b'"test"')),
    "payloads of numbers": payload(lambda one: re.sub(rb'"title": "[^"]*"', b'"title": 1', one)),
    "payloads with other ids": payload(lambda one: one.replace(b'"doc_id": "', b'"doc_id": "x')),
}


@pytest.fixture
def generation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    build_index(DOCUMENTS, WordEmbedder(), FolderStore(tmp_path, "test"))
    found = live_generation(tmp_path / "test")
    assert found is not None
    return found


def found(folder: Path) -> list[tuple[str, float]]:
    with open_index(FolderStore(folder, "test"), WordEmbedder()) as opened:
        hits = [opened.search("brewed water", 5, mode=mode) for mode in ("bm25", "dense", "hybrid")]
        opened.search("water", 5, filters={"year": 2020})
    return [(hit.doc_id, hit.score) for each in hits for hit in each]


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_what_does_not_fit_together_is_refused_and_built_again(
    generation: Path, tmp_path: Path, damage: Callable[[Path], object]
) -> None:
    right = found(tmp_path)
    damage(generation / FOLDER)
    seal(generation, read_manifest(generation))
    with pytest.raises(DamagedIndexError, match="rebuild it with: assay index"):
        found(tmp_path)
    build_index(DOCUMENTS, WordEmbedder(), FolderStore(tmp_path, "test"))
    assert found(tmp_path) == right
    assert not Path("executed").exists()


def test_damage_found_by_a_search_takes_back_that_generation_and_no_other(
    generation: Path, tmp_path: Path
) -> None:
    DAMAGES["payloads not JSON"](generation / FOLDER)
    seal(generation, read_manifest(generation))
    store = FolderStore(tmp_path, "test")
    manifest = store.manifest()
    assert manifest is not None
    with open_index(store, WordEmbedder()) as opened:
        named = (tmp_path / "test" / "current").read_bytes()
        with pytest.raises(DamagedIndexError):
            opened.search("brewed water", 5)
        assert (tmp_path / "test" / "current").read_bytes() == named  # a writer's, perhaps
    with pytest.raises(DamagedIndexError), store.writer(manifest, from_live=True):
        pass  # nothing is written onto it, and nothing is left out in silence


def reseal(generation: Path, change: Callable[[JsonObject], object]) -> None:
    """The manifest as somebody else would write it, with a checksum that fits."""
    path = generation / "manifest.json"
    whole = json.loads(path.read_text())
    change(whole)
    whole["sha256"] = index_files._content_hash(whole)
    path.write_text(json.dumps(whole))


LISTED: dict[str, Callable[[JsonObject], object]] = {
    "a file outside": lambda files: files.update({"../../kept": files["flat/vectors.npy"]}),
    "an absolute file": lambda files: files.update({"/etc/passwd": files["flat/vectors.npy"]}),
    "a NUL": lambda files: files.update({"a\0b": files["flat/vectors.npy"]}),
    "the folder": lambda files: files.update({"": files["flat/vectors.npy"]}),
    "a size of words": lambda files: files["flat/vectors.npy"].update(size="many"),
    "a time of words": lambda files: files["flat/vectors.npy"].update(modified_ns="now"),
    "a time of no calendar": lambda files: files["flat/vectors.npy"].update(
        modified_ns=2**62, size=1
    ),
    "a hash of numbers": lambda files: files["flat/vectors.npy"].update(sha256=1),
    "another field": lambda files: files["flat/vectors.npy"].update(mode=0o777),
    "no array": lambda files: files.pop("flat/vectors.npy"),
    "nothing": lambda files: files.clear(),
}
DESCRIBED: dict[str, Callable[[JsonObject], object]] = {
    "a dimension of words": lambda m: m.update(dimension="many"),
    "another dimension": lambda m: m.update(dimension=3),
    "documents of words": lambda m: m.update(documents=[5]),
    "no embedder": lambda m: m.update(embedder=None),
    "BM25 of a list": lambda m: m.update(bm25=[]),
    "an average of 0": lambda m: m["bm25"].update(average_length=0.0),
    "frequencies of numbers": lambda m: m["bm25"].update(frequencies=5),
    "a language of numbers": lambda m: m["bm25"].update(language=5),
    "an unknown language": lambda m: m["bm25"].update(language="klingon"),
    "a chosen language of numbers": lambda m: m["bm25"]["settings"].update(language=5),
    "stop words of numbers": lambda m: m["bm25"]["settings"].update(stop_words=5),
    "settings of a list": lambda m: m["bm25"].update(settings=[]),
    "a metric of a list": lambda m: m.update(metric=[]),
    "a metric of words": lambda m: m.update(
        metric={"documents": 1, "directions": "?", "kept": [1]}
    ),
    "a metric of another dimension": lambda m: m.update(
        metric={"documents": 1, "directions": "AAAA", "kept": [0.5]}
    ),
    "a metric that is no number": lambda m: m.update(
        metric={
            "documents": 1,
            "directions": base64.b64encode(np.full(512, np.inf, "<f2").tobytes()).decode(),
            "kept": [0.5],
        }
    ),
}


@pytest.mark.parametrize(
    ("part", "change"),
    [
        *(pytest.param("files", change, id=name) for name, change in LISTED.items()),
        *(pytest.param("manifest", change, id=name) for name, change in DESCRIBED.items()),
    ],
)
def test_a_manifest_that_lies_is_refused_and_touches_nothing_outside(
    generation: Path, tmp_path: Path, part: str, change: Callable[[JsonObject], object]
) -> None:
    right = found(tmp_path)
    (tmp_path / "kept").write_bytes((generation / FOLDER / "vectors.npy").read_bytes())
    os.utime(tmp_path / "kept", ns=(5, 5))
    reseal(generation, lambda whole: change(whole[part]))
    with pytest.raises(SearchError):
        found(tmp_path)
    build_index(DOCUMENTS, WordEmbedder(), FolderStore(tmp_path, "test"))
    assert found(tmp_path) == right
    kept = (tmp_path / "kept").stat()
    assert (kept.st_size > 1000, kept.st_mtime_ns) == (True, 5)


def test_a_link_in_the_place_of_a_file_is_refused(generation: Path, tmp_path: Path) -> None:
    path = generation / FOLDER / "vectors.npy"
    shutil.move(path, tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(DamagedIndexError, match="not a regular file"):
        found(tmp_path)


def test_frequencies_that_unpack_without_an_end_are_refused(
    generation: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert postings._MAX_UNPACKED <= 512 << 20
    monkeypatch.setattr(postings, "_MAX_UNPACKED", 1 << 20)
    text = base64.b64encode(zlib.compress(bytes(2 << 20))).decode()
    reseal(generation, lambda whole: whole["manifest"]["bm25"].update(frequencies=text))
    with pytest.raises(SearchError, match="term frequencies of the index are damaged"):
        found(tmp_path)


def test_frequencies_above_the_number_of_documents_are_refused(
    generation: Path, tmp_path: Path
) -> None:
    reseal(generation, lambda whole: whole["manifest"]["bm25"].update(documents=1))
    with pytest.raises(SearchError, match="more documents than there are"):
        found(tmp_path)


def test_a_large_index_takes_no_arrays_that_were_put_beside_it(
    generation: Path,
) -> None:
    reseal(generation, lambda whole: whole["files"].clear())
    assert (generation / FOLDER / "vectors.npy").is_file()
    assert not FlatIndex.is_in(generation)


POSTINGS = (
    *("terms in no order", "a term twice", "fewer terms", "signed terms", "ends beyond"),
    *("ends that fall", "negative ends", "rows beyond", "fewer rows", "all rows in one term"),
)
BM25_DAMAGES = {name: DAMAGES[name] for name in POSTINGS} | {
    "ids beyond": array("id_ends", put(-1, 10**12)),
    "fewer ids": array("id_ends", lambda v: v[:-1]),
    "wide weights": array("weights", lambda v: v.astype(np.float64)),
}


@pytest.mark.parametrize("damage", BM25_DAMAGES.values(), ids=BM25_DAMAGES)
def test_a_kept_bm25_index_that_does_not_fit_together_is_refused(
    tmp_path: Path, damage: Callable[[Path], object]
) -> None:
    index = Bm25Index(DOCUMENTS, Bm25Settings(), folder=tmp_path)
    damage(tmp_path)
    seal(tmp_path, {"bm25": asdict(index.weighting)})
    with pytest.raises(DamagedIndexError):
        Bm25Index.open(tmp_path)


@pytest.mark.parametrize(
    "damage",
    [array("rows", lambda v: v + 1000), array("ids", lambda v: v | 128)],
    ids=["rows", "ids"],
)
def test_a_bm25_index_too_large_to_be_read_when_it_is_opened_is_refused_when_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: Callable[[Path], object]
) -> None:
    index = Bm25Index(DOCUMENTS, Bm25Settings(), folder=tmp_path)
    damage(tmp_path)
    seal(tmp_path, {"bm25": asdict(index.weighting)})
    monkeypatch.setattr(index_files, "HASHED_WHEN_OPENED", 0)
    opened = Bm25Index.open(tmp_path)
    with pytest.raises(DamagedIndexError):
        opened.search("brewed water", 5)


def test_a_manifest_without_an_end_is_damage(generation: Path, tmp_path: Path) -> None:
    (generation / "manifest.json").write_text(DEEP)
    with pytest.raises(DamagedIndexError):
        found(tmp_path)
