"""What turns texts into vectors, which one a command asks for, and the vectors computed before."""

import hashlib
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


class VectorCache:
    """Vectors that were computed once, in a SQLite file: by embedder and hash of the text.

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
