"""A retriever for BM25 alone: it embeds nothing, and returns what an index with vectors would.

Words are looked up in the BM25 index that `builtin:bm25` keeps. Texts and metadata come from the
data set; only the documents that were found are split into chunks, to show the best one.
"""

from collections.abc import Collection, Iterable, Sequence
from importlib.metadata import version
from itertools import islice

from assay.data.dataset import Dataset
from assay.search.bm25 import SparseVector
from assay.search.bm25_index import Bm25Index
from assay.search.chunks import POLICY, split_documents
from assay.search.embedding import Embedder, Vectors
from assay.search.filters import FilterCondition, holds
from assay.search.fusion import DEPTH, ranks_in
from assay.search.index import payload_of, plain_metadata
from assay.search.store import BM25, ChunkPayload, Manifest, Stored, point_id

_NO_VECTORS = "an index of words has no vectors: search it with mode bm25"


class Bm25Searcher:
    """A `Searcher` without vectors.

    Parameters:
        dataset: the documents.
        index: of the same documents.
        embedder: only to split documents as an index with its vectors would.
    """

    def __init__(self, dataset: Dataset, index: Bm25Index, embedder: Embedder) -> None:
        self._dataset, self._index, self._embedder = dataset, index, embedder
        self._payloads: dict[str, ChunkPayload] = {}
        self._chunks: dict[str, int] = {}
        self.manifest = Manifest(
            corpus=dataset.corpus_fingerprint,
            embedder=embedder.name,
            dimension=embedder.dimension,
            chunking=POLICY,
            documents=len(dataset.documents),
            assay=version("agent-assay"),
            bm25=index.model,
        )

    def candidates(self, where: Sequence[FilterCondition] = ()) -> "Bm25Candidates":
        """The candidates of one query."""
        return Bm25Candidates(self, self._index, where)

    def split(self, doc_id: str) -> int:
        """How many chunks a document has; `fetch` knows them from now on."""
        if doc_id not in self._chunks:
            document = self._dataset.documents[doc_id]
            (chunks,) = split_documents([document], self._embedder)
            for index in range(len(chunks)):
                payload = payload_of(document, index, chunks)
                self._payloads[point_id(doc_id, index)] = payload
            self._chunks[doc_id] = len(chunks)
        return self._chunks[doc_id]

    def fetch(self, ids: Sequence[str], *, vectors: bool = False) -> list[Stored]:
        """The chunks of documents that were found; never with vectors."""
        return [Stored(one, self._payloads[one]) for one in ids if one in self._payloads]

    def matching(self, ids: Sequence[str], where: Sequence[FilterCondition]) -> set[str]:
        """The ids of those points that meet the conditions, among documents that were found."""
        known = [one for one in ids if one in self._payloads]
        return {one for one in known if self.meets(self._payloads[one]["doc_id"], where)}

    def close(self) -> None:
        """Nothing is open."""

    def meets(self, doc_id: str, where: Sequence[FilterCondition]) -> bool:
        """Whether the metadata of a document meets the conditions."""
        metadata = plain_metadata(self._dataset.documents[doc_id]) if where else {}
        return all(holds(one, metadata) for one in where)


class Bm25Candidates:
    """The candidates of one query, by their words: see `Candidates`."""

    def __init__(
        self, searcher: Bm25Searcher, index: Bm25Index, where: Sequence[FilterCondition]
    ) -> None:
        self._searcher, self._index, self._where = searcher, index, where
        self._found: list[str] = []

    def lexical(self, query: SparseVector, depth: int = DEPTH) -> dict[str, float]:
        """The best of the documents that share a word with the query."""
        found = self._index.nearest(query, self._every if self._where else depth)
        allowed = (one for one in found if self._searcher.meets(one[0], self._where))
        scores = dict(islice(allowed, depth))
        self._found = list(scores)
        return scores

    def lexical_of(self, doc_ids: Collection[str], query: SparseVector) -> dict[str, float]:
        """The BM25 scores of those documents that share a word with the query."""
        found = dict(self._index.nearest(query, self._every))
        return {doc_id: found[doc_id] for doc_id in doc_ids if doc_id in found}

    @property
    def _every(self) -> int:
        return self._index.weighting.documents

    def ranks(self) -> dict[str, dict[str, int]]:
        """The rank of each document that was found."""
        return ranks_in({BM25: self._found})

    def chunks_of(self, doc_id: str) -> int:
        """How many chunks a document has."""
        return self._searcher.split(doc_id)

    def best_chunks(self, doc_ids: Iterable[str]) -> dict[str, int]:
        """Empty: without vectors, no chunk is nearer than another."""
        return {}

    def dense(self, vector: Vectors, *, signal: str = "dense") -> dict[str, float]:
        """There are no vectors."""
        raise NotImplementedError(_NO_VECTORS)

    def dense_of(self, doc_ids: Collection[str], vector: Vectors) -> dict[str, float]:
        """There are no vectors."""
        raise NotImplementedError(_NO_VECTORS)

    def vectors(self, doc_ids: Sequence[str]) -> dict[str, Vectors]:
        """There are no vectors."""
        raise NotImplementedError(_NO_VECTORS)
