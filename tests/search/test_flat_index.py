"""A small index, kept as arrays, finds what the engine finds."""

import json
import shutil
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from tests.search.samples import DOCUMENTS, WordEmbedder

from assay.data import Document
from assay.search import flat_index, folder_store
from assay.search.edge_engine import EdgeSearcher
from assay.search.filters import conditions
from assay.search.flat_index import (
    FOLDER,
    FlatIndex,
    FlatPoint,
    _is_payload,
    _read_table,
    write_flat,
)
from assay.search.folder_store import FolderStore
from assay.search.index import build_index, open_index
from assay.search.index_files import live_generation, read_manifest, seal
from assay.search.modes import ZERO_SHOT_MODES
from assay.search.postings import best_rows
from assay.search.retriever import Retriever
from assay.search.store import FLAT_KB, DamagedIndexError, Manifest, Point, point_id

QUERIES = ("green tea", "brewed from water", "saffron", "onions and yeast", "nothing of it")


# Conditions, each of them alone; and documents whose metadata they are about.
FILTERS: tuple[dict[str, object], ...] = (
    {"year": 2020},
    {"year": [2019, 2021]},
    {"year": {"gte": 2020, "lt": 2021.5}},
    {"year": 2020.0},
    {"year": True},
    {"tags": "hot"},
    {"tags": {"gt": 3}},
    {"done": True},
    {"done": 1},
    {"absent": "x"},
    {"a.b": "c"},
    {"at": {"gte": "2024-01-31"}},
    {"at": {"gt": "2024-01-31", "lt": "2024-02-01T12:30:00+01:00"}},
    {"at": {"lte": "2024-01-31 00:00"}},
    {"year": {"gte": "2020-01-01"}},
)
METADATA: tuple[dict[str, object], ...] = (
    {"year": 2020, "tags": ["hot", "sweet"], "done": True},
    {"year": 2020.0, "tags": [1, 5], "done": 1},
    {"year": "2020", "tags": "hot", "done": "true"},
    {"year": 2021, "tags": [], "a.b": "c", "a": {"b": "d"}},
    {"year": None, "tags": [[5]], "done": False},
    {},
    {"at": "2024-01-31", "year": 2024},
    {"at": "2024-02-01T11:29:59.5Z"},
    {"at": ["2023-12-31 08:15", "2024-02-01T11:30:00Z"]},
    {"at": "2024-02-31"},
    {"at": "31 January 2024"},
)
DESCRIBED = [
    Document(f"d{number}", "", f"tea number {number}", metadata)
    for number, metadata in enumerate(METADATA)
]


def kept(
    folder: Path, documents: Sequence[Document], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Retriever]:
    """The same documents as arrays and by the engine."""
    for name, most in (("arrays", FLAT_KB), ("engine", 0)):
        monkeypatch.setattr(folder_store, "FLAT_KB", most)
        build_index(documents, WordEmbedder(), FolderStore(folder, name))
        with open_index(FolderStore(folder, name), WordEmbedder()) as opened:
            assert isinstance(opened._searcher, FlatIndex if most else EdgeSearcher)
            yield opened


@pytest.fixture
def retriever(tmp_path: Path) -> Iterator[Retriever]:
    build_index(DOCUMENTS, WordEmbedder(), FolderStore(tmp_path, "test"))
    with open_index(FolderStore(tmp_path, "test"), WordEmbedder()) as opened:
        yield opened


def searcher_of(retriever: Retriever) -> FlatIndex:
    searcher = retriever._searcher
    assert isinstance(searcher, FlatIndex)
    return searcher


def found(retriever: Retriever, **wanted: Any) -> list[dict[str, tuple[float, int, str]]]:
    """By document: two cosines that are equal but for the last bit may stand either way."""
    hits = [
        retriever.search(query, 5, mode=mode, **wanted)
        for query in QUERIES
        for mode in ZERO_SHOT_MODES
    ]
    return [
        {hit.doc_id: (round(hit.score, 5), hit.chunk_index, hit.text) for hit in each}
        for each in hits
    ]


def test_every_mode_finds_what_the_engine_finds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arrays, engine = (
        (found(each), [parts.terms for _, parts in each.explain("green tea", 3, mode="bm25")])
        for each in kept(tmp_path, DOCUMENTS, monkeypatch)
    )
    assert arrays == engine
    assert any(arrays[0])


