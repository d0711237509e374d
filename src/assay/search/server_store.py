"""The index on a Qdrant server or cluster, under an alias that switches in one step."""

import hashlib
import logging
import re
import weakref
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from http import HTTPStatus
from typing import Any, cast

import numpy as np
from qdrant_client import QdrantClient, models
from qdrant_client.http.exceptions import UnexpectedResponse

from assay.errors import SearchError
from assay.progress import Progress
from assay.search.bm25 import SparseVector
from assay.search.embedding import Vectors
from assay.search.filters import FilterCondition, as_texts
from assay.search.fusion import PointCandidates
from assay.search.index_changes import batches
from assay.search.qdrant_cluster import (
    RESCORED,
    ClusterSettings,
    ClusterState,
    connect,
    read_state,
    require_one_cluster,
    require_version,
    server_errors,
    shown_addresses,
)
from assay.search.store import (
    BM25,
    DENSE,
    PLACE,
    ChunkPayload,
    Found,
    Manifest,
    Point,
    Signal,
    Stored,
)

_log = logging.getLogger(__name__)

_POINTS_IN_A_CALL = 256
# Smaller segments are searched exactly, which is as quick; the default of Qdrant.
_GRAPH_FROM_KB = 10_000


class ServerSearcher:
    """Searches one collection by its own name: an index that takes over the alias is never mixed
    in. The name is a hash of the manifest, so a server with another index does not have it.

    `keep`: the store, which closes the connections when it is garbage collected.
    """

    def __init__(
        self, client: QdrantClient, collection: str, manifest: Manifest, url: str, *, keep: object
    ) -> None:
        self._client, self._collection, self._url, self._keep = client, collection, url, keep
        self.manifest = manifest

    def candidates(self, where: Sequence[FilterCondition] = ()) -> PointCandidates:
        """The candidates of one query: see `Searcher`."""
        return PointCandidates(self, where)

    def nearest(
        self,
        signal: Signal,
        vector: Vectors | SparseVector,
        limit: int,
        *,
        where: Sequence[FilterCondition] = (),
        among: Sequence[str] | None = None,
    ) -> list[Found]:
        """The best points, best first: see `Searcher`."""
        with server_errors(self._url):
            answer = self._client.query_points(
                self._collection,
                query=sparse(vector) if isinstance(vector, SparseVector) else vector.tolist(),
                using=signal,
                limit=limit,
                query_filter=_filter(where, among),
                search_params=RESCORED if signal == DENSE else None,
                with_payload=PLACE,
            )
        return [_found(point) for point in answer.points]

    def fetch(self, ids: Sequence[str], *, vectors: bool = False) -> list[Stored]:
        """The points that exist, with their dense vectors if asked for."""
        with server_errors(self._url):
            records = self._client.retrieve(
                self._collection, list(ids), with_vectors=[DENSE] if vectors else False
            )
        return [_stored(record) for record in records]

    def matching(self, ids: Sequence[str], where: Sequence[FilterCondition]) -> set[str]:
        """The ids of those points that meet the conditions."""
        with server_errors(self._url):
            records, _ = self._client.scroll(
                self._collection,
                scroll_filter=_filter(where, ids),
                limit=max(1, len(ids)),
                with_payload=False,
            )
        return {str(record.id) for record in records}

    def close(self) -> None:
        """The connections are the store's, which may open another searcher."""


