"""Embedders: their interface, the choice of one by options, and the cache of vectors."""

import hashlib
import json
import logging
import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from assay.data.cache import CacheDatabase, cache_folder
from assay.errors import SearchError
from assay.progress import Progress, silent
from assay.search.workers import Workers
from assay.text import strip_controls

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_Item = TypeVar("_Item")

# One row for each text, of length 1, so that a dot product is a cosine
Vectors = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Prompts:
    """What a model expects before the texts of each kind; empty for most models."""

    query: str = ""
    document: str = ""

    @classmethod
    def parse(cls, settings: Mapping[str, Any]) -> "Prompts":
        """Prompts.parse({"prompts": {"query": "query: "}})  # as sentence-transformers has them"""
        known = settings.get("prompts") or {}
        return cls(known.get("query") or "", known.get("document") or known.get("passage") or "")


NO_PROMPTS = Prompts()

# What a kill can lose at most on a CPU: about ten seconds of work on two cores
TEXTS_UNTIL_SAVED = 256


class Embedder(Protocol):
    """Safe to call from several threads at once. Vectors are cached by the `name`.

    `max_tokens`: longer documents are split. `prompts` are put before texts by the caller of
    `embed`. `texts_at_once`: how many are worth one call of it; a kill loses at most these.
    """

    name: str
    max_tokens: int
    prompts: Prompts
    texts_at_once: int

    @property
    def dimension(self) -> int:
        """How many numbers a vector has."""

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """How many tokens each text has, without the marks that the model puts around it."""

    def embed(self, texts: Sequence[str], progress: Progress = silent) -> Vectors:
        """One row of length 1 for each text."""


@dataclass(frozen=True, slots=True)
class TextLimits:
    """What splitting a text needs of an embedder. It can be sent to another process."""

    count_tokens: Callable[[Sequence[str]], list[int]]
    max_tokens: int
    prompts: Prompts

    @classmethod
    def of(cls, embedder: Embedder) -> "TextLimits":
        """Those of an embedder."""
        return cls(embedder.count_tokens, embedder.max_tokens, embedder.prompts)


# How the name of the built-in model begins, in each of its versions
BUILTIN_EMBEDDER = "all-MiniLM-L6-v2-int8"

# How `--embedder` is written, for messages and help
EMBEDDER_FORMS = "onnx:DIR, st:NAME|DIR, openai:MODEL[@URL]"


@dataclass(frozen=True, slots=True)
class EmbedderSettings:
    """EmbedderSettings("st:intfloat/e5-small")  # one of `EMBEDDER_FORMS`; built in if empty

    `device`: auto, cpu, mps, cuda or cuda:N, for `st:`; it changes no score.
    """

    embedder: str = ""
    device: str = field(default_factory=lambda: os.environ.get("ASSAY_DEVICE") or "auto")

    @classmethod
    def from_environment(cls) -> "EmbedderSettings":
        """ASSAY_EMBEDDER and ASSAY_DEVICE, else the built-in model."""
        return cls(os.environ.get("ASSAY_EMBEDDER", ""))

    def as_environment(self) -> dict[str, str]:
        """The variables that make another process choose the same."""
        return {"ASSAY_EMBEDDER": self.embedder, "ASSAY_DEVICE": self.device}


def open_embedder(settings: EmbedderSettings | None = None) -> Embedder:
    """The embedder that the settings, else the environment, select."""
    settings = settings or EmbedderSettings.from_environment()
    if settings.embedder.startswith("st:"):
        from assay.search.torch_embedding import TorchEmbedder

        return TorchEmbedder(settings.embedder[3:], device=settings.device)
    if settings.embedder.startswith("onnx:"):
        from assay.search.onnx_embedding import open_folder

        return open_folder(Path(settings.embedder[5:]))
    if settings.embedder:
        from assay.search.remote_embedding import open_remote

        return open_remote(settings.embedder)
    from assay.search.onnx_embedding import open_builtin

    return open_builtin()


def batches(items: Iterable[_Item], size: int) -> Iterator[list[_Item]]:
    """The items, `size` at a time."""
    left = iter(items)
    while some := list(islice(left, size)):
        yield some


class TokenCounter:
    """TokenCounter(tokenizer)(["green tea"])  # [2], without special tokens

    Where words are split independently of each other, as by BERT, known ones are looked up.
    """

    def __init__(self, tokenizer: "Tokenizer") -> None:
        self._tokenizer = tokenizer
        self._sizes: dict[str, int] = {}
        parts = json.loads(tokenizer.to_str())
        kinds = [(parts.get(part) or {}).get("type") for part in ("normalizer", "pre_tokenizer")]
        plain = all(one.get("special") for one in parts.get("added_tokens", []))
        self._by_word = plain and kinds == ["BertNormalizer", "BertPreTokenizer"]

    def __call__(self, texts: Sequence[str]) -> list[int]:
        """How many tokens each text has."""
        # Most texts that are counted are single words, which are known.
        return [self._sizes.get(text) or self._count(strip_controls(text)) for text in texts]

    def _count(self, text: str) -> int:
        # The tokenizer deletes control characters; Python takes some of them for spaces.
        if not self._by_word or not text.isprintable():
            return self._size(text)
        sizes, words = self._sizes, text.split()
        for word in {word for word in words if word not in sizes}:
            if len(sizes) < _WORDS_KEPT and len(word) <= _MAX_WORD:
                sizes[word] = self._size(word)
        return sum(sizes[word] if word in sizes else self._size(word) for word in words)

    def _size(self, text: str) -> int:
        # One by one: a batch would start threads of the library, which do not survive a fork.
        return len(self._tokenizer.encode(text, add_special_tokens=False).ids)