def test_conditions_are_met_by_the_same_documents_as_in_the_engine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = [point_id(one.id, 0) for one in DESCRIBED]
    arrays, engine = (
        [
            (
                filters,
                {hit.doc_id for hit in each.search("tea", 9, filters=filters, mode="dense")},
                {hit.doc_id for hit in each.search("tea", 9, filters=filters, mode="bm25")},
                each._searcher.matching(ids, conditions(filters)),
            )
            for filters in FILTERS
        ]
        for each in kept(tmp_path, DESCRIBED, monkeypatch)
    )
    assert arrays == engine
    assert [near for _, near, _, _ in arrays[:3]] == [{"d0"}, {"d3"}, {"d0", "d1", "d3"}]
    assert [near for _, near, _, _ in arrays[-4:-1]] == [{"d6", "d7", "d8"}, {"d7"}, {"d6", "d8"}]


def test_documents_that_another_signal_found_are_scored(retriever: Retriever) -> None:
    candidates, words = searcher_of(retriever).candidates(), retriever._bm25.query("water")
    named = ["tea", "gone", "coffee", "beer"]
    near = candidates.dense_of(named, WordEmbedder().embed(["beer"])[0])
    assert sorted(near, key=lambda one: -near[one])[0] == "beer"
    assert near.keys() == {"beer", "coffee", "tea"}
    assert candidates.best_chunks(named) == {"tea": 0, "coffee": 0, "beer": 0}
    # Coffee has not the word.
    assert candidates.lexical_of(named, words).keys() == {"beer", "tea"}
    assert candidates.dense_of([], WordEmbedder().embed(["beer"])[0]) == {}


def test_a_few_documents_are_scored_as_among_all(tmp_path: Path) -> None:
    """Of these alone, chunks are read; a search with the same vector reads all of them."""
    long = "Tea. " * 300 + "Saffron is a spice. " * 100
    some = [
        Document("long", "", long),
        *(Document(f"d{one}", "", f"tea {one}") for one in range(30)),
    ]
    build_index(some, WordEmbedder(), FolderStore(tmp_path, "test"))
    (vector,) = WordEmbedder().embed(["saffron"])
    with closing(FolderStore(tmp_path, "test").open()) as searcher:
        few, every = searcher.candidates(), searcher.candidates()
        alone = few.dense_of(["long", "gone"], vector)
        chunk = few.best_chunks(["long"])
        assert few.dense(vector) == every.dense(vector)
        assert alone == {"long": every.dense(vector)["long"]}
        assert chunk == every.best_chunks(["long"])
        assert chunk["long"] > 0


def test_each_vector_and_each_query_has_scores_of_its_own(retriever: Retriever) -> None:
    candidates, model = searcher_of(retriever).candidates(), retriever._bm25
    for text in ("beer", "saffron", "beer"):
        (vector,) = WordEmbedder().embed([text])
        first = next(iter(candidates.dense(vector)))
        assert first == next(iter(candidates.lexical(model.query(text))))
        assert candidates.vectors([first])[first] == pytest.approx(
            searcher_of(retriever)
            .fetch([point_id(first, candidates.best_chunks([first])[first])], vectors=True)[0]
            .dense
        )
    assert candidates.chunks_of("soup") > candidates.best_chunks(["soup"])["soup"] > 0
    (stored,) = searcher_of(retriever).fetch([point_id("soup", 0)])
    assert candidates.chunks_of("soup") == stored.payload["total_chunks"]
    assert not stored.dense


def test_best_come_first_and_equals_in_the_order_of_documents(tmp_path: Path) -> None:
    same = [Document(f"d{number:02}", "", "tea") for number in range(30, 0, -1)]
    build_index(same, WordEmbedder(), FolderStore(tmp_path, "test"))
    with open_index(FolderStore(tmp_path, "test"), WordEmbedder()) as opened:
        found = searcher_of(opened).candidates().lexical(opened._bm25.query("tea"), 4)
    assert list(found) == ["d01", "d02", "d03", "d04"]


