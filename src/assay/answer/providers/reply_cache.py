"""Replies that were paid for once: by model, prompt and parameters.

SQLite, because two processes may fill it at once and a kill at any moment leaves it whole. A
prompt is kept as its hash alone; replies are as private as the documents, so the file is the
user's own.
"""

import hashlib
import logging
import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TypeVar

import orjson

from assay.answer.providers.protocol import Completion, Usage
from assay.data.cache import cache_folder
from assay.errors import DataError

_WAIT = 60.0
_OWNER_ONLY = 0o600

_log = logging.getLogger(__name__)
_Value = TypeVar("_Value")


def reply_key(identity: str, prompt: str, max_tokens: int) -> bytes:
    """All that a reply depends on. The temperature is always 0, and named for the day it is not."""
    parameters = {"model": identity, "max_tokens": max_tokens, "temperature": 0}
    digest = hashlib.sha256(orjson.dumps(parameters, option=orjson.OPT_SORT_KEYS) + b"\n")
    digest.update(prompt.encode("utf-8", "surrogatepass"))
    return digest.digest()


class ReplyCache:
    """A damaged file is set aside and filled anew: nothing in it cannot be asked for again."""

    def __init__(self, path: Path | None = None) -> None:
        self.path = path or cache_folder() / "replies.sqlite3"

    def find(self, key: bytes) -> Completion | None:
        row = self._mended(lambda: self._read(key))
        if row is None:
            return None
        text, input_tokens, output_tokens, stop_reason = row
        return Completion(text, Usage(input_tokens, output_tokens), stop_reason, cached=True)

    def keep(self, key: bytes, completion: Completion) -> None:
        usage = completion.usage
        row = (key, completion.text, usage.input_tokens, usage.output_tokens)
        self._mended(lambda: self._write((*row, completion.stop_reason)))

    def _read(self, key: bytes) -> tuple[str, int, int, str] | None:
        with self._opened() as database:
            found: tuple[str, int, int, str] | None = database.execute(
                "SELECT text, input_tokens, output_tokens, stop_reason FROM replies WHERE key = ?",
                (key,),
            ).fetchone()
            return found

    def _write(self, row: tuple[object, ...]) -> None:
        with self._opened() as database:
            database.execute("INSERT OR REPLACE INTO replies VALUES (?, ?, ?, ?, ?)", row)

    @contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        if not self.path.exists():
            os.close(os.open(self.path, os.O_CREAT | os.O_RDWR, _OWNER_ONLY))
        with closing(sqlite3.connect(self.path, timeout=_WAIT)) as database:
            database.execute("PRAGMA journal_mode = WAL")
            database.execute("PRAGMA synchronous = NORMAL")
            database.execute(
                "CREATE TABLE IF NOT EXISTS replies (key BLOB PRIMARY KEY, text TEXT, "
                "input_tokens INTEGER, output_tokens INTEGER, stop_reason TEXT) WITHOUT ROWID"
            )
            with database:
                yield database

    def _mended(self, work: Callable[[], _Value]) -> _Value:
        try:
            return work()
        except (sqlite3.OperationalError, OSError) as error:  # full, locked, not writable
            raise DataError(
                f"the cache of replies {self.path} cannot be used: {error}; free some space, or "
                "set ASSAY_CACHE to a folder that you may write to"
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
            "the cache of replies %s is damaged (%s): it is kept as %s, and filled anew",
            self.path,
            error,
            aside.name,
        )
