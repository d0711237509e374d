"""What a manifest says about all chunks of a knowledge base, as sums.

Their number, their words (BM25 needs the mean length) and a digest that does not depend on the
order in which they came: a write brings them up to date without looking at the chunks that stay.
They stand in the manifest itself, where `corpus` is free text, and so change in the same step as
the chunks.
"""

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

from assay.search.bm25_vectors import Bm25Encoder, average_length
from assay.search.chunks import POLICY
from assay.search.embedding import Embedder
from assay.search.store import Manifest

_CORPUS = re.compile(r"chunks ([0-9a-f]{64}) words ([0-9]+)")
_DIGESTS = 1 << 256


Payload = Mapping[str, Any]
"""A chunk as the index keeps it."""


@dataclass(frozen=True, slots=True)
class ChunkTally:
    chunks: int = 0
    words: int = 0
    digest: int = 0

    @classmethod
    def read(cls, manifest: Manifest) -> "ChunkTally | None":
        """None where an earlier version wrote it, which kept no sums."""
        found = _CORPUS.fullmatch(manifest.corpus)
        return cls(manifest.documents, int(found[2]), int(found[1], 16)) if found else None

    def including(self, chunks: Iterable[Payload]) -> "ChunkTally":
        return self._moved(chunks, 1)

    def without(self, chunks: Iterable[Payload]) -> "ChunkTally":
        return self._moved(chunks, -1)

    def manifest(self, embedder: Embedder) -> Manifest:
        # One text of the mean length has the same average as all of them.
        mean = round(self.words / max(1, self.chunks))
        length = average_length(["word " * mean])
        return Manifest(
            corpus=f"chunks {self.digest:064x} words {self.words}",
            embedder=embedder.name,
            dimension=embedder.dimension,
            chunking=POLICY,
            lexical=Bm25Encoder(length).settings,
            average_length=length,
            documents=self.chunks,
            assay=version("agent-assay"),
        )

    def _moved(self, chunks: Iterable[Payload], sign: int) -> "ChunkTally":
        chunks = list(chunks)
        return ChunkTally(
            self.chunks + sign * len(chunks),
            self.words + sign * sum(len(text_of(one).split()) for one in chunks),
            (self.digest + sign * sum(map(_digest, chunks))) % _DIGESTS,
        )


def text_of(chunk: Payload) -> str:
    """What is embedded and what BM25 reads."""
    return f"{chunk['title']} {chunk['text']}".strip()


def _digest(chunk: Payload) -> int:
    said = f"{chunk['doc_id']}\x1f{chunk['content_hash']}"
    return int.from_bytes(hashlib.sha256(said.encode()).digest())