_WORDS_KEPT, _MAX_WORD = 500_000, 64
_KEYS_IN_A_QUERY = 500
_ROWS_AT_ONCE = 5000
# Rows in the order in which they come, and an index: sorted by a random key, each would be written
# to another page (three times the CPU, twice the disk).
_TABLE = (
    "CREATE TABLE IF NOT EXISTS vectors (embedder TEXT, text BLOB, vector BLOB, "
    "PRIMARY KEY (embedder, text))"
)
# Behind each vector
_CHECKSUM_BYTES = 15
_STORED = "SELECT embedder, text, vector FROM vectors"

_log = logging.getLogger(__name__)


class VectorCache:
    """Vectors that were computed once, in a SQLite file: by embedder and hash of the text.

    One that does not match its checksum is computed again.
    """

    def __init__(self, path: Path | None = None) -> None:
        self.path = path or cache_folder() / "vectors.sqlite3"
        self.computed = 0  # texts that were not in the cache
        self._database = CacheDatabase(self.path, "vector cache", _TABLE, SearchError)
        self._workers = Workers(None, 0)  # which writes at once, in this process
        self._writing: Future[None] | None = None

    @contextmanager
    def written_by(self, workers: Workers) -> Iterator[None]:
        """Other processes write what is embedded in this block, one after the other."""
        before, self._workers = self._workers, workers
        try:
            yield
            if self._writing is not None:
                self._writing.result()
        finally:
            self._workers, self._writing = before, None

    def embed(
        self, texts: Sequence[str], embedder: Embedder, progress: Progress = silent
    ) -> Vectors:
        """As `embedder.embed`, but only for texts that were never embedded before."""
        # JSON can hold half a pair of UTF-16, which must not end an index of a million texts.
        contents = (text.encode("utf-8", "surrogatepass") for text in texts)
        keys = [hashlib.sha256(content).digest()[:16] for content in contents]
        known = self._database.use(partial(_read, embedder=embedder, keys=keys))
        distinct = dict(zip(keys, texts, strict=True))
        missing = [(key, text) for key, text in distinct.items() if key not in known]
        done, step = len(texts) - len(missing), embedder.texts_at_once
        for start in range(0, len(missing), step):
            part = dict(missing[start : start + step])

            def shifted(what: str, now: int, _: int | None, before: int = done) -> None:
                progress(what, before + now, len(texts))

            vectors = embedder.embed(list(part.values()), shifted)
            if self._writing is not None:
                self._writing.result()  # SQLite takes one writer at a time; errors show here
            self._writing = self._workers.submit(
                _write, self._database, embedder.name, list(part), vectors
            )
            known |= zip(part, vectors, strict=True)
            done += len(part)
            self.computed += len(part)
        if not keys:
            return np.zeros((0, embedder.dimension), np.float32)
        return np.stack([known[key] for key in keys])

    def take_from(self, other: "VectorCache") -> None:
        """Copy the vectors of another cache; a damaged one is noticed when it is read."""

        def copy(database: sqlite3.Connection) -> None:
            found = database.execute(_STORED)
            while rows := found.fetchmany(_ROWS_AT_ONCE):
                self._database.use(partial(_insert, rows=rows))

        other._database.use(copy)


def _read(
    database: sqlite3.Connection, embedder: Embedder, keys: Sequence[bytes]
) -> dict[bytes, Vectors]:
    size = embedder.dimension * np.dtype(np.float32).itemsize
    found: dict[bytes, Vectors] = {}
    damaged = 0
    for part in batches(dict.fromkeys(keys), _KEYS_IN_A_QUERY):
        marks = ",".join("?" * len(part))
        query = f"{_STORED} WHERE embedder = ? AND text IN ({marks})"
        for _, key, stored in database.execute(query, (embedder.name, *part)):
            vector, checksum = stored[:-_CHECKSUM_BYTES], stored[-_CHECKSUM_BYTES:]
            if len(vector) == size and checksum == _checksum(key, vector):
                found[key] = np.frombuffer(vector, np.float32)
            else:
                damaged += 1
    if damaged:
        _log.warning("%d vectors in the cache are damaged: they are computed again", damaged)
    return found


def _write(
    _: object,
    database: CacheDatabase,
    embedder: str,
    keys: Sequence[bytes],
    vectors: Sequence[Vectors] | Vectors,
) -> None:
    found = zip(keys, (row.tobytes() for row in vectors), strict=True)
    rows = [(embedder, key, vector + _checksum(key, vector)) for key, vector in found]
    database.use(partial(_insert, rows=rows))


def _insert(database: sqlite3.Connection, rows: Sequence[tuple[str, bytes, bytes]]) -> None:
    database.executemany("INSERT OR REPLACE INTO vectors VALUES (?, ?, ?)", rows)


def _checksum(key: bytes, vector: bytes) -> bytes:
    """A hash of vector and key: a vector that has become another text's is damaged too."""
    return hashlib.sha256(key + vector).digest()[:_CHECKSUM_BYTES]