def test_a_changed_index_has_its_own(tmp_path: Path) -> None:
    store = FolderStore(tmp_path, "test")
    build_index(DOCUMENTS, WordEmbedder(), store)
    new = Document("mate", "Mate", "Mate is drunk through a straw.")
    build_index([*DOCUMENTS[1:], new], WordEmbedder(), store)
    with open_index(store, WordEmbedder()) as opened:
        for mode in ZERO_SHOT_MODES:
            assert opened.search("mate straw", 5, mode=mode)[0].doc_id == "mate"
            assert "tea" not in {hit.doc_id for hit in opened.search("green tea", 5, mode=mode)}


def test_an_index_that_grows_goes_to_the_engine_and_comes_back_when_it_shrinks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = FolderStore(tmp_path, "test")
    build_index(DOCUMENTS[:2], WordEmbedder(), store)
    (generation,) = (tmp_path / "test").glob(f"*/{FOLDER}")
    assert FlatIndex.is_in(generation.parent)
    monkeypatch.setattr(folder_store, "FLAT_KB", 6)  # three vectors of 2 KB
    build_index(DOCUMENTS, WordEmbedder(), store)
    assert not list((tmp_path / "test").glob(f"*/{FOLDER}"))
    with open_index(store, WordEmbedder()) as opened:
        assert opened.search("green tea", 1)[0].doc_id == "tea"
        assert len(opened.search("water", 10)) == len(DOCUMENTS)
    build_index(DOCUMENTS[:2], WordEmbedder(), store)
    files = [path.name for path in (tmp_path / "test").glob("*/*")]
    assert sorted(files) == [FOLDER, "manifest.json"]  # nothing of the engine beside them
    with open_index(store, WordEmbedder()) as opened:
        assert [hit.doc_id for hit in opened.search("green tea")] == ["tea", "coffee"]


@pytest.mark.parametrize("count", [1, 3, 500, 1000])
def test_of_equal_scores_at_the_end_of_a_list_the_lower_rows_stay(count: int) -> None:
    scores = np.random.default_rng(1).integers(0, 3, 800).astype(np.float32)
    expected = sorted(range(800), key=lambda row: (-scores[row], row))[:count]
    assert best_rows(scores, count).tolist() == expected


def test_an_index_of_an_earlier_version_is_opened_by_the_engine_until_it_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It had the engine's files, and arrays without payloads."""
    store = FolderStore(tmp_path, "test")
    build_index(DOCUMENTS[:3], WordEmbedder(), store)
    (arrays,) = (tmp_path / "test").glob(f"*/{FOLDER}")
    shutil.copytree(arrays, tmp_path / "arrays")
    with monkeypatch.context() as earlier:
        earlier.setattr(folder_store, "FLAT_KB", 0)
        build_index(DOCUMENTS[:4], WordEmbedder(), store)
    generation = live_generation(tmp_path / "test")
    assert generation is not None
    shutil.copytree(tmp_path / "arrays", generation / FOLDER)
    (generation / FOLDER / "payloads.npy").unlink()
    seal(generation, read_manifest(generation))
    with closing(store.open()) as searcher:
        assert isinstance(searcher, EdgeSearcher)
        assert len(list(searcher.entries())) == 4
    build_index(DOCUMENTS, WordEmbedder(), store)
    with closing(store.open()) as searcher:
        assert isinstance(searcher, FlatIndex)
        assert {doc_id for doc_id, _, _ in searcher.entries()} == {one.id for one in DOCUMENTS}


def test_a_generation_is_written_again_as_it_was(tmp_path: Path) -> None:
    build_index(DOCUMENTS, WordEmbedder(), FolderStore(tmp_path, "test"))
    with closing(FolderStore(tmp_path, "test").open()) as searcher:
        assert isinstance(searcher, FlatIndex)
        write_flat(tmp_path, searcher.points(), WordEmbedder().dimension)
    (first,) = (tmp_path / "test").glob(f"*/{FOLDER}")
    names = sorted(path.name for path in first.iterdir())
    assert len(names) == 8
    for name in names:
        assert (tmp_path / FOLDER / name).read_bytes() == (first / name).read_bytes(), name


