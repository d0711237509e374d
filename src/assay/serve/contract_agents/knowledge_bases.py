"""The knowledge bases that agents search: the data set of the server, and what was ingested.

An ingested one is a file of chunks, `NAME.jsonl`, in which each chunk is a document. A write makes
a new file and renames it, so that readers see all of a request or nothing. It is searched like any
data set; its index is brought up to date by the first search after a write.
"""

import asyncio
import re
import threading
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from assay.contract.envelope import (
    ErrorCode,
    GroundingChunk,
    TaskError,
    chunk_id,
    split_chunk_id,
)
from assay.data.dataset import Dataset, Document
from assay.data.load import KNOWN
from assay.errors import UsageError
from assay.files import FileLock, atomic_write, make_private_folder, read_lines
from assay.net.json import parse_json
from assay.progress import Progress
from assay.search import Mode
from assay.search.filters import conditions
from assay.serve.readiness import Loading
from assay.serve.retrieval import Retrieval, SearchHit

# Names of ingested knowledge bases: they become parts of file names.
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")

# Means the data set that the server serves, unless something was ingested under this name.
DEFAULT = "default"

# About what English text has with the tokenizers of common models.
CHARACTERS_PER_TOKEN = 4

_MAX_OPEN = 8


@dataclass(frozen=True)
class KnowledgeBase:
    """What the agents search. The documents of an ingested one are chunks, under their own ids."""

    name: str
    retrieval: Retrieval
    is_ingested: bool = False

    def mode_for(self, asked: Mode | None) -> Mode:
        """The mode that was asked for, if it is available, else the server's own."""
        own = self.retrieval.mode
        return own if own == "bm25" else asked or own

    @property
    def size(self) -> int:
        """How many documents, or chunks of ingested documents, it has."""
        return len(self.retrieval.dataset.documents)

    async def search(
        self, query: str, top_k: int, mode: Mode, filters: Mapping[str, Any] | None = None
    ) -> list[GroundingChunk]:
        """The chunks that match, best first."""
        try:
            conditions(filters)
        except UsageError:  # the error of the search itself would quote the filter
            problem = {"field": "inputs.metadataFilters", "problem": "is not a filter"}
            message = (
                "inputs.metadataFilters: each value should be a string, a number, true or false, "
                "a list of strings or integers, or a range of gt, gte, lt, lte"
            )
            raise TaskError(
                ErrorCode.VALIDATION_ERROR, message, details={"fields": [problem]}
            ) from None
        hits = await self.retrieval.search(query, top_k, mode=mode, filters=filters)
        return [self._chunk(hit) for hit in hits]

    def _chunk(self, hit: SearchHit) -> GroundingChunk:
        name, doc_id, text = chunk_id(hit.doc_id, hit.chunk_index), hit.doc_id, hit.text
        if self.is_ingested:
            # The index may have cut a long chunk; its caller knows the whole one by this id.
            name, doc_id = hit.doc_id, split_chunk_id(hit.doc_id)[0]
            text = self.retrieval.dataset.documents[hit.doc_id].text
        metadata = {**({"title": hit.title} if hit.title else {}), **hit.metadata}
        score = round(hit.score, 6)
        return GroundingChunk(
            chunk_id=name, doc_id=doc_id, text=text, score=score, metadata=metadata
        )

    def document(self, doc_id: str) -> Document | None:
        """A complete document, if more than its chunks is known."""
        return None if self.is_ingested else self.retrieval.dataset.documents.get(doc_id)


class KnowledgeBases:
    """The knowledge bases of one process.

    `load` reads the data set, which may take minutes, and `open_base` makes a data set of chunks
    searchable; it blocks. Ingested knowledge bases are kept in `folder`.
    """

    def __init__(
        self,
        load: Callable[[Progress], Awaitable[Retrieval]],
        folder: Callable[[], Path],
        open_base: Callable[[Dataset], Retrieval],
    ) -> None:
        self.loading: Loading[Retrieval] = Loading(lambda: load(self.loading.note))
        self._folder = folder
        self._open_base = open_base
        self._lock = threading.Lock()
        self._open: dict[str, tuple[object, Retrieval]] = {}

    async def find(self, name: str | None) -> KnowledgeBase:
        """The knowledge base of this name; the data set for None, `default` and its own name.

        An unknown name is an error: an empty result would say that nothing was found in it.
        """
        if name is not None and NAME.fullmatch(name) and not self.is_data_set(name):
            ingested = await asyncio.to_thread(self._ingested, name)
            if ingested is not None:
                return KnowledgeBase(name, ingested, is_ingested=True)
        retrieval = await self.loading.get()
        if name not in (None, DEFAULT, retrieval.dataset.name):
            raise TaskError(ErrorCode.TASK_FAILED, "there is no knowledge base of this name")
        return KnowledgeBase(retrieval.dataset.name, retrieval)

    def is_data_set(self, name: str) -> bool:
        """Whether the name is a data set's, also one that another server may serve."""
        loaded = self.loading.value
        return name in KNOWN or (loaded is not None and name == loaded.dataset.name)

    def replace_documents(
        self, name: str, doc_ids: Collection[str], chunks: Sequence[Document]
    ) -> dict[str, int]:
        """Replace the documents named by `doc_ids` with `chunks`, and count the changes. Blocks.

        Reads and writes under a lock, so that concurrent requests do not undo each other.
        """
        path = self._path(name)
        make_private_folder(path.parent)
        with FileLock(path.with_suffix(".lock")):
            before = _read_chunks(path)
            kept = {
                id_: one for id_, one in before.items() if split_chunk_id(id_)[0] not in doc_ids
            }
            after = kept | {chunk.id: chunk for chunk in chunks}
            if after != before:
                atomic_write(path, b"".join(_line(chunk) for chunk in after.values()))
        shared = before.keys() & after.keys()
        return {
            "chunks_added": len(after.keys() - before.keys()),
            "chunks_changed": sum(before[name] != after[name] for name in shared),
            "chunks_removed": len(before.keys() - after.keys()),
        }

    def _path(self, name: str) -> Path:
        return self._folder() / f"{name}.jsonl"

    def _ingested(self, name: str) -> Retrieval | None:
        """What searches the file as it is now; kept until another write replaces it."""
        path = self._path(name)
        # One at a time: two searches must not build the same index.
        with self._lock:
            try:
                found = path.stat()
            except FileNotFoundError:
                return None
            version = (found.st_ino, found.st_mtime_ns, found.st_size)
            known, retrieval = self._open.pop(name, (None, None))
            if retrieval is None or known != version:
                documents = _read_chunks(path)
                retrieval = self._open_base(Dataset(f"kb-{name}", documents, {}, {}))
            self._open[name] = (version, retrieval)
            if len(self._open) > _MAX_OPEN:
                del self._open[next(iter(self._open))]
            return retrieval


def _read_chunks(path: Path) -> dict[str, Document]:
    if not path.exists():
        return {}
    rows = [parse_json(line) for line in read_lines(path)]
    return {
        row["_id"]: Document(row["_id"], row["title"], row["text"], row["metadata"]) for row in rows
    }


def _line(chunk: Document) -> bytes:
    record = {"_id": chunk.id, "title": chunk.title, "text": chunk.text}
    return orjson.dumps({**record, "metadata": dict(chunk.metadata)}) + b"\n"
