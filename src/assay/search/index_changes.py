"""What an index has of a corpus already, and what has to be written and removed.

A corpus may be larger than memory: it is read from end to end, several times, and what is known of
the documents of the live index is kept in a scratch table on the disk.
"""

import hashlib
import json
import logging
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import TypeVar, cast

from assay.data.cache import scratch_database
from assay.data.dataset import Corpus, Document
from assay.errors import DataError
from assay.search.store import DamagedIndexError, Manifest, Store, point_id

_log = logging.getLogger(__name__)

_Item = TypeVar("_Item")
_GONE, _KEPT, _CHANGED = 0, 1, 2
_TABLE = (
    "CREATE TABLE live (id TEXT PRIMARY KEY, hash TEXT, chunks INTEGER, state INTEGER) "
    "WITHOUT ROWID"
)


def as_corpus(documents: Iterable[Document]) -> Corpus:
    """The documents as they are, or in a list where they could be read only once."""
    if hasattr(documents, "__len__"):
        return cast(Corpus, documents)
    return list(documents)


def batches(items: Iterable[_Item], size: int) -> Iterator[list[_Item]]:
    """The items, `size` at a time."""
    left = iter(items)
    while some := list(islice(left, size)):
        yield some


def corpus_digest(documents: Iterable[Document]) -> str:
    """A hash that changes with any document and with their order."""
    digest = hashlib.sha256()
    for document in documents:
        try:
            digest.update(f"{document.id}\x1f{content_hash(document)}\x1e".encode())
        except UnicodeEncodeError:
            raise DataError(
                f"the document id {document.id!r} is not valid text (half a surrogate pair); "
                "give the document another id"
            ) from None
    return digest.hexdigest()


def content_hash(document: Document) -> str:
    """A hash that changes with title, text or metadata."""
    fields = [document.title, document.text, dict(document.metadata)]
    content = json.dumps(fields, sort_keys=True, default=str)
    return hashlib.sha256(content.encode()).hexdigest()[:32]


@dataclass(frozen=True, slots=True)
class IndexChanges:
    """What has to be written and removed: how many documents are new, changed and gone.

    `from_live`: the rest of the live index can stay as it is.
    """

    added: int
    changed: int
    removed: int
    from_live: bool
    _documents: Corpus
    _live: "_LiveDocuments"

    def written(self) -> Iterator[Document]:
        """The documents to write: new and changed ones."""
        if self.added + self.changed == len(self._documents):
            return iter(self._documents)
        return (one for one in self._documents if self._live.state(one.id) != _KEPT)

    def outdated(self) -> Iterator[str]:
        """The points of the live index that do not stay; none where nothing of it stays."""
        return self._live.points() if self.from_live else iter(())

    def close(self) -> None:
        """Remove the scratch table."""
        self._live.close()


def find_changes(documents: Corpus, manifest: Manifest, store: Store) -> IndexChanges:
    """What has to be written and removed, so that the live index becomes that of `manifest`."""
    live, from_live = _LiveDocuments(), False
    try:
        found = store.manifest()
        if found is not None:
            live.fill(store.entries())
            from_live = found.compatible_with(manifest)
    except DamagedIndexError as error:
        live.fill(())
        _log.warning("%s: it is rebuilt, with vectors from the cache", error.damage)
    added = changed = 0
    for document in documents if len(live) else ():
        same = live.compare(document, from_live)
        added += same is None
        changed += same is False
    if not len(live):
        added = len(documents)
    removed = live.count(_GONE)
    return IndexChanges(added, changed, removed, from_live, documents, live)


class _LiveDocuments:
    """The documents of the live index, with what becomes of each."""

    def __init__(self) -> None:
        self._database = scratch_database()
        self._database.execute(_TABLE)
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def fill(self, entries: Iterable[tuple[str, str, int]]) -> None:
        """Take ids, content hashes and numbers of chunks, in place of those from before."""
        self._database.execute("DELETE FROM live")
        rows = ((*entry, _GONE) for entry in entries)
        self._database.executemany("INSERT OR REPLACE INTO live VALUES (?, ?, ?, ?)", rows)
        (self._count,) = self._database.execute("SELECT count(*) FROM live").fetchone()

    def compare(self, document: Document, usable: bool) -> bool | None:
        """Whether a document stays as it is; None if it is not in the index.

        `usable`: whether points of the live index can stay at all.
        """
        query = "SELECT hash FROM live WHERE id = ?"
        row = self._database.execute(query, (document.id,)).fetchone()
        if row is None:
            return None
        same = usable and row[0] == content_hash(document)
        state = _KEPT if same else _CHANGED
        self._database.execute("UPDATE live SET state = ? WHERE id = ?", (state, document.id))
        return bool(same)

    def state(self, doc_id: str) -> int | None:
        """What becomes of a document; None if it is not in the index."""
        query = "SELECT state FROM live WHERE id = ?"
        row = self._database.execute(query, (doc_id,)).fetchone()
        return None if row is None else int(row[0])

    def count(self, state: int) -> int:
        """How many documents have a state."""
        query = "SELECT count(*) FROM live WHERE state = ?"
        return int(self._database.execute(query, (state,)).fetchone()[0])

    def points(self) -> Iterator[str]:
        """The points of documents that are gone or changed."""
        query = "SELECT id, chunks FROM live WHERE state != ?"
        for doc_id, chunks in self._database.execute(query, (_KEPT,)):
            yield from (point_id(doc_id, chunk) for chunk in range(chunks))

    def close(self) -> None:
        """Remove the table."""
        with suppress(Exception):
            self._database.close()
