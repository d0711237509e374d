"""Vectors that were computed once: by the embedder's name and the hash of the text.

SQLite, because two processes may fill it at once and a kill at any moment leaves it whole.
"""

import hashlib
import logging
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TypeVar

import numpy as np

from assay.data.cache import cache_folder
from assay.errors import SearchError
from assay.progress import Progress, silent
from assay.search.embedding import Embedder, Vectors

# What a kill can lose at most: about ten seconds of work on two cores.
TEXTS_UNTIL_SAVED = 256
_KEYS_IN_A_QUERY = 500
_WAIT = 60.0

_log = logging.getLogger(__name__)
_Value = TypeVar("_Value")


class VectorCache:
    """A damaged file is set aside and filled anew; nothing in it is irreplaceable."""

    def __init__(self, path: Path | None = None) -> None:
        self.path = path or cache_folder() / "vectors.sqlite3"

    def embed(
        self, texts: Sequence[str], embedder: Embedder, progress: Progress = silent
    ) -> Vectors:
        """As `embedder.embed`, but only for texts that were never embedded before."""
        keys = [_key(text) for text in texts]
        known = self._mended(lambda: self._read(embedder, keys))
        missing = list(dict(zip(keys, texts, strict=True)).items())
        missing = [(key, text) for key, text in missing if key not in known]
        done = len(texts) - len(missing)
        for start in range(0, len(missing), TEXTS_UNTIL_SAVED):
            part = dict(missing[start : start + TEXTS_UNTIL_SAVED])
            vectors = embedder.embed(list(part.values()), _shifted(progress, done, len(texts)))
            fresh = dict(zip(part, vectors, strict=True))
            self._mended(lambda fresh=fresh: self._write(embedder, fresh))  # type: ignore[misc]
            known |= fresh
            done += len(part)
        if not texts:
            return np.zeros((0, embedder.dimension), np.float32)
        return np.stack([known[key] for key in keys])

    def _read(self, embedder: Embedder, keys: Sequence[bytes]) -> dict[bytes, Vectors]:
        found: dict[bytes, Vectors] = {}
        with self._opened() as database:
            for start in range(0, len(keys), _KEYS_IN_A_QUERY):
                part = keys[start : start + _KEYS_IN_A_QUERY]
                marks = ",".join("?" * len(part))
                rows = database.execute(
                    f"SELECT text, vector FROM vectors WHERE embedder = ? AND text IN ({marks})",
                    (embedder.name, *part),
                )
                found |= {key: np.frombuffer(vector, np.float32) for key, vector in rows}
        return {key: one for key, one in found.items() if one.size == embedder.dimension}

    def _write(self, embedder: Embedder, vectors: dict[bytes, Vectors]) -> None:
        rows = [(embedder.name, key, vector.tobytes()) for key, vector in vectors.items()]
        with self._opened() as database:
            database.executemany("INSERT OR REPLACE INTO vectors VALUES (?, ?, ?)", rows)

    @contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        with closing(sqlite3.connect(self.path, timeout=_WAIT)) as database:
            database.execute("PRAGMA journal_mode = WAL")
            database.execute("PRAGMA synchronous = NORMAL")
            database.execute(
                "CREATE TABLE IF NOT EXISTS vectors (embedder TEXT, text BLOB, vector BLOB, "
                "PRIMARY KEY (embedder, text)) WITHOUT ROWID"
            )
            with database:
                yield database

    def _mended(self, work: Callable[[], _Value]) -> _Value:
        try:
            return work()
        except sqlite3.OperationalError as error:  # full, locked, not writable: not damaged
            raise SearchError(
                f"the vector cache {self.path} cannot be used: {error}; free some space, or set "
                "ASSAY_CACHE to a folder that you may write to (what was cached is kept)"
            ) from error
        except sqlite3.DatabaseError as error:
            self._set_aside(error)
            return work()

    def _set_aside(self, error: sqlite3.DatabaseError) -> None:
        aside = self.path.with_suffix(".damaged")
        self.path.replace(aside)
        for suffix in ("-wal", "-shm"):
            Path(f"{self.path}{suffix}").unlink(missing_ok=True)
        _log.warning(
            "the vector cache %s is damaged (%s): it is kept as %s, and filled anew",
            self.path,
            error,
            aside.name,
        )


def _key(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:16]


def _shifted(progress: Progress, before: int, total: int) -> Progress:
    return lambda what, done, _part: progress(what, before + done, total)