class ServerStore:
    """A collection on a server, by the alias `collection`.

    Parameters:
        url: of the server, or of several with commas between them; users and passwords in it
            never appear in messages.
        collection: the alias that searches go to.
        api_key: sent with every request.
        cluster: how a new collection is sharded and replicated.
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
            require_version(self._client.info().version, self._url)
            require_one_cluster(self._client)

    @property
    def where(self) -> str:
        """The address without its secrets, and the collection."""
        return f"{self._url} (collection {self._alias!r})"

    def manifest(self) -> Manifest | None:
        """The manifest of the live collection; None if there is none."""
        live = self._live()
        return None if live is None else self._manifest_of(live)

    def _manifest_of(self, collection: str) -> Manifest:
        with server_errors(self._url):
            metadata = self._client.get_collection(collection).config.metadata or {}
        return Manifest.from_json(metadata.get("manifest", {}), self.where)

    def cluster_state(self) -> ClusterState | None:
        """Which nodes and copies of the live collection are missing; None without a cluster."""
        with server_errors(self._url):
            live = self._live()
            return None if live is None else read_state(self._client, live)

    def entries(self) -> Iterator[tuple[str, str, int]]:
        """Document id, content hash and number of chunks, of each chunk of the live index."""
        wanted = ["doc_id", "content_hash", "total_chunks"]
        for record in self._points(wanted, vectors=False):
            payload = record.payload or {}
            yield payload["doc_id"], payload["content_hash"], payload["total_chunks"]

    def open(self) -> ServerSearcher:
        """A searcher over the live collection; `SearchError` if there is none."""
        live = self._live()
        if live is None:
            raise SearchError(f"there is no index at {self.where}; build it: assay index")
        manifest = self._manifest_of(live)
        with server_errors(self._url):
            state = read_state(self._client, live)
        if state is not None and state.warning:
            _log.warning("%s", state.warning)
        with server_errors(self._url):
            self._cluster.warn_of_others(self._client, live, self.where)
        return ServerSearcher(self._client, live, manifest, self._url, keep=self)

    def lock(self, _progress: Progress) -> AbstractContextManager[None]:
        """Nothing to lock: concurrent builds of the same index do not conflict, see `writer`."""
        return nullcontext()

    @contextmanager
    def writer(self, manifest: Manifest, *, from_live: bool) -> Iterator["ServerWriter"]:
        """Named after what it will hold: a build that was killed is taken up again, and two
        processes that build the same index write the same points.
        """
        key = hashlib.sha256(repr(sorted(manifest.as_json().items())).encode()).hexdigest()[:12]
        name = f"{self._alias}--{key}"
        with server_errors(self._url):
            if name == self._live():  # a rebuild of what is live: never write into it
                name += "-again"
            if self._client.collection_exists(name):
                self._cluster.warn_of_others(self._client, name, self.where)
            else:
                self._cluster.require_nodes(self._client, self._url)
                try:
                    self._create(name, manifest.dimension)
                except UnexpectedResponse as error:
                    if error.status_code != HTTPStatus.CONFLICT:  # another process was quicker
                        raise
        yield ServerWriter(self, name, manifest, copy=from_live)

    def copy_live(self, target: str, leave_out: set[str]) -> None:
        """Copy the points of the live collection to `target`, except those in `leave_out`."""
        kept = (
            models.PointStruct(id=one.id, vector=cast(Any, one.vector), payload=one.payload)
            for one in self._points(True, vectors=True)
            if str(one.id) not in leave_out
        )
        for some in batches(kept, _POINTS_IN_A_CALL):
            self._upsert(target, some)

    def write(self, target: str, points: Sequence[Point]) -> None:
        """Write points to a collection, some at a time."""
        for some in batches(points, _POINTS_IN_A_CALL):
            self._upsert(target, [_struct(point) for point in some])

    def _upsert(self, target: str, points: list[models.PointStruct]) -> None:
        with server_errors(self._url):
            self._client.upsert(target, points, wait=True)

    def switch(self, name: str, manifest: Manifest) -> None:
        """Point the alias at a collection, then remove all others of this index."""
        old = self._live()
        operations: list[Any] = []
        if old is not None:
            operations.append(
                models.DeleteAliasOperation(delete_alias=models.DeleteAlias(alias_name=self._alias))
            )
        created = models.CreateAlias(collection_name=name, alias_name=self._alias)
        operations.append(models.CreateAliasOperation(create_alias=created))
        with server_errors(self._url):
            self._client.update_collection(
                name,
                optimizers_config=models.OptimizersConfigDiff(indexing_threshold=_GRAPH_FROM_KB),
                metadata={"manifest": manifest.as_json()},
            )
            self._client.update_collection_aliases(operations)
            self._remove_all_but(name)

    def _remove_all_but(self, live: str) -> None:
        ours = re.compile(rf"{re.escape(self._alias)}--[0-9a-f]{{12}}(-again)?")  # see `writer`
        for one in self._client.get_collections().collections:
            if ours.fullmatch(one.name) and one.name != live:
                self._client.delete_collection(one.name)

    def _create(self, name: str, dimension: int) -> None:
        dense = models.VectorParams(
            size=dimension,
            distance=models.Distance.COSINE,
            on_disk=self._cluster.on_disk or None,
            quantization_config=self._cluster.quantization_config(),
        )
        words = models.SparseIndexParams(on_disk=True) if self._cluster.on_disk else None
        self._client.create_collection(
            name,
            vectors_config={DENSE: dense},
            sparse_vectors_config={BM25: models.SparseVectorParams(index=words)},
            shard_number=self._cluster.shard_number,
            replication_factor=self._cluster.replication_factor,
            write_consistency_factor=self._cluster.write_consistency_factor,
            on_disk_payload=self._cluster.on_disk or None,
            # The graph of neighbors is built once, after the last point: see `switch`.
            optimizers_config=models.OptimizersConfigDiff(indexing_threshold=0),
        )

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

    def _points(self, payload: Any, *, vectors: bool) -> Iterator[models.Record]:
        offset: Any = None
        while True:
            with server_errors(self._url):
                records, offset = self._client.scroll(
                    self._alias,
                    limit=_POINTS_IN_A_CALL,
                    offset=offset,
                    with_payload=payload,
                    with_vectors=vectors,
                )
            yield from records
            if offset is None:
                return


class ServerWriter:
    """Live points are copied at the end, when it is known which of them are replaced."""

    def __init__(self, store: ServerStore, name: str, manifest: Manifest, *, copy: bool) -> None:
        self._store, self._name, self._manifest, self._copy = store, name, manifest, copy
        self._replaced: set[str] = set()

    def write(self, points: Sequence[Point]) -> None:
        """Write points to the next collection."""
        if self._copy:
            self._replaced |= {point.id for point in points}
        self._store.write(self._name, points)

    def delete(self, ids: Iterable[str]) -> None:
        """Leave these points of the live collection out."""
        if self._copy:
            self._replaced.update(ids)

    def commit(self) -> None:
        """Copy what stays and make the next collection the live one."""
        if self._copy:
            self._store.copy_live(self._name, self._replaced)
        self._store.switch(self._name, self._manifest)


def _struct(point: Point) -> models.PointStruct:
    vectors: dict[str, Any] = {DENSE: point.dense.tolist()}
    if point.bm25:
        vectors[BM25] = sparse(point.bm25)
    return models.PointStruct(id=point.id, vector=vectors, payload=dict(point.payload))


def sparse(vector: SparseVector) -> models.SparseVector:
    """The vector as the client sends it."""
    return models.SparseVector(indices=vector.indices, values=vector.values)


def _filter(where: Sequence[FilterCondition], among: Sequence[str] | None) -> models.Filter | None:
    must: list[Any] = [_condition(one) for one in where]
    if among is not None:
        must.append(models.HasIdCondition(has_id=list(among)))
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


def _found(point: models.ScoredPoint) -> Found:
    payload = point.payload or {}
    # JSON carries a 32-bit float in few digits: back to the number that it was.
    score = float(np.float32(point.score))
    return Found(payload["doc_id"], payload["chunk_index"], payload["total_chunks"], score)


def _stored(record: models.Record) -> Stored:
    vectors: Any = record.vector or {}
    payload = cast(ChunkPayload, record.payload or {})
    return Stored(str(record.id), payload, vectors.get(DENSE, ()))
