"""The index on a Qdrant server or cluster: `QDRANT_URL`.

A collection is searched by its own name, and an alias tells which one is live, so that searches
never see an index that is being written. With several addresses, a request goes to the node that
answered last, and to the next one if that does not respond.
"""

import hashlib
import json
import logging
import re
import uuid
import weakref
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import lru_cache
from http import HTTPStatus
from itertools import chain, islice
from typing import Any, TypeVar

import numpy as np
from qdrant_client import QdrantClient, models
from qdrant_client.http.exceptions import UnexpectedResponse

from assay.data.dataset import Dataset, Document
from assay.errors import SearchError
from assay.progress import Progress
from assay.search.bm25 import Bm25Model, SparseVector
from assay.search.chunks import shown_text
from assay.search.embedding import Vectors
from assay.search.filters import FilterCondition, as_texts
from assay.search.qdrant_connection import (
    ClusterSettings,
    connect,
    require_usable,
    server_errors,
    shown_addresses,
)
from assay.search.store import (
    EmbeddedPart,
    IndexKey,
    Manifest,
    Near,
    OpenWords,
    Place,
    StoredChunk,
    batches,
    plain_metadata,
)
from assay.text import strip_controls

DENSE, BM25 = "dense", "bm25"

# If vectors are compressed, three times as many are found by these and scored by the whole ones.
_RESCORED = models.SearchParams(
    quantization=models.QuantizationSearchParams(rescore=True, oversampling=3.0)
)
_POINTS_IN_A_CALL = 256
# Smaller segments are searched exactly, which is as quick; the default of Qdrant.
_GRAPH_FROM_KB = 10_000
# What a search needs to know of each point that it finds.
_PLACE = ["doc_id", "chunk_index", "total_chunks"]
_NAMESPACE = uuid.uuid5(uuid.NAMESPACE_URL, "assay:point")

_Score = TypeVar("_Score", float, Near)

_log = logging.getLogger(__name__)


@lru_cache(maxsize=1 << 16)  # a hash of a hash for each of some hundred candidates of a query
def _point_id(doc_id: str, chunk_index: int) -> str:
    """The same in every process, so that writing a document again replaces it."""
    return str(uuid.uuid5(_NAMESPACE, f"{chunk_index}:{doc_id}"))


