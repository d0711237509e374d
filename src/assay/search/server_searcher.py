"""Searching an index on a Qdrant server."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from qdrant_client import QdrantClient, models
from qdrant_client.http.exceptions import ResponseHandlingException, UnexpectedResponse

from assay.errors import SearchError
from assay.search.bm25 import SparseVector
from assay.search.embedding import Vectors
from assay.search.filters import Condition
from assay.search.store import DENSE, PLACE, Found, Manifest, Signal, Stored


class ServerSearcher:
    """`keep`: the store, which closes the connections when nobody needs it any more."""

    def __init__(
        self, client: QdrantClient, alias: str, manifest: Manifest, url: str, *, keep: object
    ) -> None:
        self._client, self._alias, self._url, self._keep = client, alias, url, keep
        self._manifest = manifest

    @property
    def manifest(self) -> Manifest:
        return self._manifest

    def nearest(
        self,
        signal: Signal,
        vector: Vectors | SparseVector,
        limit: int,
        *,
        where: Sequence[Condition] = (),
        among: Sequence[str] | None = None,
    ) -> list[Found]:
        with server_errors(self._url):
            answer = self._client.query_points(
                self._alias,
                query=sparse(vector) if isinstance(vector, SparseVector) else vector.tolist(),
                using=signal,
                limit=limit,
                query_filter=_filter(where, among),
                with_payload=PLACE,
            )
        return [_found(point) for point in answer.points]

    def fetch(self, ids: Sequence[str], *, vectors: bool = False) -> list[Stored]:
        with server_errors(self._url):
            records = self._client.retrieve(
                self._alias, list(ids), with_vectors=[DENSE] if vectors else False
            )
        return [_stored(record) for record in records]

    def matching(self, ids: Sequence[str], where: Sequence[Condition]) -> set[str]:
        with server_errors(self._url):
            records, _ = self._client.scroll(
                self._alias,
                scroll_filter=_filter(where, ids),
                limit=max(1, len(ids)),
                with_payload=False,
            )
        return {str(record.id) for record in records}

    def close(self) -> None:
        """The connections are the store's, which may open another searcher."""


@contextmanager
def server_errors(url: str) -> Iterator[None]:
    """The client's errors in words for the person who runs the server; no payload among them."""
    try:
        yield
    except ResponseHandlingException as error:
        raise SearchError(
            f"Qdrant at {url} does not answer ({error.source}); start it or correct QDRANT_URL, "
            "and try again: the index is kept on the server. Without QDRANT_URL the embedded "
            "engine is used"
        ) from error
    except UnexpectedResponse as error:
        hint = "set QDRANT_API_KEY" if error.status_code in (401, 403) else "see the server's log"
        words = " ".join(error.content.decode("utf-8", "replace").split())[:300]
        raise SearchError(
            f"Qdrant at {url} refused the request (HTTP {error.status_code}: {words}); {hint}"
        ) from error


def sparse(vector: SparseVector) -> models.SparseVector:
    return models.SparseVector(indices=vector.indices, values=vector.values)


def _filter(where: Sequence[Condition], among: Sequence[str] | None) -> models.Filter | None:
    must: list[Any] = [_condition(one) for one in where]
    if among is not None:
        must.append(models.HasIdCondition(has_id=list(among)))
    return models.Filter(must=must) if must else None


def _condition(condition: Condition) -> models.FieldCondition:
    if condition.bounds is not None:
        return models.FieldCondition(key=condition.key, range=models.Range(**condition.bounds))
    values: list[Any] = list(condition.values)
    match: Any
    if len(values) == 1:
        match = models.MatchValue(value=values[0])
    else:
        match = models.MatchAny(any=values)
    return models.FieldCondition(key=condition.key, match=match)


def _found(point: models.ScoredPoint) -> Found:
    payload = point.payload or {}
    # JSON carries a 32-bit float in few digits: back to the number that it was.
    score = float(np.float32(point.score))
    return Found(payload["doc_id"], payload["chunk_index"], payload["total_chunks"], score)


def _stored(record: models.Record) -> Stored:
    vectors: Any = record.vector or {}
    return Stored(str(record.id), record.payload or {}, vectors.get(DENSE, ()))
