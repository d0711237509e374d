"""`assay index --shard I/N` on several machines, and `assay merge` of the parts."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from tests.search.samples import DOCUMENTS, WordEmbedder, corpus, indexed

from assay.errors import SearchError
from assay.search.array_store import ArrayStore
from assay.search.bm25 import Bm25Settings
from assay.search.distributed_index import IndexPart, read_parts, take_vectors, write_part
from assay.search.embedding import EmbedderSettings, VectorCache
from assay.search.index import build_index


def _part(index: int, count: int) -> IndexPart:
    return IndexPart(index, count, "notes", "", "", EmbedderSettings(), Bm25Settings(), 0)


@pytest.fixture
def parts(tmp_path: Path) -> list[Path]:
    folders = [tmp_path / f"part-{index}" for index in range(3)]
    for index, folder in enumerate(folders):
        write_part(corpus(), _part(index, 3), WordEmbedder(), folder)
    return folders


def test_parts_make_the_same_index_without_embedding_again(
    parts: list[Path], tmp_path: Path, embedder: WordEmbedder
) -> None:
    whole = ArrayStore(tmp_path / "whole", "whole")
    build_index(corpus(), embedder, whole, cache=VectorCache(tmp_path / "whole.sqlite3"))
    cache = VectorCache(tmp_path / "merged.sqlite3")
    take_vectors(parts, cache)
    merging = WordEmbedder()
    merged = ArrayStore(tmp_path / "merged", "merged")
    build_index(corpus(), merging, merged, cache=cache)
    assert merging.seen == []
    assert sum(part.documents for part in read_parts(parts)) == len(DOCUMENTS)
    hits = [
        [(hit.doc_id, hit.score) for hit in indexed(store, embedder).search("tea bread")]
        for store in (whole, merged)
    ]
    assert hits[0] == hits[1]


def test_a_part_that_was_begun_is_not_embedded_again(parts: list[Path]) -> None:
    again = WordEmbedder()
    write_part(corpus(), _part(0, 3), again, parts[0])
    assert again.seen == []


def test_a_missing_part_is_named(parts: list[Path]) -> None:
    with pytest.raises(SearchError, match=r"missing parts of 3: 2; .*--shard 2/3"):
        read_parts([parts[0], parts[2]])


def test_a_part_that_is_there_twice_is_named(parts: list[Path], tmp_path: Path) -> None:
    shutil.copytree(parts[0], tmp_path / "copy")
    with pytest.raises(SearchError, match="are both part 1 of 3"):
        read_parts([*parts, tmp_path / "copy"])


def test_parts_of_other_data_do_not_fit(parts: list[Path], tmp_path: Path) -> None:
    write_part(corpus(DOCUMENTS[1:]), _part(1, 3), WordEmbedder(), tmp_path / "other")
    with pytest.raises(SearchError, match="not parts of one index: documents differ"):
        read_parts([parts[0], tmp_path / "other", parts[2]])


def test_parts_fit_wherever_the_data_and_the_model_were(parts: list[Path]) -> None:
    elsewhere = replace(
        _part(1, 3), dataset="/scratch/notes", settings=EmbedderSettings("openai:m@http://node2")
    )
    write_part(corpus(), elsewhere, WordEmbedder(), parts[1])
    assert [part.dataset for part in read_parts(parts)] == ["notes", "/scratch/notes", "notes"]


def test_a_part_whose_vectors_were_not_copied_is_named(parts: list[Path]) -> None:
    (parts[1] / "vectors.sqlite3").unlink()
    with pytest.raises(SearchError, match=r"part-1 is not a complete part.*vectors\.sqlite3"):
        read_parts(parts)


def test_a_part_that_was_killed_is_not_taken(parts: list[Path]) -> None:
    (parts[1] / "part.json").write_text(json.dumps({"index": 1}))
    with pytest.raises(SearchError, match="is not a complete part of an index"):
        read_parts(parts)
