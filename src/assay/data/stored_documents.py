"""Documents of a large corpus in a SQLite file in the cache: a mapping that keeps none in memory.

The file belongs to one state of the corpus: if that has another size or time of change, it is read
again.
"""

import hashlib
import os
import sqlite3
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence, ValuesView
from contextlib import closing, suppress
from itertools import islice
from pathlib import Path
from typing import Any

import orjson

from assay.data.cache import cache_folder
from assay.data.dataset import Document, feed_digest
from assay.data.text_file import Findings, TextFile
from assay.errors import DataError, UsageError
from assay.files import make_private_folder, staging_folder, sync_file
from assay.net.json import parse_json
from assay.privacy import is_private

# Bytes of a corpus from which its documents stay on the disk, unless ASSAY_CORPUS_IN_MEMORY_MB
# says otherwise.
ON_DISK_FROM = 256 << 20

_TABLES = """
CREATE TABLE documents (place INTEGER PRIMARY KEY, id TEXT UNIQUE NOT NULL, record BLOB NOT NULL);
CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT NOT NULL);
"""
_CACHE_KB = 128 << 10
_BATCH = 1000
_RECORD = "SELECT record FROM documents WHERE id = ?"
_SET_FACT = "INSERT OR REPLACE INTO facts VALUES (?, ?)"

# As `dict.setdefault`: the first document of an id is kept and returned.
KeepDocument = Callable[[str, Document], Document]


