"""The index on a Qdrant server or cluster: `QDRANT_URL`.

A collection is searched by its own name, and an alias tells which one is live, so that searches
never see an index that is being written.
"""

import logging
import re
import time
import uuid
import weakref
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import lru_cache, partial
from http import HTTPStatus
from itertools import islice
from typing import Any, cast
from urllib.parse import urlsplit

import numpy as np
from qdrant_client import QdrantClient, models
from qdrant_client.http.exceptions import ResponseHandlingException, UnexpectedResponse

from assay.errors import GATEWAY_ERRORS, SearchError, SearchUnavailable, UsageError
from assay.net.redact import redact_url
from assay.progress import Progress
from assay.search.embedding import Vectors, batches
from assay.search.store import (
    EmbeddedPart,
    IndexKey,
    Manifest,
    Near,
    OpenWords,
    Place,
    StoredChunk,
)

# If the server compresses vectors, three times as many are found by these and scored whole.
_RESCORED = models.SearchParams(
    quantization=models.QuantizationSearchParams(rescore=True, oversampling=3.0)
)
_POINTS_IN_A_CALL = 256
# Smaller segments are searched exactly, which is as quick; the default of Qdrant.
_GRAPH_FROM_KB = 10_000
# A filter names each chunk that it allows; of more documents, some of all points are asked for
# until enough of them are allowed.
_MAX_NAMED = 2000
# Of a document as long as a book, so many chunks are scored when another signal found it.
_CHUNKS_SCORED = 64
_NAMESPACE = uuid.uuid5(uuid.NAMESPACE_URL, "assay:point")

_log = logging.getLogger(__name__)


@lru_cache(maxsize=1 << 16)  # a hash of a hash for each of some hundred candidates of a query
def _point_id(doc_id: str, chunk_index: int) -> str:
    """The same in every process, so that writing a document again replaces it."""
    return str(uuid.uuid5(_NAMESPACE, f"{chunk_index}:{doc_id}"))


class ServerStore:
    """ServerStore("http://node1:6333,http://node2:6333", "notes", shards=3, copies=2)

    One server, or the nodes of one cluster. `shards` and `copies` are for a new collection.
    """

    def __init__(
        self,
        url: str,
        collection: str,
        *,
        api_key: str | None = None,
        shards: int | None = None,
        copies: int | None = None,
    ) -> None:
        self._alias, self._shards, self._copies = collection, shards, copies
        self.url = shown_addresses(url)
        self.client = connect(url, api_key)
        weakref.finalize(self, self.client.close)

    @property
    def where(self) -> str:
        """The address without its secrets, and the collection."""
        return f"{self.url} (collection {self._alias!r})"

    def lock(self, _progress: Progress) -> AbstractContextManager[None]:
        """Nothing to lock: concurrent builds of the same index do not conflict, see `write`."""
        return nullcontext()

    def open(self, key: IndexKey, _words: OpenWords, *, deep: bool = False) -> "ServerIndex | None":
        """The live collection; None if it is of another key."""
        if (live := self._live()) is None:
            return None
        with server_errors(self.url):
            metadata = self.client.get_collection(live).config.metadata or {}
        manifest = Manifest.from_json(metadata.get("manifest", {}), self.where)
        return ServerIndex(self, live, manifest) if manifest.key == key else None

    def write(self, manifest: Manifest, parts: Iterable[EmbeddedPart]) -> None:
        """Into a collection named after what it will hold: a build that was killed is taken up
        again, and two processes that build the same index write the same points.
        """
        name = f"{self._alias}--{manifest.key.digest()}"
        with server_errors(self.url):
            if not self.client.collection_exists(name):
                self._create(name, manifest.dimension)
            points = (point for one in parts for point in _points(one))
            for some in batches(points, _POINTS_IN_A_CALL):
                self.client.upsert(name, some, wait=True)
            self._switch(name, manifest)

    def _switch(self, name: str, manifest: Manifest) -> None:
        """Point the alias at a collection, then remove all others of this index."""
        before = models.DeleteAlias(alias_name=self._alias)
        after = models.CreateAlias(collection_name=name, alias_name=self._alias)
        operations: list[Any] = [models.CreateAliasOperation(create_alias=after)]
        if self._live() is not None:
            operations.insert(0, models.DeleteAliasOperation(delete_alias=before))
        self.client.update_collection(
            name,
            optimizers_config=models.OptimizersConfigDiff(indexing_threshold=_GRAPH_FROM_KB),
            metadata={"manifest": manifest.as_json()},
        )
        # Both in one call, which Qdrant applies as one: no search finds the alias missing.
        self.client.update_collection_aliases(operations)
        ours = re.compile(rf"{re.escape(self._alias)}--[0-9a-f]{{12}}")  # see `write`
        for one in self.client.get_collections().collections:
            if ours.fullmatch(one.name) and one.name != name:
                self.client.delete_collection(one.name)

    def _create(self, name: str, dimension: int) -> None:
        nodes, copies = len(_peers(self.client)) or 1, self._copies or 1
        if copies > nodes:  # Qdrant would make fewer copies, and none later
            raise SearchError(
                f"a replication factor of {copies} needs {copies} nodes, and Qdrant at {self.url} "
                f"has {nodes}: start the others first"
            )
        try:
            self.client.create_collection(
                name,
                vectors_config=models.VectorParams(size=dimension, distance=models.Distance.COSINE),
                shard_number=self._shards,
                replication_factor=self._copies,
                # The graph of neighbors is built once, after the last point: see `_switch`.
                optimizers_config=models.OptimizersConfigDiff(indexing_threshold=0),
            )
        except UnexpectedResponse as error:
            if error.status_code != HTTPStatus.CONFLICT:  # another process was quicker
                raise

    def _live(self) -> str | None:
        with server_errors(self.url):
            aliases = self.client.get_aliases().aliases
            collections = {one.name for one in self.client.get_collections().collections}
        if self._alias in collections:  # which has no aliases among them
            raise SearchError(
                f"{self.where} is a collection that Assay did not create; set COLLECTION_NAME to "
                "another name"
            )
        return {one.alias_name: one.collection_name for one in aliases}.get(self._alias)