class ServerStore:
    """A collection on a server, by the alias `collection`.

    `url`: of the server, or of several with commas between them. `cluster`: how a new collection is
    sharded and replicated.
    """

    def __init__(
        self,
        url: str,
        collection: str,
        *,
        api_key: str | None = None,
        cluster: ClusterSettings | None = None,
    ) -> None:
        self._alias, self._cluster = collection, cluster or ClusterSettings()
        self._url = shown_addresses(url)
        self._client = connect(url, api_key)
        weakref.finalize(self, self._client.close)
        with server_errors(self._url):
            require_usable(self._client, self._url)

    @property
    def where(self) -> str:
        """The address without its secrets, and the collection."""
        return f"{self._url} (collection {self._alias!r})"

    def fingerprint(self, dataset: Dataset) -> str:
        """Of texts and metadata, which the server keeps and filters by."""
        digest = hashlib.sha256(dataset.corpus_fingerprint.encode())
        for document in dataset.documents.values():
            if document.metadata:
                about = json.dumps(dict(document.metadata), sort_keys=True, default=str)
                digest.update(f"{document.id}\x1f{about}\x1e".encode("utf-8", "surrogatepass"))
        return digest.hexdigest()

    def lock(self, _progress: Progress) -> AbstractContextManager[None]:
        """Nothing to lock: concurrent builds of the same index do not conflict, see `write`."""
        return nullcontext()

    def open(self, key: IndexKey, dataset: Dataset, words: OpenWords) -> "ServerIndex | None":
        """The live collection, which has the words as well; None if it is of another key."""
        if (live := self._live()) is None:
            return None
        with server_errors(self._url):
            metadata = self._client.get_collection(live).config.metadata or {}
        manifest = Manifest.from_json(metadata.get("manifest", {}), self.where)
        if manifest.key != key:
            return None
        return ServerIndex(self._client, live, manifest, self._url, keep=self)

    def write(
        self,
        key: IndexKey,
        manifest: Callable[[], Manifest],
        dataset: Dataset,
        parts: Iterable[EmbeddedPart],
    ) -> None:
        """Into a collection named after what it will hold: a build that was killed is taken up
        again, and two processes that build the same index write the same points.
        """
        name, about = f"{self._alias}--{key.digest()}", manifest()
        with server_errors(self._url):
            if name == self._live():  # a rebuild of what is live: never write into it
                name += "-again"
            if not self._client.collection_exists(name):
                self._cluster.require_nodes(self._client, self._url)
                self._create(name, about.dimension)
            documents = iter(dataset.documents.values())
            points = chain.from_iterable(_points(documents, one, about.bm25) for one in parts)
            for some in batches(points, _POINTS_IN_A_CALL):
                self._client.upsert(name, some, wait=True)
            self._switch(name, about)

    def _switch(self, name: str, manifest: Manifest) -> None:
        """Point the alias at a collection, then remove all others of this index."""
        operations: list[Any] = []
        if self._live() is not None:
            operations.append(
                models.DeleteAliasOperation(delete_alias=models.DeleteAlias(alias_name=self._alias))
            )
        created = models.CreateAlias(collection_name=name, alias_name=self._alias)
        operations.append(models.CreateAliasOperation(create_alias=created))
        self._client.update_collection(
            name,
            optimizers_config=models.OptimizersConfigDiff(indexing_threshold=_GRAPH_FROM_KB),
            metadata={"manifest": manifest.as_json(frequencies=True)},
        )
        self._client.update_collection_aliases(operations)
        ours = re.compile(rf"{re.escape(self._alias)}--[0-9a-f]{{12}}(-again)?")  # see `write`
        for one in self._client.get_collections().collections:
            if ours.fullmatch(one.name) and one.name != name:
                self._client.delete_collection(one.name)

    def _create(self, name: str, dimension: int) -> None:
        on_disk = self._cluster.on_disk or None
        dense = models.VectorParams(
            size=dimension,
            distance=models.Distance.COSINE,
            on_disk=on_disk,
            quantization_config=self._cluster.quantization_config(),
        )
        words = models.SparseIndexParams(on_disk=True) if on_disk else None
        try:
            self._client.create_collection(
                name,
                vectors_config={DENSE: dense},
                sparse_vectors_config={BM25: models.SparseVectorParams(index=words)},
                shard_number=self._cluster.shard_number,
                replication_factor=self._cluster.replication_factor,
                write_consistency_factor=self._cluster.write_consistency_factor,
                on_disk_payload=on_disk,
                # The graph of neighbors is built once, after the last point: see `_switch`.
                optimizers_config=models.OptimizersConfigDiff(indexing_threshold=0),
            )
        except UnexpectedResponse as error:
            if error.status_code != HTTPStatus.CONFLICT:  # another process was quicker
                raise

    def _live(self) -> str | None:
        with server_errors(self._url):
            live = self._aliased()
            # Qdrant says of an alias, too, that it exists; another builder may just have made it.
            if live is None and self._client.collection_exists(self._alias):
                live = self._aliased()
                if live is None:
                    raise SearchError(
                        f"{self.where} is a collection that Assay did not create; set "
                        "COLLECTION_NAME to another name"
                    )
        return live

    def _aliased(self) -> str | None:
        aliases = self._client.get_aliases().aliases
        names = [one.collection_name for one in aliases if one.alias_name == self._alias]
        return names[0] if names else None


def _points(
    documents: Iterator[Document], part: EmbeddedPart, bm25: Bm25Model
) -> Iterator[models.PointStruct]:
    """One for each chunk. BM25 is of the whole document and on its first chunk: it reads texts of
    any length, and its document counts stay those of documents.
    """
    places = zip(part.spans, part.vectors, strict=True)
    for count, document in zip(part.counts, documents, strict=False):
        for index, (span, row) in enumerate(islice(places, count)):
            vectors: dict[str, Any] = {DENSE: row.tolist()}
            if index == 0 and (words := bm25.document(document)):
                vectors[BM25] = _sparse(words)
            payload = {
                "doc_id": document.id,
                "title": strip_controls(document.title),
                "text": shown_text(document, span, count),
                "chunk_index": index,
                "total_chunks": count,
                "metadata": plain_metadata(document),
            }
            point = _point_id(document.id, index)
            yield models.PointStruct(id=point, vector=vectors, payload=payload)


def _sparse(vector: SparseVector) -> models.SparseVector:
    return models.SparseVector(indices=vector.indices, values=vector.values)


# Of a document as long as a book, so many chunks are scored when another signal found it.
_CHUNKS_SCORED = 64
# More than are needed, so that ties at the end seldom need a second look.
_TIES = 20


