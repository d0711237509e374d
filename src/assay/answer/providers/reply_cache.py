"""Replies that were paid for once: by model, prompt and parameters.

A prompt is kept as its hash alone.
"""

import hashlib
import sqlite3
from pathlib import Path

import orjson

from assay.answer.providers.protocol import Completion, Usage
from assay.data.cache import CacheDatabase, cache_folder

_TABLE = (
    "CREATE TABLE IF NOT EXISTS replies (key BLOB PRIMARY KEY, text TEXT, "
    "input_tokens INTEGER, output_tokens INTEGER, stop_reason TEXT) WITHOUT ROWID"
)


def reply_key(identity: str, prompt: str, max_tokens: int) -> bytes:
    """All that a reply depends on. The temperature is always 0, and named for the day it is not."""
    parameters = {"model": identity, "max_tokens": max_tokens, "temperature": 0}
    digest = hashlib.sha256(orjson.dumps(parameters, option=orjson.OPT_SORT_KEYS) + b"\n")
    digest.update(prompt.encode("utf-8", "surrogatepass"))
    return digest.digest()


class ReplyCache:
    def __init__(self, path: Path | None = None) -> None:
        self.path = path or cache_folder() / "replies.sqlite3"
        self._database = CacheDatabase(self.path, "cache of replies", _TABLE)

    def find(self, key: bytes) -> Completion | None:
        row = self._database.use(lambda database: _read(database, key))
        if row is None:
            return None
        text, input_tokens, output_tokens, stop_reason = row
        return Completion(text, Usage(input_tokens, output_tokens), stop_reason, cached=True)

    def keep(self, key: bytes, completion: Completion) -> None:
        usage = completion.usage
        row = (
            *(key, completion.text, usage.input_tokens, usage.output_tokens),
            completion.stop_reason,
        )
        insertion = "INSERT OR REPLACE INTO replies VALUES (?, ?, ?, ?, ?)"
        self._database.use(lambda database: database.execute(insertion, row))


def _read(database: sqlite3.Connection, key: bytes) -> tuple[str, int, int, str] | None:
    found: tuple[str, int, int, str] | None = database.execute(
        "SELECT text, input_tokens, output_tokens, stop_reason FROM replies WHERE key = ?", (key,)
    ).fetchone()
    return found