def _points(part: EmbeddedPart) -> Iterator[models.PointStruct]:
    places = zip(part.spans, part.vectors, strict=True)
    for doc_id, total in zip(part.ids, part.counts, strict=True):
        for chunk, (span, vector) in enumerate(islice(places, total)):
            yield models.PointStruct(
                id=_point_id(doc_id, chunk),
                vector=vector.tolist(),
                payload={"doc_id": doc_id, "chunk": chunk, "total": total, "span": list(span)},
            )


class ServerIndex:
    """Searches one collection by its own name: an index that takes over the alias is never mixed
    in. The name is a hash of the key, so a server with another index does not have it.
    """

    def __init__(self, store: ServerStore, collection: str, manifest: Manifest) -> None:
        # The store closes the connections when it is garbage collected.
        self._store, self._collection, self.manifest = store, collection, manifest
        self._client, self._url = store.client, store.url
        self._totals: dict[str, int] = {}  # chunks of the documents that were found

    def nearest(
        self, vector: Vectors, count: int = 0, *, among: Collection[str] | None = None
    ) -> dict[str, Near]:
        """The documents nearest to a vector: see `Index`."""
        condition, limit = None, 2 * count
        if among is not None and len(among) <= _MAX_NAMED:
            unknown = [(one, 0) for one in among if one not in self._totals]
            self._totals |= {place[0]: one.total for place, one in self.chunks(unknown).items()}
            named: list[models.ExtendedPointId] = [
                _point_id(doc_id, chunk)
                for doc_id in sorted(among)
                for chunk in range(self._totals.get(doc_id, 0))[: None if count else _CHUNKS_SCORED]
            ]
            if not named:
                return {}
            condition = models.Filter(must=[models.HasIdCondition(has_id=named)])
            limit = len(named)
        while True:  # documents with many chunks, or few that are allowed: ask for more
            found = self._points(vector, limit, condition)
            near: dict[str, Near] = {}
            for (doc_id, chunk), score in found.items():
                if among is None or doc_id in among:
                    near.setdefault(doc_id, Near(score, chunk))
            if len(near) >= count or len(found) < limit or condition:
                # Equal scores in the order of ids, whatever order the server has them in.
                order = sorted(near, key=lambda one: (-near[one].score, one))
                return {one: near[one] for one in order[: count or None]}
            limit *= 4

    def chunks(self, places: Iterable[Place], *, vectors: bool = False) -> dict[Place, StoredChunk]:
        """Those that exist; with vectors if asked for."""
        ids = [_point_id(*place) for place in places]
        if not ids:
            return {}
        with server_errors(self._url):
            records = self._client.retrieve(self._collection, ids, with_vectors=vectors)
        found = {}
        for record in records:
            about: Any = record.payload
            vector = cast(list[float], record.vector or ())
            start, stop = about["span"]
            chunk = StoredChunk((start, stop), about["total"], vector)
            found[about["doc_id"], about["chunk"]] = chunk
        return found

    def _points(
        self, vector: Vectors, limit: int, condition: models.Filter | None
    ) -> dict[Place, float]:
        """The best chunks, best first."""
        with server_errors(self._url):
            answer = self._client.query_points(
                self._collection,
                query=vector.tolist(),
                limit=limit,
                query_filter=condition,
                search_params=_RESCORED,
                with_payload=["doc_id", "chunk", "total"],
            )
        found = {}
        for point in answer.points:
            about: Any = point.payload
            self._totals[about["doc_id"]] = about["total"]
            # JSON carries a 32-bit float in few digits: back to the number that it was.
            found[about["doc_id"], about["chunk"]] = float(np.float32(point.score))
        return found