def test_a_small_index_has_a_size_and_needs_no_more_room_than_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build_index(DOCUMENTS, WordEmbedder(), FolderStore(tmp_path, "test"))
    (folder,) = (tmp_path / "test").glob(f"*/{FOLDER}")
    generation = folder.parent
    with closing(FolderStore(tmp_path, "test").open()) as searcher:
        assert isinstance(searcher, FlatIndex)
        points, manifest = list(searcher.points()), searcher.manifest
    needed = sum(one.size for one in points)
    written = sum(path.stat().st_size for path in folder.iterdir())
    spare = needed - written + 7 * 128  # the headers of arrays
    assert 50 < spare / len(points) < 150
    vectors = len(points) * manifest.dimension * 4
    for name, most in (("FLAT_KB", vectors / 1024), ("_MAX_BYTES", vectors)):
        with monkeypatch.context() as patch:
            patch.setattr(flat_index, name, most)
            FlatIndex(generation, manifest)
            patch.setattr(flat_index, name, most * 0.9999)
            with pytest.raises(DamagedIndexError, match="larger than a small index can be"):
                FlatIndex(generation, manifest)


def test_vectors_get_the_length_1(tmp_path: Path) -> None:
    vectors = np.array([[3, 4], [0.6, 0.8], [0, 0], [0.3, 0.4]], np.float32)
    payload = {"doc_id": "d", "chunk_index": 0, "total_chunks": 1}
    points = [
        FlatPoint.of(Point(str(row), vector, None, {**payload, "doc_id": f"d{row}"}))  # type: ignore[typeddict-item]
        for row, vector in enumerate(vectors)
    ]
    for _ in range(2):  # what is there is written over
        write_flat(tmp_path, points, 2)
    kept = np.load(tmp_path / FOLDER / "vectors.npy")
    assert kept[0] == pytest.approx([0.6, 0.8])
    assert kept[1:3].tolist() == vectors[1:3].tolist()
    assert kept[3] == pytest.approx([0.6, 0.8])


@pytest.mark.parametrize(
    "table", ["x", {}, [1], [["a", "b", 0]], [["a", "b", 0, 1, 2]], [["a", "b", "0", 1]]]
)
def test_a_table_of_anything_but_chunks_is_refused(table: object, tmp_path: Path) -> None:
    path = tmp_path / "points.json"
    path.write_text(json.dumps(table))
    with pytest.raises(ValueError, match="does not list chunks"):
        _read_table(path)
    path.write_text(json.dumps([["id", "doc", 0, 1]]))
    assert _read_table(path) == [("id", "doc", 0, 1)]
    assert not _is_payload({})


@pytest.mark.parametrize(
    "table",
    [
        [["0", "a", 0, 2], ["1", "b", 0, 1]],
        [["0", "a", 1, 1], ["1", "b", 0, 1]],
        [["0", "b", 0, 1], ["1", "a", 0, 1]],
    ],
)
def test_a_table_that_is_not_in_the_order_of_chunks_is_refused(table: Any, tmp_path: Path) -> None:
    vector, manifest = np.array([1, 0], np.float32), cast("Manifest", SimpleNamespace(dimension=2))
    points = [FlatPoint(str(row), doc, 0, 1, vector, None, b"{}") for row, doc in enumerate("ab")]
    write_flat(tmp_path, points, 2)
    FlatIndex(tmp_path, manifest)
    (tmp_path / FOLDER / "points.json").write_text(json.dumps(table))
    with pytest.raises(DamagedIndexError, match="its chunks are not in order"):
        FlatIndex(tmp_path, manifest)


def test_texts_are_the_same_dates_as_to_the_engine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    zones = ("", "Z", "z", "+05:30", "-0100", "+01")
    times = ("T10:00", " 10:00", "T10:00:00", "t10:00:00.5", " 10:00:00.123456789", "T24:00:00")
    dates = ["2024-01-01", "2024-01", "20240101", "2024-02-30"]
    dates += [f"2024-01-01{time}{zone}" for time in times for zone in zones]
    described = [Document(f"d{n}", "", "tea", {"date": date}) for n, date in enumerate(dates)]
    filters = ({"gte": "1990-01-01"}, {"lt": "2024-01-01T10:00:00.2"})
    arrays, engine = (
        [
            {hit.doc_id for hit in each.search("tea", 90, filters={"date": wanted}, mode="bm25")}
            for wanted in filters
        ]
        for each in kept(tmp_path, described, monkeypatch)
    )
    assert arrays == engine
    assert 9 < len(arrays[1]) < len(arrays[0]) < len(dates)