class ServerIndex:
    """Searches one collection by its own name: an index that takes over the alias is never mixed
    in. The name is a hash of the key, so a server with another index does not have it.

    `keep`: the store, which closes the connections when it is garbage collected.
    """

    def __init__(
        self, client: QdrantClient, collection: str, manifest: Manifest, url: str, *, keep: object
    ) -> None:
        self._client, self._collection, self._url, self._keep = client, collection, url, keep
        self.manifest = manifest
        self._total_chunks: dict[str, int] = {}  # of documents that were found

    def lexical(
        self,
        query: SparseVector,
        depth: int = 0,
        *,
        where: Sequence[FilterCondition] = (),
        among: Collection[str] | None = None,
    ) -> dict[str, float]:
        """BM25 scores of documents that share a word with the query: see `Index`."""
        if not query or (among is not None and not among):
            return {}
        if among is not None:
            places = [(doc_id, 0) for doc_id in sorted(among)]
            found = self._nearest(query, len(places), _filter(where, places))
            return {doc_id: score for (doc_id, _), score in found.items()}
        limit = depth + _TIES
        while True:
            found = self._nearest(query, limit, _filter(where))
            scores = list(found.values())
            # The engine breaks ties as it likes: all that tie with the last one are asked for.
            if len(scores) < limit or scores[-1] < scores[depth - 1]:
                return _best_first({doc_id: score for (doc_id, _), score in found.items()}, depth)
            limit *= 4

    def dense(
        self,
        vector: Vectors,
        depth: int = 0,
        *,
        where: Sequence[FilterCondition] = (),
        among: Collection[str] | None = None,
    ) -> dict[str, Near]:
        """The documents nearest to a vector: see `Index`."""
        if among is not None:
            if unknown := [(one, 0) for one in among if one not in self._total_chunks]:
                for stored in self.fetch(unknown).values():
                    self._total_chunks[stored.doc_id] = stored.total_chunks
            places = [
                (doc_id, chunk)
                for doc_id in sorted(among)
                for chunk in range(min(self._total_chunks.get(doc_id, 0), _CHUNKS_SCORED))
            ]
            if not places:
                return {}
            return _by_document(self._nearest(vector, len(places), _filter(where, places)))
        limit = 2 * depth
        while True:  # documents with many chunks: more chunks are asked for
            found = self._nearest(vector, limit, _filter(where))
            near = _by_document(found)
            if len(near) >= depth or len(found) < limit:
                return _best_first(near, depth)
            limit *= 4

    def fetch(self, places: Sequence[Place], *, vectors: bool = False) -> dict[Place, StoredChunk]:
        """The chunks that exist; with dense vectors if asked for."""
        ids = [_point_id(*place) for place in places]
        if not ids:
            return {}
        with server_errors(self._url):
            records = self._client.retrieve(
                self._collection, ids, with_vectors=[DENSE] if vectors else False
            )
        found = {}
        for record in records:
            stored: Any = record.vector or {}
            chunk = StoredChunk(**record.payload or {}, vector=stored.get(DENSE, ()))
            found[chunk.doc_id, chunk.chunk_index] = chunk
        return found

    def close(self) -> None:
        """The connections are the store's, which may open another index."""

    def _nearest(
        self, vector: Vectors | SparseVector, limit: int, condition: models.Filter | None
    ) -> dict[Place, float]:
        """The best chunks, best first."""
        words = isinstance(vector, SparseVector)
        with server_errors(self._url):
            answer = self._client.query_points(
                self._collection,
                query=_sparse(vector) if isinstance(vector, SparseVector) else vector.tolist(),
                using=BM25 if words else DENSE,
                limit=limit,
                query_filter=condition,
                search_params=None if words else _RESCORED,
                with_payload=_PLACE,
            )
        found = {}
        for point in answer.points:
            doc_id, chunk, total = ((point.payload or {})[name] for name in _PLACE)
            self._total_chunks[doc_id] = total
            # JSON carries a 32-bit float in few digits: back to the number that it was.
            found[doc_id, chunk] = float(np.float32(point.score))
        return found


def _by_document(found: Mapping[Place, float]) -> dict[str, Near]:
    """Best first comes in, so the first chunk of a document is its best."""
    near: dict[str, Near] = {}
    for (doc_id, chunk), score in found.items():
        near.setdefault(doc_id, Near(score, chunk))
    return near


def _best_first(found: Mapping[str, _Score], depth: int) -> dict[str, _Score]:
    """Equal scores in the order of ids, whatever order the server has them in."""
    score = {one: value.score if isinstance(value, Near) else value for one, value in found.items()}
    return {one: found[one] for one in sorted(found, key=lambda one: (-score[one], one))[:depth]}


def _filter(
    where: Sequence[FilterCondition], among: Sequence[Place] | None = None
) -> models.Filter | None:
    must: list[Any] = [_condition(one) for one in where]
    if among is not None:
        must.append(models.HasIdCondition(has_id=[_point_id(*place) for place in among]))
    return models.Filter(must=must) if must else None


def _condition(condition: FilterCondition) -> models.FieldCondition:
    if condition.bounds is not None:
        kind: Any = models.DatetimeRange if as_texts(condition.bounds) else models.Range
        return models.FieldCondition(key=condition.key, range=kind(**condition.bounds))
    values: list[Any] = list(condition.values)
    match: Any = (
        models.MatchValue(value=values[0]) if len(values) == 1 else models.MatchAny(any=values)
    )
    return models.FieldCondition(key=condition.key, match=match)