# For the state of a node, and for a search before the next node is asked.
_TIMEOUT_S, _STATUS_S, _READ_S = 60, 5, 10
# While nodes elect a leader, which takes seconds, they refuse to write.
_WRITE_ROUNDS, _ELECTION_S = 10, 1.0
_STATUS, _READS = ("info", "cluster_status"), ("query_points", "retrieve")
# Collections keep metadata since then, where the manifest of an index lives.
_MIN_VERSION = (1, 16)
# How a node says that other nodes of its cluster, which hold the points, do not respond.
_OTHERS_AWAY = (b"operations failed", b"status: Unavailable", b"No leader", b"consensus operation")
_CLIENT_ERRORS = (ResponseHandlingException, UnexpectedResponse)


def connect(urls: str, api_key: str | None) -> QdrantClient:
    """A client of the server, or of the nodes of one cluster, that QDRANT_URL names.

    Raises `SearchError` for an old version, `SearchUnavailable` if nothing responds.
    """
    addresses = urls.split(",")
    clients = [_client(url, api_key, _TIMEOUT_S) for url in addresses]
    client = clients[0]
    if len(clients) > 1:
        probes = [_client(url, api_key, _STATUS_S) for url in addresses]
        client = cast(QdrantClient, FailoverClient(clients, probes))
    shown = shown_addresses(urls)
    with server_errors(shown):
        version = client.info().version
        numbers = tuple(int(part) for part in version[:40].split(".")[:2] if part.isdecimal())
        if numbers and numbers < _MIN_VERSION:
            raise SearchError(
                f"Qdrant at {shown} is {version}; Assay needs {'.'.join(map(str, _MIN_VERSION))} "
                "or newer. Update the server, or unset QDRANT_URL"
            )
        if isinstance(client, FailoverClient):
            client.require_one_cluster()
    return client


def _peers(client: QdrantClient) -> set[str]:
    """The nodes of the cluster; empty for a standalone server."""
    status = client.cluster_status()
    return set(status.peers) if isinstance(status, models.ClusterStatusOneOf1) else set()


def shown_addresses(urls: str) -> str:
    """The addresses without users and passwords, for messages. Raises `UsageError`."""
    shown = []
    for url in urls.split(","):
        parts = urlsplit(url.strip())
        try:
            valid = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
        except ValueError:
            valid = False
        if not valid:
            raise UsageError(
                "QDRANT_URL must be an http(s) URL such as http://localhost:6333, or several with "
                "commas between them"
            )
        shown.append(redact_url(f"{parts.scheme}://{parts.netloc}"))
    return ", ".join(shown)


def _client(url: str, api_key: str | None, timeout: int) -> QdrantClient:
    # `connect` compares the version itself: the client's own check only warns.
    options: dict[str, Any] = {"timeout": timeout, "check_compatibility": False}
    return QdrantClient(url=url.strip(), api_key=api_key, **options)


