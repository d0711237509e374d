"""Ingested indexes, kept open between searches and opened anew when their writer has switched.

The writer may be this process or another: what counts is what the store names as live now.
"""

import threading
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from assay.search.embedding import Embedder
from assay.search.index import open_index
from assay.search.retriever import Retriever
from assay.search.store import Store

_KEPT_OPEN = 8


@dataclass
class _Open:
    retriever: Retriever
    readers: int = 0
    retired: bool = False

    def close_if_unused(self) -> None:
        if self.retired and not self.readers:
            self.retriever.close()


class OpenIndexes:
    """Safe for threads. An index is closed when it is out of use and its last reader has left."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: OrderedDict[str, _Open] = OrderedDict()

    @contextmanager
    def reading(self, name: str, store: Store, embedder: Embedder) -> Iterator[Retriever]:
        entry = self._enter(name, store, embedder)
        try:
            yield entry.retriever
        finally:
            with self._lock:
                entry.readers -= 1
                entry.close_if_unused()

    def close(self) -> None:
        with self._lock:
            for name in list(self._open):
                self._retire(name)

    def _enter(self, name: str, store: Store, embedder: Embedder) -> _Open:
        live = store.manifest()
        with self._lock:
            entry = self._open.get(name)
            if entry is None or entry.retriever.manifest != live:
                self._retire(name)
                entry = self._open[name] = _Open(open_index(store, embedder))
            self._open.move_to_end(name)
            if len(self._open) > _KEPT_OPEN:
                self._retire(next(iter(self._open)))
            entry.readers += 1
            return entry

    def _retire(self, name: str) -> None:
        entry = self._open.pop(name, None)
        if entry is not None:
            entry.retired = True
            entry.close_if_unused()
