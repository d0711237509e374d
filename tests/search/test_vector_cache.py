import sqlite3
from pathlib import Path

import numpy as np
import pytest
from tests.search.samples import WordEmbedder

from assay.errors import SearchError
from assay.search.embedding import VectorCache

TEXTS = ["green tea", "coffee", "green tea", "bread"]


def test_a_text_is_embedded_once(tmp_path: Path, embedder: WordEmbedder) -> None:
    cache = VectorCache(tmp_path / "vectors")
    first = cache.embed(TEXTS, embedder)
    assert embedder.seen == ["green tea", "coffee", "bread"]
    again = VectorCache(tmp_path / "vectors").embed([*TEXTS, "beer"], embedder)
    assert embedder.seen[3:] == ["beer"]
    assert np.array_equal(first, again[:4])
    assert np.array_equal(first, WordEmbedder().embed(TEXTS))


def test_what_was_done_before_a_failure_is_kept(tmp_path: Path, embedder: WordEmbedder) -> None:
    texts = [f"text {i}" for i in range(25)]

    class Failing(WordEmbedder):
        def embed(self, texts, progress=lambda *_: None):  # type: ignore[no-untyped-def]
            if len(self.seen) >= 20:
                raise SearchError("out of reach")
            return super().embed(texts, progress)

    with pytest.raises(SearchError, match="out of reach"):
        VectorCache(tmp_path / "vectors").embed(texts, Failing(texts_at_once=10))
    VectorCache(tmp_path / "vectors").embed(texts, embedder)
    assert embedder.seen == texts[20:]


@pytest.mark.parametrize("damage", [b"no database at all" * 100, None])
def test_a_damaged_cache_is_replaced(
    tmp_path: Path, embedder: WordEmbedder, damage: bytes | None
) -> None:
    path = tmp_path / "vectors.sqlite3"
    VectorCache(path).embed([f"text {i}" for i in range(200)], embedder)
    content = path.read_bytes()
    damage = damage or content[:100] + b"\xff" * 29900 + content[30000:]
    path.write_bytes(damage)
    vectors = VectorCache(path).embed(["text 1"], embedder)
    assert np.array_equal(vectors, embedder.embed(["text 1"]))
    assert (tmp_path / "vectors.damaged").read_bytes() == damage


@pytest.mark.parametrize("damaged", ["x'00000000'", "zeroblob(length(vector))"])
def test_a_damaged_vector_is_computed_again(
    tmp_path: Path, embedder: WordEmbedder, caplog: pytest.LogCaptureFixture, damaged: str
) -> None:
    path = tmp_path / "vectors"
    right = VectorCache(path).embed(["tea"], embedder)
    with sqlite3.connect(path) as database:
        database.execute(f"UPDATE vectors SET vector = {damaged}")
    database.close()
    assert np.array_equal(VectorCache(path).embed(["tea"], embedder), right)
    assert "1 vectors in the cache are damaged" in caplog.text
