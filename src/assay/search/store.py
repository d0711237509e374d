"""The interface of an index store, which a folder and a Qdrant server implement.

An index is never changed while it can be searched: a new one is written beside it, as a copy or
from nothing, and takes its place in one step.
"""

import re
import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field, fields
from functools import lru_cache
from typing import Literal, NamedTuple, Protocol, TypedDict

from assay.errors import SearchError
from assay.net.json import JsonObject
from assay.progress import Progress
from assay.search.bm25 import NOT_A_MODEL, Bm25Model, SparseVector
from assay.search.embedding import Vectors
from assay.search.filters import FilterCondition
from assay.search.vector_metric import CorpusMetric

DENSE = "dense"
BM25 = "bm25"
Signal = Literal["dense", "bm25"]

FORMAT = 4
"""Of the files of an index: one of another format is built again."""

FLAT_KB = 20_000
"""An index of so many KB of vectors is kept as arrays: 13,000 chunks of 384 numbers."""

# What a search needs to know of each point that it finds.
PLACE = ["doc_id", "chunk_index", "total_chunks"]

_NAMESPACE = uuid.uuid5(uuid.NAMESPACE_URL, "assay:point")


class DamagedIndexError(SearchError):
    """The index exists but cannot be used: building it again replaces it.

    Attributes:
        damage: which index, and what is wrong with it.
    """

    def __init__(self, damage: str) -> None:
        super().__init__(
            f"{damage}; rebuild it with: assay index (vectors come from the cache)",
        )
        self.damage = damage


@lru_cache(maxsize=1 << 16)  # a hash of a hash for each of some hundred candidates of a query
def point_id(doc_id: str, chunk_index: int) -> str:
    """The same in every process, so that writing a document again replaces it."""
    return str(uuid.uuid5(_NAMESPACE, f"{chunk_index}:{doc_id}"))


def collection_name(name: str) -> str:
    """A data set's name as both a folder and Qdrant accept it."""
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", name).strip("-.")[:100] or "documents"


@dataclass(frozen=True, slots=True)
class Manifest:
    """What an index was made of, and how."""

    corpus: str
    embedder: str
    dimension: int
    chunking: str
    documents: int
    assay: str
    bm25: Bm25Model
    format: int = FORMAT
    metric: CorpusMetric | None = None
    """None for an index whose vectors are as the model gave them."""

    def compatible_with(self, other: "Manifest") -> bool:
        """Whether points of one index can be kept in the other."""
        return (
            self.bm25.same_weights(other.bm25)
            and self.metric == other.metric
            and self.same_vectors(other)
        )

    def same_vectors(self, other: "Manifest") -> bool:
        """Whether both are made with the same model, of the same chunks."""
        return self._making() == other._making()

    def _making(self) -> tuple[object, ...]:
        return (self.format, self.embedder, self.dimension, self.chunking)

    def as_json(self) -> JsonObject:
        """The form that `from_json` reads."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: JsonObject, where: str) -> "Manifest":
        """Raises `DamagedIndexError` for anything but a manifest. `where` is for the message."""
        if type(found_format := value.get("format")) is int and found_format != FORMAT:
            raise DamagedIndexError(
                f"the index at {where} was made by another version of Assay (format "
                f"{found_format}, not {FORMAT})"
            )
        try:
            own = {"bm25", "metric"}
            parts = {one.name: value[one.name] for one in fields(cls) if one.name not in own}
            bm25 = Bm25Model.from_json(value["bm25"])
            found = cls(**parts, bm25=bm25, metric=_metric(value))
            if any(type(getattr(found, name)) is not kind for name, kind in _KINDS.items()):
                raise TypeError
            return found
        except NOT_A_MODEL:
            raise DamagedIndexError(
                f"the index at {where} is damaged: its manifest cannot be parsed"
            ) from None


_KINDS = {
    **dict.fromkeys(("corpus", "embedder", "chunking", "assay"), str),
    **dict.fromkeys(("dimension", "documents", "format"), int),
}


def _metric(value: JsonObject) -> CorpusMetric | None:
    parts = value.get("metric")
    if parts is None:
        return None
    return CorpusMetric.from_json(**parts, dimension=value["dimension"])


class ChunkPayload(TypedDict):
    """What an index keeps of a chunk besides its vectors."""

    doc_id: str
    title: str
    text: str
    chunk_index: int
    total_chunks: int
    metadata: JsonObject
    content_hash: str


@dataclass(frozen=True, slots=True)
class Point:
    """One chunk. The BM25 vector is of the whole document, on its first chunk: BM25 reads texts of
    any length, and its document counts stay those of documents.
    """

    id: str
    dense: Vectors
    bm25: SparseVector | None
    payload: ChunkPayload


class Found(NamedTuple):
    """A chunk that a signal found; a tuple, as a query makes a thousand of them."""

    doc_id: str
    chunk_index: int
    total_chunks: int
    score: float


@dataclass(frozen=True, slots=True)
class Stored:
    """A chunk as the index returns it."""

    id: str
    payload: ChunkPayload
    dense: Sequence[float] = field(default=())


class Candidates(Protocol):
    """The candidate documents of one query: scores by document id, in each signal."""

    def lexical(self, query: SparseVector, depth: int = ...) -> dict[str, float]:
        """The best of the documents that share a word with the query."""
        ...

    def dense(self, vector: Vectors, *, signal: str = ...) -> dict[str, float]:
        """The nearest documents; `signal`: the name under which `ranks` tells their order."""
        ...

    def lexical_of(self, doc_ids: Collection[str], query: SparseVector) -> dict[str, float]:
        """The BM25 scores of documents that another signal found."""
        ...

    def dense_of(self, doc_ids: Collection[str], vector: Vectors) -> dict[str, float]:
        """The cosines of any documents."""
        ...

    def ranks(self) -> dict[str, dict[str, int]]:
        """The rank of each document in each signal that found it."""
        ...

    def best_chunks(self, doc_ids: Iterable[str]) -> dict[str, int]:
        """For each document with a dense score, the chunk that has it."""
        ...

    def chunks_of(self, doc_id: str) -> int:
        """How many chunks a candidate has."""
        ...

    def vectors(self, doc_ids: Sequence[str]) -> Mapping[str, Sequence[float] | Vectors]:
        """The vector of each document's best chunk, unless a server has dropped it meanwhile."""
        ...


