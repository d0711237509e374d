"""The metric of a corpus's vectors: which directions say how a text is written, not what.

A title and its own text say the same in two styles, so the directions in which their vectors differ
carry no meaning. They are found over a sample of the corpus and damped, for documents and queries
alike: within-class covariance normalization (Hatch, Kajarekar and Stolcke 2006), of which the
strongest directions are kept. No judgment is used.

The metric is fitted when an index is built, and kept in its manifest. A corpus with few
titles has none: its vectors are used as the model gives them.
"""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from assay.data.dataset import Document
from assay.progress import Progress, silent
from assay.search.chunks import document_vectors
from assay.search.embedding import Embedder, VectorCache, Vectors
from assay.text import strip_controls

# Chosen on NFCorpus dev and SciFact train; 2 to 10 and 32 to all directions are as good.
RIDGE = 5.0
DIRECTIONS = 64
# Titles to fit by, in dimensions of the model: fewer than one each would fit chance.
_MIN_SAMPLE, _MAX_SAMPLE = 1, 4
_TITLE_CHARACTERS = 300


@dataclass(frozen=True)
class CorpusMetric:
    """Directions, packed as text for a manifest, and how much of each is kept, from 0 to 1."""

    directions: str = ""
    kept: Sequence[float] = ()

    @classmethod
    def of(cls, directions: Vectors, kept: Sequence[float]) -> "CorpusMetric":
        """Rounded to 16 bits: what is used is what is kept."""
        packed = base64.b64encode(directions.astype("<f2").tobytes()).decode("ascii")
        return cls(packed, [round(float(one), 6) for one in kept])

    def __bool__(self) -> bool:
        return bool(self.kept)

    def apply(self, vectors: Vectors) -> Vectors:
        """The vectors, or one of them, with less of each direction, and of length 1 again."""
        if not self:
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


NO_METRIC = CorpusMetric()


def fit_metric(
    documents: Mapping[str, Document],
    embedder: Embedder,
    cache: VectorCache,
    progress: Progress = silent,
) -> CorpusMetric:
    """From the titles of at most a few thousand documents, spread evenly over their ids."""
    titled = sorted(one.id for one in documents.values() if one.title.strip())
    if len(titled) < max(_MIN_SAMPLE * embedder.dimension, len(documents) / 2):
        return NO_METRIC
    most = min(len(titled), _MAX_SAMPLE * embedder.dimension)
    chosen = dict.fromkeys(np.linspace(0, len(titled) - 1, most).astype(int).tolist())
    sample = [documents[titled[place]] for place in chosen]
    prompt = embedder.prompts.document
    titles = [prompt + strip_controls(one.title.strip()[:_TITLE_CHARACTERS]) for one in sample]
    texts = document_vectors(sample, embedder, progress, cache=cache)
    return _fitted(cache.embed(titles, embedder, progress) - texts)


def _fitted(differences: Vectors) -> CorpusMetric:
    within = differences.astype(np.float64).T @ differences.astype(np.float64)
    if (total := float(np.trace(within))) < 1e-9:
        return NO_METRIC
    sizes, axes = np.linalg.eigh(within * (len(within) / total))
    count = min(DIRECTIONS, len(sizes) // 2)
    strongest, rest = sizes[-count:][::-1], float(sizes[:-count].mean())
    directions = axes[:, -count:].T[::-1]
    # An axis has two signs: without a rule, the manifest would differ between machines.
    highest = np.abs(directions).argmax(1)
    directions = directions * np.sign(directions[np.arange(count), highest])[:, None]
    kept = np.sqrt((rest + RIDGE) / (strongest + RIDGE))
    return CorpusMetric.of(directions.astype(np.float32), kept.tolist())