class FailoverClient:
    """Has the methods of a `QdrantClient`, each sent to the node that answered last, and to the
    next one of the same cluster if that does not respond.

    `probes`: as `clients`, one for each node, for requests that are answered at once or never.
    """

    def __init__(self, clients: Sequence[QdrantClient], probes: Sequence[QdrantClient]) -> None:
        self._clients, self._probes = clients, probes
        self._current = 0
        self._peers: set[str] = set()

    def close(self) -> None:
        """Close all connections."""
        for client in (*self._clients, *self._probes):
            client.close()

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return partial(self._first_answer, name)

    def require_one_cluster(self) -> None:
        """Compare the nodes that respond; the others are compared before they are first asked."""
        for place in range(len(self._probes)):
            try:
                self._require_member(place)
            except _CLIENT_ERRORS as error:
                if not _is_away(error):
                    raise

    def _require_member(self, place: int) -> None:
        peers = _peers(self._probes[place])
        if not peers or (self._peers and not peers & self._peers):
            # A standalone server may have an older index under the same name.
            raise SearchUnavailable(
                f"server {place + 1} of the {len(self._probes)} in QDRANT_URL is not a node of "
                "their cluster: name one server, or the nodes of one cluster"
            )
        self._peers |= peers

    def _first_answer(self, name: str, *arguments: Any, **options: Any) -> Any:
        servers = self._probes if name in _STATUS else self._clients
        places = [(self._current + step) % len(servers) for step in range(len(servers))]
        # A node that stalls keeps a search waiting for 10 s. If all are slow, the cluster is busy,
        # and gets the time that one server has.
        reads = name in _READS
        rounds: list[dict[str, Any]] = [{"timeout": _READ_S}, {}] if reads else [{}] * _WRITE_ROUNDS
        problem: ResponseHandlingException | UnexpectedResponse | None = None
        for number, limit in enumerate(rounds):
            if number and not reads:
                if not isinstance(problem, UnexpectedResponse):
                    break  # no node responds
                time.sleep(_ELECTION_S)  # the nodes elect a leader in place of one that is gone
            for place in places:
                try:
                    if place != self._current:  # also a node that has been replaced since
                        self._require_member(place)
                    answer = getattr(servers[place], name)(*arguments, **options | limit)
                except _CLIENT_ERRORS as error:
                    if not _is_away(error, slow_too=bool(limit)):
                        raise
                    if not number:  # once, however often it is asked again
                        away = place + 1, len(servers)
                        _log.warning("Qdrant server %s of %s does not respond", *away)
                    if problem is None or isinstance(error, UnexpectedResponse):
                        problem = error  # a node that responds says more than one that is gone
                else:
                    self._current = place
                    return answer
        assert problem is not None, "there is at least one client"
        raise problem


def _is_away(error: Exception, *, slow_too: bool = False) -> bool:
    """Whether another node may answer instead. `slow_too`: also a request that took too long."""
    if not isinstance(error, UnexpectedResponse) or error.status_code in GATEWAY_ERRORS:
        return True
    if error.status_code == HTTPStatus.REQUEST_TIMEOUT:
        return slow_too
    return error.status_code == 500 and any(words in error.content for words in _OTHERS_AWAY)


@contextmanager
def server_errors(urls: str) -> Iterator[None]:
    """Turn the client's errors into messages for the operator, without payloads."""
    try:
        yield
    except _CLIENT_ERRORS as error:
        raise _search_error(urls, error) from error


def _search_error(urls: str, error: Exception) -> SearchError:
    status, content = getattr(error, "status_code", None), getattr(error, "content", b"")
    if _is_away(error):
        why = getattr(error, "source", f"HTTP {status}")
        if status == 500:
            return SearchUnavailable(
                f"too many nodes of the Qdrant cluster at {urls} do not respond: start them and "
                "run this again; nothing is lost"
            )
        return SearchUnavailable(
            f"Qdrant at {urls} does not respond ({why}); start it, or correct QDRANT_URL"
        )
    if status == 404 and b"doesn't exist" in content:
        return SearchUnavailable(
            f"another command has replaced the index at {urls} in the meantime: run this one again"
        )
    hint = "set QDRANT_API_KEY" if status in (401, 403) else "see the server's log"
    words = " ".join(content.decode("utf-8", "replace").split())[:300]
    return SearchError(f"Qdrant at {urls} refused the request (HTTP {status}: {words}); {hint}")
