"""Vectors that were computed once: by the embedder's name and the hash of the text."""

import hashlib
import sqlite3
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np

from assay.data.cache import CacheDatabase, cache_folder
from assay.errors import SearchError
from assay.progress import Progress, silent
from assay.search.embedding import Embedder, Vectors

# What a kill can lose at most: about ten seconds of work on two cores.
TEXTS_UNTIL_SAVED = 256
_KEYS_IN_A_QUERY = 500
_TABLE = (
    "CREATE TABLE IF NOT EXISTS vectors (embedder TEXT, text BLOB, vector BLOB, "
    "PRIMARY KEY (embedder, text)) WITHOUT ROWID"
)


class VectorCache:
    def __init__(self, path: Path | None = None) -> None:
        self.path = path or cache_folder() / "vectors.sqlite3"
        self._database = CacheDatabase(self.path, "vector cache", _TABLE, SearchError)

    def embed(
        self, texts: Sequence[str], embedder: Embedder, progress: Progress = silent
    ) -> Vectors:
        """As `embedder.embed`, but only for texts that were never embedded before."""
        keys = [_key(text) for text in texts]
        known = self._database.use(partial(_read, embedder=embedder, keys=keys))
        missing = list(dict(zip(keys, texts, strict=True)).items())
        missing = [(key, text) for key, text in missing if key not in known]
        done = len(texts) - len(missing)
        for start in range(0, len(missing), TEXTS_UNTIL_SAVED):
            part = dict(missing[start : start + TEXTS_UNTIL_SAVED])
            vectors = embedder.embed(list(part.values()), _shifted(progress, done, len(texts)))
            fresh = dict(zip(part, vectors, strict=True))
            self._database.use(partial(_write, embedder=embedder, vectors=fresh))
            known |= fresh
            done += len(part)
        if not texts:
            return np.zeros((0, embedder.dimension), np.float32)
        return np.stack([known[key] for key in keys])


def _read(
    database: sqlite3.Connection, embedder: Embedder, keys: Sequence[bytes]
) -> dict[bytes, Vectors]:
    found: dict[bytes, Vectors] = {}
    for start in range(0, len(keys), _KEYS_IN_A_QUERY):
        part = keys[start : start + _KEYS_IN_A_QUERY]
        marks = ",".join("?" * len(part))
        rows = database.execute(
            f"SELECT text, vector FROM vectors WHERE embedder = ? AND text IN ({marks})",
            (embedder.name, *part),
        )
        found |= {key: np.frombuffer(vector, np.float32) for key, vector in rows}
    return {key: one for key, one in found.items() if one.size == embedder.dimension}


def _write(database: sqlite3.Connection, embedder: Embedder, vectors: dict[bytes, Vectors]) -> None:
    rows = [(embedder.name, key, vector.tobytes()) for key, vector in vectors.items()]
    database.executemany("INSERT OR REPLACE INTO vectors VALUES (?, ?, ?)", rows)


def _key(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:16]


def _shifted(progress: Progress, before: int, total: int) -> Progress:
    return lambda what, done, _part: progress(what, before + done, total)