class StoredDocuments(Mapping[str, Document]):
    """The documents in a file, in the order of the corpus; safe to ask from several threads."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._database = _connect(path)
        weakref.finalize(self, self._database.close)
        self._count = int(self.fact("count"))

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[str]:
        return (identifier for identifier, _ in self._rows("''"))

    def __contains__(self, key: object) -> bool:
        found = self._first("SELECT 1 FROM documents WHERE id = ?", key)
        return isinstance(key, str) and found is not None

    def __getitem__(self, key: str) -> Document:
        if (record := self._first(_RECORD, key)) is None:
            raise KeyError(key)
        return Document(key, *parse_json(record))

    def values(self) -> "_StoredValues":
        """The documents, read as they are needed."""
        return _StoredValues(self)

    def read(self, rows: slice = slice(None)) -> Iterator[Document]:
        """The documents in these places, in order; by default, all."""
        start = rows.start or 0
        count = None if rows.stop is None else rows.stop - start
        found = islice(self._rows("record", start), count)
        return (Document(identifier, *parse_json(record)) for identifier, record in found)

    def cached_fingerprint(self, rest: str, compute: Callable[[], str]) -> str:
        """A hash of the data set, computed once: it reads every document. `rest` is a hash of all
        that it depends on beside the documents.
        """
        if found := self.fact(f"fingerprint {rest}"):
            return found
        computed = compute()
        with suppress(sqlite3.Error), self._lock, self._database:  # else it is computed again
            self._database.execute(_SET_FACT, (f"fingerprint {rest}", computed))
        return computed

    def fact(self, name: str) -> str:
        """What was noted under this name; "" if nothing was."""
        return str(self._first("SELECT value FROM facts WHERE name = ?", name) or "")

    def __reduce__(self) -> tuple[type["StoredDocuments"], tuple[Path]]:
        return StoredDocuments, (self._path,)

    def _first(self, query: str, key: object) -> Any:
        with self._lock:
            found = self._database.execute(query, (key,)).fetchone()
        return None if found is None else found[0]

    def _rows(self, column: str, start: int = 0) -> Iterator[tuple[str, bytes]]:
        query = f"SELECT place, id, {column} FROM documents WHERE place > ? ORDER BY place LIMIT ?"
        place = start - 1
        while True:
            # Pages by place, not one open cursor: others may ask between two of them.
            with self._lock:
                rows = self._database.execute(query, (place, _BATCH)).fetchall()
            if not rows:
                return
            yield from ((identifier, record) for _, identifier, record in rows)
            place = rows[-1][0]


class _StoredValues(ValuesView[Document]):
    _mapping: StoredDocuments

    def __iter__(self) -> Iterator[Document]:
        return self._mapping.read()


def stays_on_disk(files: Sequence[TextFile]) -> bool:
    """Whether a corpus is so large that its documents are not kept in memory."""
    given = os.environ.get("ASSAY_CORPUS_IN_MEMORY_MB", "")
    if given and not given.isdecimal():
        raise UsageError(f"ASSAY_CORPUS_IN_MEMORY_MB must be a number of megabytes, got {given!r}")
    limit = int(given) << 20 if given else ON_DISK_FROM
    return sum(file.size or 0 for file in files) >= limit and not is_private()


def store_documents(
    files: Sequence[TextFile], read: Callable[[KeepDocument, Findings], None], findings: Findings
) -> StoredDocuments:
    """The documents of `files`, from the cache or, the first time, read into it by `read`."""
    folder = cache_folder() / "corpora"
    place, state = _key(files)
    path = folder / f"{place}-{state}.sqlite3"
    try:
        if not path.exists():
            _build(path, read)
            for old in folder.glob(f"{place}-*.sqlite3"):  # of an earlier state of the files
                if old != path:
                    old.unlink(missing_ok=True)
        documents = StoredDocuments(path)
    except (OSError, sqlite3.Error) as error:
        raise DataError(
            f"the documents cannot be kept in {folder}: {error}; free some disk space, set "
            "ASSAY_CACHE to another folder, or ASSAY_CORPUS_IN_MEMORY_MB to a higher number"
        ) from error
    for what, (count, examples) in parse_json(documents.fact("findings") or "{}").items():
        findings.note(what, examples[0], count)
    return documents


def _build(path: Path, read: Callable[[KeepDocument, Findings], None]) -> None:
    make_private_folder(path.parent)
    noted, count, digest = Findings(), 0, hashlib.sha256()
    with staging_folder(path) as staging:
        part = staging / path.name
        os.close(os.open(part, os.O_CREAT | os.O_RDWR, 0o600))
        with closing(_connect(part)) as database:
            # A file that is not complete is thrown away: it needs no journal.
            database.execute("PRAGMA journal_mode = OFF")
            database.execute("PRAGMA synchronous = OFF")
            database.executescript(_TABLES)

            def keep(key: str, document: Document) -> Document:
                nonlocal count
                record = orjson.dumps([document.title, document.text, document.metadata])
                insert = "INSERT OR IGNORE INTO documents VALUES (?, ?, ?)"
                if database.execute(insert, (count, key, record)).rowcount:
                    count += 1
                    feed_digest(digest, (key, document.title, document.text))
                    return document
                return Document(key, *parse_json(database.execute(_RECORD, (key,)).fetchone()[0]))

            read(keep, noted)
            facts = {
                "count": str(count),
                # As `Dataset.corpus_fingerprint` has it, which would read them all once more.
                "fingerprint documents": digest.hexdigest(),
                "findings": orjson.dumps(noted.seen).decode(),
            }
            database.executemany(_SET_FACT, facts.items())
            database.commit()
        sync_file(part)
        part.rename(path)


def _connect(path: Path) -> sqlite3.Connection:
    database = sqlite3.connect(path, check_same_thread=False, timeout=60)
    database.execute(f"PRAGMA cache_size = -{_CACHE_KB}")
    return database


def _key(files: Sequence[TextFile]) -> tuple[str, str]:
    """Hashes of the paths of a corpus and of their state (size, time of change)."""
    # 2 is the version of `_TABLES`: a file of another one is not found, and made again.
    place, state = hashlib.sha256(), hashlib.sha256(b"2")
    for file in files:
        assert file.source is not None, "only files on the disk have a size"
        status = file.source.stat()
        place.update(f"{file.source.resolve()}\x1f{file.name}\x1e".encode())
        facts = (status.st_size, status.st_mtime_ns, status.st_ino, file.size)
        state.update(f"{facts}\x1e".encode())
    return place.hexdigest()[:16], state.hexdigest()[:16]