class Searcher(Protocol):
    """An open index; safe to ask from several threads."""

    @property
    def manifest(self) -> Manifest:
        """What the index says about itself."""
        ...

    def candidates(self, where: Sequence[FilterCondition] = ()) -> Candidates:
        """The candidates of one query; `where`: the conditions that they have to meet."""
        ...

    def fetch(self, ids: Sequence[str], *, vectors: bool = False) -> list[Stored]:
        """The points that exist, in no special order; with dense vectors if asked for."""
        ...

    def matching(self, ids: Sequence[str], where: Sequence[FilterCondition]) -> set[str]:
        """The ids of those points that meet the conditions."""
        ...

    def close(self) -> None:
        """Close the index: it cannot be searched afterwards."""
        ...


class PointSearcher(Searcher, Protocol):
    """A searcher that returns points, of which `PointCandidates` makes documents."""

    def nearest(
        self,
        signal: Signal,
        vector: Vectors | SparseVector,
        limit: int,
        *,
        where: Sequence[FilterCondition] = (),
        among: Sequence[str] | None = None,
    ) -> list[Found]:
        """Best first. `among` are point ids: only these are scored."""
        ...


class IndexWriter(Protocol):
    """The next index. It replaces the live one when `commit` is called, else it is thrown away."""

    def write(self, points: Sequence[Point]) -> None:
        """Add points; one of the same id is replaced."""
        ...

    def delete(self, ids: Iterable[str]) -> None:
        """Remove points by id."""
        ...

    def commit(self) -> None:
        """Put the new index in the place of the live one."""
        ...


class Store(Protocol):
    """A place for one index: a folder, or a collection on a server."""

    @property
    def where(self) -> str:
        """The place for messages: a folder, or an address without its secrets."""
        ...

    def manifest(self) -> Manifest | None:
        """The manifest of the live index; None if there is none."""
        ...

    def entries(self) -> Iterator[tuple[str, str, int]]:
        """Document id, content hash and number of chunks of each chunk of the live index."""
        ...

    def lock(self, progress: Progress) -> AbstractContextManager[None]:
        """Waits until no other process writes this index, where the engine can know."""
        ...

    def writer(self, manifest: Manifest, *, from_live: bool) -> AbstractContextManager[IndexWriter]:
        """The next index, to be described by `manifest`; begun as a copy of the live one, or
        empty.
        """
        ...

    def open(self) -> Searcher:
        """The live index; `SearchError` if there is none."""
        ...
