"""What turns texts into vectors, which one a command asks for, and the vectors computed before."""

import hashlib
import logging
import sqlite3
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from assay.data.cache import CacheDatabase, cache_folder
from assay.errors import SearchError, UsageError
from assay.progress import Progress, silent

Vectors = NDArray[np.float32]
"""One row for each text, of length 1, so that a dot product is a cosine."""


class Embedder(Protocol):
    """Safe to call from several threads at once."""

    @property
    def name(self) -> str:
        """Says model and settings: vectors are cached by it, an index is refused by it."""
        ...

    @property
    def dimension(self) -> int:
        """How many numbers a vector has."""
        ...

    @property
    def max_tokens(self) -> int:
        """Where the model stops reading; longer documents are split."""
        ...

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Without the marks that the model puts around a text."""
        ...

    def embed(self, texts: Sequence[str], progress: Progress = silent) -> Vectors:
        """One row of length 1 for each text."""
        ...


def open_embedder(*, model: Path | None = None, embedder: str | None = None) -> Embedder:
    """The built-in model, a `model` folder (ONNX), or `embedder` `ollama:MODEL[@URL]`,
    `openai:MODEL[@URL]`.
    """
    if model is not None and embedder is not None:
        raise UsageError(
            "--model and --embedder select two different embedders; pass only one of them"
        )
    if embedder is not None:
        from assay.search.remote_embedding import open_remote

        return open_remote(embedder)
    from assay.search.onnx_embedding import open_builtin, open_folder

    return open_builtin() if model is None else open_folder(model)


# What a kill can lose at most: about ten seconds of work on two cores.
TEXTS_UNTIL_SAVED = 256
_KEYS_IN_A_QUERY = 500
_TABLE = (
    "CREATE TABLE IF NOT EXISTS vectors (embedder TEXT, text BLOB, vector BLOB, "
    "PRIMARY KEY (embedder, text)) WITHOUT ROWID"
)
# A table of its own, so that earlier versions can still use the cache.
_CHECKSUMS = (
    "CREATE TABLE IF NOT EXISTS checksums (embedder TEXT, text BLOB, checksum BLOB, "
    "PRIMARY KEY (embedder, text)) WITHOUT ROWID"
)
# Of a vector without a checksum, written by an earlier version, this much can be told.
_UNIT_LENGTH = 0.01
_WITH_CHECKSUMS = (
    "SELECT embedder, text, vector, checksum "
    "FROM vectors LEFT JOIN checksums USING (embedder, text)"
)

_log = logging.getLogger(__name__)


class VectorCache:
    """Vectors that were computed once, in a SQLite file: by embedder and hash of the text.

    Each has a checksum. One that does not match it is computed again, so a damaged cache costs
    time and never changes a result.

    Parameters:
        path: the file; `vectors.sqlite3` in the cache folder by default.
    """

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

    def check(self) -> list[str]:
        """What is wrong with the file, in words: its structure and each vector are read."""
        if not self.path.exists():
            return []
        found = self._database.problems()
        if not found:
            damaged = self._database.use(_damaged)
            if damaged:
                found = [f"{damaged} vectors do not match their checksums"]
        return found


def _read(
    database: sqlite3.Connection, embedder: Embedder, keys: Sequence[bytes]
) -> dict[bytes, Vectors]:
    database.execute(_CHECKSUMS)
    found: list[tuple[str, bytes, bytes, bytes | None]] = []
    for start in range(0, len(keys), _KEYS_IN_A_QUERY):
        part = keys[start : start + _KEYS_IN_A_QUERY]
        marks = ",".join("?" * len(part))
        found += database.execute(
            f"{_WITH_CHECKSUMS} WHERE embedder = ? AND text IN ({marks})", (embedder.name, *part)
        ).fetchall()
    size = embedder.dimension * np.dtype(np.float32).itemsize
    good = [row for row in found if len(row[2]) == size and _is_intact(*row)]
    if len(good) < len(found):
        _log.warning(
            "%d vectors in the cache are damaged: they are computed again", len(found) - len(good)
        )
    _write_checksums(database, [row[:3] for row in good if row[3] is None])
    return {key: np.frombuffer(vector, np.float32) for _, key, vector, _ in good}


def _write(database: sqlite3.Connection, embedder: Embedder, vectors: dict[bytes, Vectors]) -> None:
    rows = [(embedder.name, key, vector.tobytes()) for key, vector in vectors.items()]
    database.executemany("INSERT OR REPLACE INTO vectors VALUES (?, ?, ?)", rows)
    database.execute(_CHECKSUMS)
    _write_checksums(database, rows)


def _write_checksums(
    database: sqlite3.Connection, rows: Sequence[tuple[str, bytes, bytes]]
) -> None:
    sums = [(embedder, key, _checksum(key, vector)) for embedder, key, vector in rows]
    database.executemany("INSERT OR REPLACE INTO checksums VALUES (?, ?, ?)", sums)


def _damaged(database: sqlite3.Connection) -> int:
    database.execute(_CHECKSUMS)
    return sum(not _is_intact(*row) for row in database.execute(_WITH_CHECKSUMS))


def _is_intact(_embedder: str, key: bytes, vector: bytes, checksum: bytes | None) -> bool:
    if checksum is not None:
        return checksum == _checksum(key, vector)
    if len(vector) % np.dtype(np.float32).itemsize:
        return False
    length = float(np.linalg.norm(np.frombuffer(vector, np.float32)))
    return abs(length - 1.0) < _UNIT_LENGTH


def _checksum(key: bytes, vector: bytes) -> bytes:
    """With the key: a vector that has become another text's is damaged too."""
    return hashlib.sha256(key + vector).digest()[:16]


def _key(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:16]


def _shifted(progress: Progress, before: int, total: int) -> Progress:
    return lambda what, done, _part: progress(what, before + done, total)
