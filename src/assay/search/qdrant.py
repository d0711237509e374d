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
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import lru_cache
from http import HTTPStatus
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from qdrant_client import QdrantClient, models
from qdrant_client.http.exceptions import UnexpectedResponse

from assay.data.dataset import Dataset
from assay.errors import SearchError
from assay.progress import Progress
from assay.search.bm25 import Bm25Model, SparseVector
from assay.search.bm25_index import Bm25Index
from assay.search.embedding import Vectors
from assay.search.filters import FilterCondition, as_texts
from assay.search.fusion import DEPTH, ranked, ranks_in
from assay.search.qdrant_connection import (
    ClusterSettings,
    connect,
    missing_copies,
    require_one_cluster,
    require_version,
    server_errors,
    shown_addresses,
)
from assay.search.store import (
    EmbeddedDocument,
    IndexKey,
    Manifest,
    Place,
    StoredChunk,
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

_log = logging.getLogger(__name__)


@lru_cache(maxsize=1 << 16)  # a hash of a hash for each of some hundred candidates of a query
def _point_id(doc_id: str, chunk_index: int) -> str:
    """The same in every process, so that writing a document again replaces it."""
    return str(uuid.uuid5(_NAMESPACE, f"{chunk_index}:{doc_id}"))


class ServerStore:
    """A collection on a server, by the alias `collection`.

    Parameters:
        url: of the server, or of several with commas between them; users and passwords in it
            never appear in messages.
        collection: the alias of the live collection.
        api_key: sent with every request.
        cluster: how a new collection is sharded and replicated.
    """

    needs_words = False

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
            require_version(self._client.info().version, self._url)
            require_one_cluster(self._client)

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

    def manifest(self) -> Manifest | None:
        """The manifest of the live collection; None if there is none."""
        live = self._live()
        return None if live is None else self._manifest_of(live)

    def _manifest_of(self, collection: str) -> Manifest:
        with server_errors(self._url):
            metadata = self._client.get_collection(collection).config.metadata or {}
        return Manifest.from_json(metadata.get("manifest", {}), self.where)

    def lock(self, _progress: Progress) -> AbstractContextManager[None]:
        """Nothing to lock: concurrent builds of the same index do not conflict, see `write`."""
        return nullcontext()

    def open(
        self, key: IndexKey, dataset: Dataset, words: Bm25Index | None
    ) -> "ServerSearcher | None":
        """A searcher over the live collection; None if that is of another key."""
        live = self._live()
        manifest = None if live is None else self._manifest_of(live)
        if live is None or manifest is None or manifest.key != key:
            return None
        with server_errors(self._url):
            if warning := missing_copies(self._client, live):
                _log.warning("%s", warning)
        return ServerSearcher(self._client, live, manifest, self._url, keep=self)

    def write(self, manifest: Manifest, documents: Iterable[Sequence[EmbeddedDocument]]) -> None:
        """Into a collection named after what it will hold: a build that was killed is taken up
        again, and two processes that build the same index write the same points.
        """
        name = f"{self._alias}--{manifest.key.digest()}"
        with server_errors(self._url):
            if name == self._live():  # a rebuild of what is live: never write into it
                name += "-again"
            if not self._client.collection_exists(name):
                self._cluster.require_nodes(self._client, self._url)
                self._create(name, manifest.dimension)
            for some in documents:
                points = list(chain.from_iterable(_points(one, manifest.bm25) for one in some))
                for start in range(0, len(points), _POINTS_IN_A_CALL):
                    part = points[start : start + _POINTS_IN_A_CALL]
                    self._client.upsert(name, part, wait=True)
            self._switch(name, manifest)

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


def _points(embedded: EmbeddedDocument, bm25: Bm25Model) -> Iterator[models.PointStruct]:
    """One for each chunk. BM25 is of the whole document and on its first chunk: it reads texts of
    any length, and its document counts stay those of documents.
    """
    document, chunks, rows = embedded
    for index, (chunk, row) in enumerate(zip(chunks, rows, strict=True)):
        vectors: dict[str, Any] = {DENSE: row.tolist()}
        if index == 0 and (words := bm25.document(document)):
            vectors[BM25] = _sparse(words)
        payload = {
            "doc_id": document.id,
            "title": strip_controls(document.title),
            "text": chunk.text,
            "chunk_index": index,
            "total_chunks": len(chunks),
            "metadata": plain_metadata(document),
        }
        yield models.PointStruct(id=_point_id(document.id, index), vector=vectors, payload=payload)


def _sparse(vector: SparseVector) -> models.SparseVector:
    return models.SparseVector(indices=vector.indices, values=vector.values)


class _Found(NamedTuple):
    """A chunk that a signal found."""

    doc_id: str
    chunk_index: int
    total_chunks: int
    score: float


class ServerSearcher:
    """Searches one collection by its own name: an index that takes over the alias is never mixed
    in. The name is a hash of the key, so a server with another index does not have it.

    `keep`: the store, which closes the connections when it is garbage collected.
    """

    def __init__(
        self, client: QdrantClient, collection: str, manifest: Manifest, url: str, *, keep: object
    ) -> None:
        self._client, self._collection, self._url, self._keep = client, collection, url, keep
        self.manifest = manifest

    def candidates(self, where: Sequence[FilterCondition] = ()) -> "ServerCandidates":
        """The candidates of one query: see `Searcher`."""
        return ServerCandidates(self, where)

    def nearest(
        self,
        vector: Vectors | SparseVector,
        limit: int,
        *,
        where: Sequence[FilterCondition] = (),
        among: Sequence[Place] | None = None,
    ) -> list[_Found]:
        """The best chunks, best first; `among`: only these are scored."""
        words = isinstance(vector, SparseVector)
        with server_errors(self._url):
            answer = self._client.query_points(
                self._collection,
                query=_sparse(vector) if isinstance(vector, SparseVector) else vector.tolist(),
                using=BM25 if words else DENSE,
                limit=limit,
                query_filter=_filter(where, among),
                search_params=None if words else _RESCORED,
                with_payload=_PLACE,
            )
        # JSON carries a 32-bit float in few digits: back to the number that it was.
        return [
            _Found(**{name: payload[name] for name in _PLACE}, score=float(np.float32(point.score)))
            for point in answer.points
            if (payload := point.payload)
        ]

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

    def matching(self, doc_ids: Sequence[str], where: Sequence[FilterCondition]) -> set[str]:
        """Those of the documents that meet the conditions."""
        with server_errors(self._url):
            records, _ = self._client.scroll(
                self._collection,
                scroll_filter=_filter(where, [(one, 0) for one in doc_ids]),
                limit=max(1, len(doc_ids)),
                with_payload=["doc_id"],
            )
        return {str((record.payload or {})["doc_id"]) for record in records}

    def close(self) -> None:
        """The connections are the store's, which may open another searcher."""


# Of a document as long as a book, an engine scores this many chunks when another signal found it.
_CHUNKS_SCORED = 64
# More than are needed, so that ties at the end seldom need a second look.
_TIES = 20

_Scores = dict[str, float]


class ServerCandidates:
    """The candidates of one query, from a server that is asked for chunks: see `Candidates`."""

    def __init__(self, searcher: ServerSearcher, where: Sequence[FilterCondition] = ()) -> None:
        self._searcher, self._where = searcher, where
        self._chunks: dict[str, int] = {}
        self._best_chunk: dict[str, int] = {}
        self._found_by: dict[str, list[str]] = {}

    def lexical(self, query: SparseVector, depth: int = DEPTH) -> _Scores:
        """The best of the documents that share a word with the query.

        An engine breaks ties as it likes: all documents that tie with the last one are asked for.
        """
        if not query:
            return {}
        limit = depth + _TIES
        while True:
            found = self._searcher.nearest(query, limit, where=self._where)
            if len(found) < limit or found[-1].score < found[depth - 1].score:
                break
            limit *= 4
        scores = self._by_document(found)
        order = ranked(scores)[:depth]
        self._found_by["bm25"] = order
        return {doc_id: scores[doc_id] for doc_id in order}

    def dense(self, vector: Vectors, *, signal: str = "dense") -> _Scores:
        """The nearest documents; where they have many chunks, more chunks are asked for."""
        limit = 2 * DEPTH
        while True:
            found = self._searcher.nearest(vector, limit, where=self._where)
            scores = self._by_document(found, self._best_chunk)
            if len(scores) >= DEPTH or len(found) < limit:
                break
            limit *= 4
        order = ranked(scores)[:DEPTH]
        self._found_by[signal] = order
        return {doc_id: scores[doc_id] for doc_id in order}

    def lexical_of(self, doc_ids: Iterable[str], query: SparseVector) -> _Scores:
        """Documents that another signal found."""
        among = [(doc_id, 0) for doc_id in sorted(doc_ids)]
        if not query or not among:
            return {}
        return self._by_document(self._searcher.nearest(query, len(among), among=among))

    def dense_of(self, doc_ids: Collection[str], vector: Vectors) -> _Scores:
        """Documents that another signal, or none, found."""
        if unknown := [(one, 0) for one in doc_ids if one not in self._chunks]:
            for stored in self._searcher.fetch(unknown).values():
                self._chunks[stored.doc_id] = stored.total_chunks
        among = [
            (doc_id, chunk)
            for doc_id in sorted(doc_ids)
            for chunk in range(min(self._chunks.get(doc_id, 0), _CHUNKS_SCORED))
        ]
        if not among:
            return {}
        found = self._searcher.nearest(vector, len(among), among=among)
        return self._by_document(found, self._best_chunk)

    def ranks(self) -> dict[str, dict[str, int]]:
        """Of each document in each signal that found it."""
        return ranks_in(self._found_by)

    def best_chunks(self, doc_ids: Iterable[str]) -> dict[str, int]:
        """Of documents with a dense score, the chunk that it is of."""
        return {one: self._best_chunk[one] for one in doc_ids if one in self._best_chunk}

    def chunks_of(self, doc_id: str) -> int:
        """How many chunks the document has."""
        return self._chunks[doc_id]

    def vectors(self, doc_ids: Sequence[str]) -> dict[str, Sequence[float] | Vectors]:
        """Of each document's best chunk; a server may have dropped it since it was found."""
        places = [(one, self._best_chunk.get(one, 0)) for one in doc_ids]
        stored = self._searcher.fetch(places, vectors=True)
        return {place[0]: stored[place].vector for place in places if place in stored}

    def _by_document(
        self, found: Iterable[_Found], best_chunk: dict[str, int] | None = None
    ) -> _Scores:
        """Best first comes in, so the first chunk of a document is its best."""
        scores: _Scores = {}
        for one in found:
            if one.doc_id not in scores:
                scores[one.doc_id] = one.score
                self._chunks[one.doc_id] = one.total_chunks
                if best_chunk is not None:
                    best_chunk[one.doc_id] = one.chunk_index
        return scores


def _filter(
    where: Sequence[FilterCondition], among: Sequence[Place] | None
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
