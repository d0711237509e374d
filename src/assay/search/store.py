"""What an index of vectors is made of, and the interface of the two stores: a folder, or Qdrant.

An index is never changed while it can be searched: a new one takes its place in one step.
"""

import base64
import hashlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from assay.data.dataset import Document
from assay.net.json import JsonObject
from assay.progress import Progress, silent
from assay.search.bm25 import Bm25Index
from assay.search.chunks import POLICY, Span, document_vectors
from assay.search.embedding import Embedder, VectorCache, Vectors
from assay.search.sealed_folder import DamagedIndexError
from assay.text import strip_controls

# Of an index: one of another format is built again.
FORMAT = 7

# A chunk: its document, and its number in that.
Place = tuple[str, int]

# Opens the BM25 index of the documents, which has their ids in the order of the corpus.
OpenWords = Callable[[], Bm25Index]

# Chosen on NFCorpus dev and SciFact train; 2 to 10 and 32 to all directions are as good.
RIDGE = 5.0
DIRECTIONS = 64
# Titles to fit by, in dimensions of the model: fewer than one each would fit chance.
_MIN_SAMPLE, _MAX_SAMPLE = 1, 4
_TITLE_CHARACTERS = 300


@dataclass(frozen=True)
class CorpusMetric:
    """Which directions of a corpus's vectors say how a text is written, not what.

    A title and its own text say the same in two styles, so the directions in which their vectors
    differ carry no meaning and are damped: within-class covariance normalization (Hatch, Kajarekar
    and Stolcke 2006). `directions` are packed as text; `kept`: how much of each, from 0 to 1.
    """

    directions: str = ""
    kept: Sequence[float] = ()

    def apply(self, vectors: Vectors) -> Vectors:
        """The vectors, or one of them, with less of each direction, and of length 1 again."""
        if not self.kept:
            return vectors
        axes, lost = self._axes
        moved = vectors - ((vectors @ axes.T) * lost) @ axes
        norms = np.linalg.norm(moved, axis=-1, keepdims=True)
        return np.asarray(moved / np.maximum(norms, 1e-12), np.float32)

    @cached_property
    def _axes(self) -> tuple[Vectors, NDArray[np.float32]]:
        content = np.frombuffer(base64.b64decode(self.directions, validate=True), "<f2")
        axes = content.astype(np.float32).reshape(max(1, len(self.kept)), -1)
        return axes, np.float32(1) - np.array(self.kept, np.float32)


def fit_metric(
    documents: Mapping[str, Document],
    embedder: Embedder,
    cache: VectorCache,
    progress: Progress = silent,
) -> CorpusMetric:
    """From a sample of the titles; with few of them, vectors stay as the model gives them."""
    titled = sorted(one.id for one in documents.values() if one.title.strip())
    if len(titled) < max(_MIN_SAMPLE * embedder.dimension, len(documents) / 2):
        return CorpusMetric()
    most = min(len(titled), _MAX_SAMPLE * embedder.dimension)
    chosen = dict.fromkeys(np.linspace(0, len(titled) - 1, most).astype(int).tolist())
    sample = [documents[titled[place]] for place in chosen]
    prompt = embedder.prompts.document
    titles = [prompt + strip_controls(one.title.strip()[:_TITLE_CHARACTERS]) for one in sample]
    texts = document_vectors(sample, embedder, progress, cache=cache)
    differences = (cache.embed(titles, embedder, progress) - texts).astype(np.float64)
    within = differences.T @ differences
    if (total := float(np.trace(within))) < 1e-9:
        return CorpusMetric()
    sizes, axes = np.linalg.eigh(within * (len(within) / total))
    count = min(DIRECTIONS, len(sizes) // 2)
    strongest, rest = sizes[-count:][::-1], float(sizes[:-count].mean())
    directions = axes[:, -count:].T[::-1]
    # An axis has two signs: without a rule, the manifest would differ between machines.
    highest = np.abs(directions).argmax(1)
    directions = directions * np.sign(directions[np.arange(count), highest])[:, None]
    kept = np.sqrt((rest + RIDGE) / (strongest + RIDGE))
    # Rounded to 16 bits: what is used is what is kept.
    packed = base64.b64encode(directions.astype(np.float32).astype("<f2").tobytes())
    return CorpusMetric(packed.decode("ascii"), [round(float(one), 6) for one in kept])


@dataclass(frozen=True, slots=True)
class IndexKey:
    """Everything that decides whether an index can be used as it is."""

    corpus: str
    embedder: str
    chunking: str = POLICY
    format: int = FORMAT

    def digest(self) -> str:
        """A short name for it."""
        return hashlib.sha256(repr(self).encode()).hexdigest()[:12]


@dataclass(frozen=True, slots=True)
class Manifest:
    """What an index says about itself."""

    key: IndexKey
    dimension: int
    metric: CorpusMetric

    def as_json(self) -> JsonObject:
        """The form that `from_json` reads."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: JsonObject, where: str) -> "Manifest":
        """Raises `DamagedIndexError` for anything but a manifest of this version."""
        try:
            key = IndexKey(**value["key"])
            if key.format != FORMAT:
                raise ValueError(key.format)
            return cls(key, value["dimension"], CorpusMetric(**value["metric"]))
        except (TypeError, KeyError, ValueError):
            raise DamagedIndexError(
                f"the index at {where} was made by another version of Assay"
            ) from None


class EmbeddedPart(NamedTuple):
    """Some documents, in the order of the corpus: how many chunks each has, where each chunk is in
    its text, and its vector in the metric of the index.
    """

    ids: Sequence[str]
    counts: Sequence[int]
    spans: Sequence[Span]
    vectors: Vectors


class Near(NamedTuple):
    """How near a document is: the cosine of its best chunk, and which one that is."""

    score: float
    chunk: int


class StoredChunk(NamedTuple):
    """Where a chunk is in its document, which has `total` of them, and its vector if wanted."""

    span: Span
    total: int
    vector: Sequence[float] | Vectors = ()


class Index(Protocol):
    """An open index; safe to ask from several threads."""

    @property
    def manifest(self) -> Manifest:
        """What the index says about itself."""

    def nearest(
        self, vector: Vectors, count: int = 0, *, among: Collection[str] | None = None
    ) -> dict[str, Near]:
        """The best `count` documents, best first, equal scores in the order of ids. `among`: of
        these documents alone, and for a `count` of 0 all of them.
        """

    def chunks(self, places: Iterable[Place], *, vectors: bool = False) -> dict[Place, StoredChunk]:
        """Those that exist; with vectors if asked for."""


class Store(Protocol):
    """A place for one index: a folder, or a collection on a server."""

    @property
    def where(self) -> str:
        """The place for messages: a folder, or an address without its secrets."""

    def lock(self, progress: Progress) -> AbstractContextManager[None]:
        """Waits until no other process writes this index, if the engine can know."""

    def write(self, manifest: Manifest, parts: Iterable[EmbeddedPart]) -> None:
        """Write an index; at the end it takes the place of the live one."""

    def open(self, key: IndexKey, words: OpenWords, *, deep: bool = False) -> Index | None:
        """The live index; None if there is none, or one of another key. `deep`: hash all of it."""
