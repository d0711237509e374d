"""Searching a generation of the embedded index."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import qdrant_edge as edge

from assay.search.bm25 import SparseVector
from assay.search.embedding import Vectors
from assay.search.filters import Condition
from assay.search.store import DENSE, PLACE, DamagedIndexError, Found, Manifest, Signal, Stored

_POINTS_IN_A_PAGE = 5000
# About 60 MB.
_PLACES_KEPT = 200_000


class EdgeSearcher:
    def __init__(self, generation: Path, manifest: Manifest) -> None:
        self._where = str(generation.parent)
        self._manifest = manifest
        self._places: dict[Any, tuple[str, int, int]] = {}
        with engine_errors(self._where):
            self._shard = edge.EdgeShard.load(str(generation))

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
        request = edge.QueryRequest(
            limit=limit,
            query=edge.Query.Nearest(_vector(vector), using=signal),
            filter=_filter(where, among),
            with_payload=False,
        )
        with engine_errors(self._where):
            return self._placed(self._shard.query(request))

    def fetch(self, ids: Sequence[str], *, vectors: bool = False) -> list[Stored]:
        with engine_errors(self._where):
            records = self._shard.retrieve(
                list(ids), with_payload=True, with_vector=[DENSE] if vectors else False
            )
        return [_stored(record) for record in records]

    def matching(self, ids: Sequence[str], where: Sequence[Condition]) -> set[str]:
        request = edge.ScrollRequest(
            limit=max(1, len(ids)), filter=_filter(where, ids), with_payload=False
        )
        with engine_errors(self._where):
            records, _ = self._shard.scroll(request)
        return {str(record.id) for record in records}

    def contents(self) -> dict[str, tuple[str, int]]:
        found: dict[str, tuple[str, int]] = {}
        offset: Any = None
        while True:
            request = edge.ScrollRequest(
                offset=offset,
                limit=_POINTS_IN_A_PAGE,
                with_payload=["doc_id", "content_hash", "total_chunks"],
            )
            with engine_errors(self._where):
                records, offset = self._shard.scroll(request)
            for record in records:
                payload = record.payload or {}
                found[payload["doc_id"]] = payload["content_hash"], payload["total_chunks"]
            if offset is None:
                return found

    def _placed(self, points: Sequence[edge.ScoredPoint]) -> list[Found]:
        """Payloads hold whole texts, which take longer to read than a search does: what a search
        needs of them is kept in memory, as a generation never changes.
        """
        scores = [(point.id, point.score) for point in points]
        kept = self._places  # never shrunk, only replaced: other threads may hold it too
        try:
            return [Found(*kept[one], score) for one, score in scores]
        except KeyError:
            kept = kept if len(kept) < _PLACES_KEPT else {}
            kept.update(self._read_places([one for one, _ in scores if one not in kept]))
            self._places = kept
            return [Found(*kept[one], score) for one, score in scores]

    def _read_places(self, ids: Sequence[Any]) -> dict[Any, tuple[str, int, int]]:
        if not ids:
            return {}
        places = {}
        for record in self._shard.retrieve(list(ids), with_payload=PLACE, with_vector=False):
            payload = record.payload or {}
            place = payload["doc_id"], payload["chunk_index"], payload["total_chunks"]
            places[record.id] = place
        return places

    def close(self) -> None:
        self._shard.close()


@contextmanager
def engine_errors(where: str) -> Iterator[None]:
    """The engine raises bare Exceptions, and its panics are not even those."""
    try:
        yield
    except BaseException as error:
        if type(error) is not Exception and type(error).__name__ != "PanicException":
            raise
        raise DamagedIndexError(
            f"the index at {where} cannot be used ({error}); build it again: assay index "
            "(vectors come from the cache)"
        ) from error


def _vector(vector: Vectors | SparseVector) -> Any:
    if isinstance(vector, SparseVector):
        return edge.SparseVector(vector.indices, vector.values)
    return vector.tolist()


def _filter(where: Sequence[Condition], among: Sequence[str] | None) -> edge.Filter | None:
    must: list[Any] = [_condition(one) for one in where]
    if among is not None:
        must.append(edge.HasIdCondition(set(among)))
    return edge.Filter(must=must) if must else None


def _condition(condition: Condition) -> edge.FieldCondition:
    if condition.bounds is not None:
        return edge.FieldCondition(condition.key, range=edge.RangeFloat(**condition.bounds))
    values: list[Any] = list(condition.values)
    match: Any = edge.MatchValue(values[0]) if len(values) == 1 else edge.MatchAny(values)
    return edge.FieldCondition(condition.key, match=match)


def _stored(record: edge.Record) -> Stored:
    vectors: Any = record.vector or {}
    return Stored(str(record.id), record.payload or {}, vectors.get(DENSE, ()))
