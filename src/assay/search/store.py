"""What an index is made of, and the interfaces of the two stores: arrays in a folder, or Qdrant.

An index is never changed while it can be searched: a new one is written beside it and takes its
place in one step.
"""

import hashlib
import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field
from itertools import islice
from typing import Any, NamedTuple, Protocol, TypeVar

from assay.data.dataset import Dataset, Document
from assay.net.json import JsonObject
from assay.progress import Progress
from assay.search.analyzer import ANALYZER
from assay.search.bm25 import NOT_A_MODEL, Bm25Index, Bm25Model, SparseVector
from assay.search.chunks import POLICY, Span
from assay.search.embedding import Vectors
from assay.search.filters import FilterCondition
from assay.search.sealed_folder import DamagedIndexError
from assay.search.vector_metric import CorpusMetric
from assay.text import strip_controls

FORMAT = 6
"""Of an index: one of another format is built again."""

Place = tuple[str, int]
"""A chunk: its document, and its number in that."""

_Item = TypeVar("_Item")

OpenWords = Callable[[], Bm25Index]
"""Opens the BM25 index of the documents, for a store that keeps no words."""


@dataclass(frozen=True, slots=True)
class IndexKey:
    """Everything that decides whether an index can be used as it is."""

    corpus: str
    embedder: str
    bm25: str
    language: str
    analyzer: str = ANALYZER
    chunking: str = POLICY
    format: int = FORMAT

    def digest(self) -> str:
        """A short name for it."""
        return hashlib.sha256(repr(self).encode()).hexdigest()[:12]


@dataclass(frozen=True, slots=True)
class Manifest:
    """What an index says about itself."""

    key: IndexKey
    documents: int
    dimension: int
    assay: str
    bm25: Bm25Model
    metric: CorpusMetric

    def as_json(self, *, frequencies: bool) -> JsonObject:
        """The form that `from_json` reads. `frequencies`: of terms, if nothing else has them."""
        about = {"documents": self.documents, "dimension": self.dimension, "assay": self.assay}
        parts = {"bm25": self.bm25.as_json(frequencies=frequencies), "metric": asdict(self.metric)}
        return {"key": asdict(self.key), **about, **parts}

    @classmethod
    def from_json(cls, value: JsonObject, where: str) -> "Manifest":
        """Raises `DamagedIndexError` for anything but a manifest of this version."""
        try:
            if value["key"]["format"] != FORMAT:
                raise KeyError
            own = {
                "key": IndexKey(**value["key"]),
                "bm25": Bm25Model.from_json(value["bm25"]),
                "metric": CorpusMetric(**value["metric"]),
            }
            return cls(**value | own)
        except NOT_A_MODEL:
            raise DamagedIndexError(
                f"the index at {where} was made by another version of Assay"
            ) from None


class EmbeddedPart(NamedTuple):
    """The chunks of some documents, in the order of the corpus: how many each document has, where
    each is in its text, and its vector in the metric of the index.
    """

    counts: Sequence[int]
    spans: Sequence[Span]
    vectors: Vectors


class Near(NamedTuple):
    """How near a document is: the cosine of its best chunk, and which one that is."""

    score: float
    chunk: int


@dataclass(frozen=True, slots=True)
class StoredChunk:
    """A chunk as it is shown."""

    doc_id: str
    title: str
    text: str
    chunk_index: int
    total_chunks: int
    metadata: Mapping[str, Any]
    vector: Sequence[float] | Vectors = field(default=())


def batches(items: Iterable[_Item], size: int) -> Iterator[list[_Item]]:
    """The items, `size` at a time."""
    left = iter(items)
    while some := list(islice(left, size)):
        yield some


def plain_metadata(document: Document) -> JsonObject:
    """The metadata of a document as JSON can hold it, without control characters."""
    values = document.metadata.values()
    if all(type(one) is int or (type(one) is str and one.isprintable()) for one in values):
        return dict(document.metadata)  # the usual ones, without a way through JSON
    text = json.dumps(dict(document.metadata), ensure_ascii=False, default=str)
    metadata: JsonObject = json.loads(strip_controls(text))
    return metadata


class Index(Protocol):
    """An open index; safe to ask from several threads.

    Both signals return the best `depth` documents, best first, equal scores in the order of ids; or
    all `among` these that they know, in any order. `where`: conditions that all of them meet.
    """

    @property
    def manifest(self) -> Manifest:
        """What the index says about itself."""
        ...

    def lexical(
        self,
        query: SparseVector,
        depth: int = ...,
        *,
        where: Sequence[FilterCondition] = ...,
        among: Collection[str] | None = ...,
    ) -> dict[str, float]:
        """BM25 scores of documents that share a word with the query."""
        ...

    def dense(
        self,
        vector: Vectors,
        depth: int = ...,
        *,
        where: Sequence[FilterCondition] = ...,
        among: Collection[str] | None = ...,
    ) -> dict[str, Near]:
        """The documents nearest to a vector."""
        ...

    def fetch(self, places: Sequence[Place], *, vectors: bool = False) -> dict[Place, StoredChunk]:
        """The chunks that exist; with dense vectors if asked for."""
        ...

    def close(self) -> None:
        """Close the index: it cannot be searched afterwards."""
        ...


class Store(Protocol):
    """A place for one index: a folder, or a collection on a server."""

    @property
    def where(self) -> str:
        """The place for messages: a folder, or an address without its secrets."""
        ...

    def fingerprint(self, dataset: Dataset) -> str:
        """A hash of everything that the index keeps of the documents."""
        ...

    def lock(self, progress: Progress) -> AbstractContextManager[None]:
        """Waits until no other process writes this index, if the engine can know."""
        ...

    def write(
        self,
        key: IndexKey,
        manifest: Callable[[], Manifest],
        dataset: Dataset,
        parts: Iterable[EmbeddedPart],
    ) -> None:
        """Write an index; at the end it takes the place of the live one.

        `manifest` is asked for as late as possible, as words are counted meanwhile.
        """
        ...

    def open(
        self, key: IndexKey, dataset: Dataset, words: OpenWords, *, deep: bool = False
    ) -> Index | None:
        """The live index; None if there is none, or one of another key. `deep`: hash all of it."""
        ...
