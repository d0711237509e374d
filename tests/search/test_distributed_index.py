"""`assay index --shard I/N` on several machines, and `assay merge` of the parts."""

from pathlib import Path
from typing import Any

import pytest
from tests.search.samples import DOCUMENTS, WordEmbedder, corpus, indexed

from assay.errors import SearchError
from assay.search import distributed_index
from assay.search.array_store import ArrayStore
from assay.search.bm25 import Bm25Settings
from assay.search.distributed_index import VECTORS_FILE, read_parts, write_part
from assay.search.embedding import EmbedderSettings, VectorCache
from assay.search.index import build_index


@pytest.fixture
def parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, embedder: WordEmbedder) -> list[Path]:
    """Three folders; `embedder` sees what is embedded after them."""
    monkeypatch.setattr(distributed_index, "open_embedder", lambda _: embedder)
    folders = [tmp_path / f"part-{index}" for index in range(3)]
    assert sum(write(folder, index) for index, folder in enumerate(folders)) == len(DOCUMENTS)
    embedder.seen.clear()
    return folders


def write(folder: Path, index: int, first: int = 0, name: str = "notes") -> int:
    settings = EmbedderSettings() if name == "notes" else EmbedderSettings("openai:m@http://node2")
    data = corpus(DOCUMENTS[first:])
    return write_part(folder, data, name, (index, 3), settings, Bm25Settings()).documents


def test_parts_make_one_index(parts: list[Path], tmp_path: Path, embedder: WordEmbedder) -> None:
    cache = VectorCache(tmp_path / "merged.sqlite3")
    for part in parts:
        cache.take_from(VectorCache(part / VECTORS_FILE))
    merged, whole = (ArrayStore(tmp_path / name, name) for name in ("merged", "whole"))
    build_index(corpus(), embedder, merged, cache=cache)
    assert embedder.seen == []
    build_index(corpus(), embedder, whole, cache=VectorCache(tmp_path / "whole.sqlite3"))
    found, expected = (indexed(one, embedder).search("tea bread") for one in (merged, whole))
    assert found == expected


def test_a_part_that_was_begun_is_done(parts: list[Path], embedder: WordEmbedder) -> None:
    write(parts[0], 0)
    assert embedder.seen == []


def test_parts_fit_wherever_the_data_and_the_model_were(parts: list[Path]) -> None:
    write(parts[1], 1, name="/scratch/notes")
    assert read_parts(parts[::-1]).dataset == "notes"


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda parts: parts.pop(1), r"missing parts of 3: 2; .*--shard 2/3"),
        (lambda parts: write(parts[1], 1, first=1), "parts of one index: documents differ"),
        (lambda parts: (parts[1] / "vectors.sqlite3").unlink(), "part-1 is not a complete part"),
    ],
    ids=["missing", "other documents", "without vectors"],
)
def test_wrong_parts_are_named(parts: list[Path], spoil: Any, message: str) -> None:
    spoil(parts)
    with pytest.raises(SearchError, match=message):
        read_parts(parts)
