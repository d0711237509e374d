"""BM25: one analyzer, one scoring, in this process and as sparse vectors for Qdrant.

A document's vector holds the saturated term frequencies (Robertson and Walker 1994), a query's the
inverse document frequencies; their dot product is the score. The frequencies are counted here and
kept with the index, not left to Qdrant, whose shards would each count their own documents.

Both sides are rounded to steps that are powers of two, so fine that it does not show and so coarse
that every product and sum is exact in 32-bit floats. So the order in which an engine adds does not
matter, and every engine returns the same scores and the same ties.
"""

import base64
import math
import os
import re
import threading
import unicodedata
import zlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from assay.errors import SearchError, UsageError
from assay.net.json import JsonObject

ANALYZER = "words, case and accents folded, English stop words, Snowball stems, v1"
"""Changes whenever `terms` does: an index made by another analyzer is built again."""

# A query is read up to here: it bounds the work for a text that was pasted by mistake.
QUERY_CHARACTERS = 4000

# A longer run of letters is cut into words, as Lucene does.
_WORD = re.compile(r"[^\W_]{1,64}")
_ACCENTS = re.compile("[\u0300-\u036f]")
# NLTK's list, without contractions, which are split at the apostrophe, and without those of their
# pieces that mean something alone: vitamin D, won, re.
_STOP_LIST = """
a about above after again against ain all am an and any are aren as at be because been before being
below between both but by can couldn did didn do does doesn doing don down during each few for from
further had hadn has hasn have haven having he her here hers herself him himself his how i if in
into is isn it its itself just ll me mightn more most mustn my myself needn no nor not now of off on
once only or other our ours ourselves out over own s same shan she should shouldn so some such t
than that the their theirs them themselves then there these they this those through to too under
until up ve very was wasn we were weren what when where which while who whom why will with wouldn
you your yours yourself yourselves
"""
_STOP_WORDS = frozenset(_STOP_LIST.split())
_WORDS_KEPT = 500_000
_NO_TERM = -1

# 10 bits for a document's weight and 13 for the sum of a query's: 23 of the 24 that a float has.
WEIGHT_STEPS = 1 << 10
_QUERY_BITS = 13

_Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Bm25Settings:
    """`k1`: term-frequency saturation; `b`: length normalization.

    The defaults are the textbook's. On NFCorpus dev, SciFact train and `notes` together, nothing
    between k1 0.6 and 2.0, b 0.3 and 0.9 is better (mean nDCG@10 0.560).
    """

    k1: float = 1.2
    b: float = 0.75

    def __post_init__(self) -> None:
        if not (math.isfinite(self.k1) and self.k1 >= 0):
            raise UsageError(f"k1 of BM25 must be 0 or more, got {self.k1}; 1.2 is the default")
        if not 0 <= self.b <= 1:
            raise UsageError(f"b of BM25 must be from 0 to 1, got {self.b}; 0.75 is the default")

    @classmethod
    def from_environment(cls) -> "Bm25Settings":
        """ASSAY_BM25_K1 and ASSAY_BM25_B, else the defaults."""
        return cls(_number("ASSAY_BM25_K1", cls().k1), _number("ASSAY_BM25_B", cls().b))

    def as_environment(self) -> dict[str, str]:
        """The variables that make another process use the same."""
        return {"ASSAY_BM25_K1": repr(self.k1), "ASSAY_BM25_B": repr(self.b)}

    def __str__(self) -> str:
        return f"k1={self.k1:g}, b={self.b:g}"


class _Lexicon:
    """Every word seen, with its stem and the hash of that: a corpus repeats most of its words."""

    def __init__(self) -> None:
        self.stems: dict[str, str] = {}
        """Empty for a stop word."""
        self.hashes: dict[str, int] = {}
        self._learning = threading.Lock()  # PyStemmer is not safe for threads

    def learn(self, words: Iterable[str]) -> None:
        """Look up the words that are new."""
        import Stemmer

        with self._learning:
            unknown = list({word for word in words if word not in self.hashes})
            found = Stemmer.Stemmer("english").stemWords(unknown)
            for word, stem in zip(unknown, found, strict=True):
                stop = word in _STOP_WORDS
                self.stems[word] = "" if stop else stem
                self.hashes[word] = _NO_TERM if stop else zlib.crc32(stem.encode())


_lexicon = _Lexicon()


def terms(text: str) -> list[str]:
    """The words of a text as BM25 counts them, in order: folded, no stop words, stemmed."""
    words = _WORD.findall(_folded(text))
    lexicon = _lexicon_of(words)
    return [stem for stem in map(lexicon.stems.__getitem__, words) if stem]


def count_terms(text: str) -> Counter[int]:
    """How often each term occurs, by its hash in a sparse vector."""
    words = _WORD.findall(_folded(text))
    try:
        counts = Counter(map(_lexicon.hashes.__getitem__, words))
    except KeyError:
        counts = Counter(map(_lexicon_of(words).hashes.__getitem__, words))
    counts.pop(_NO_TERM, None)
    return counts


def _lexicon_of(words: Sequence[str]) -> _Lexicon:
    """A lexicon that has these words. A full one is replaced: other threads may be reading it."""
    global _lexicon
    lexicon = _lexicon
    if not all(map(lexicon.hashes.__contains__, words)):
        if len(lexicon.hashes) > _WORDS_KEPT:
            lexicon = _lexicon = _Lexicon()
        lexicon.learn(words)
    return lexicon


def _folded(text: str) -> str:
    if text.isascii():
        return text.lower()
    return _ACCENTS.sub("", unicodedata.normalize("NFKD", text)).casefold()


def inverse_frequency(having: ArrayLike, documents: int) -> _Floats:
    """Lucene's form, which is never negative. `having`: how many documents have each term."""
    counts = np.asarray(having, np.float64)
    return np.asarray(np.log1p((documents - counts + 0.5) / (counts + 0.5)))


def term_weights(
    counts: ArrayLike, lengths: ArrayLike, average_length: float, settings: Bm25Settings
) -> _Floats:
    """What each term of a text is worth, from 0 to 1, before its inverse document frequency."""
    found, size = np.asarray(counts, np.float64), np.asarray(lengths, np.float64)
    norm = settings.k1 * (1 - settings.b + settings.b * size / average_length)
    return np.asarray(found / (found + norm))


@dataclass(frozen=True, slots=True)
class SparseVector:
    """`indices` are hashes of terms."""

    indices: list[int]
    values: list[float]

    def __bool__(self) -> bool:
        return bool(self.indices)


@dataclass(frozen=True)
class Bm25Model:
    """Settings and what is known of a corpus: everything that a score depends on but the texts.

    `frequencies` is packed text, to be kept in a manifest: see `pack_frequencies`.
    """

    settings: Bm25Settings
    documents: int
    average_length: float
    frequencies: str
    analyzer: str = ANALYZER

    @classmethod
    def of(cls, texts: Iterable[str], settings: Bm25Settings | None = None) -> "Bm25Model":
        """The model of these documents."""
        return CorpusCounts().including(texts).model(settings or Bm25Settings())

    def same_weights(self, other: "Bm25Model") -> bool:
        """Whether document vectors of both can be mixed in one index."""
        return self._weighting == other._weighting

    @property
    def _weighting(self) -> tuple[object, ...]:
        return self.analyzer, self.settings, self.average_length

    @cached_property
    def _having(self) -> dict[int, int]:
        return unpack_frequencies(self.frequencies)

    def document(self, text: str) -> SparseVector:
        """The vector to index for a text."""
        counts = count_terms(text)
        weights = self.weights(list(counts.values()), counts.total())
        return SparseVector(list(counts), weights.tolist())

    def query(self, text: str, having: Mapping[int, int] | None = None) -> SparseVector:
        """The vector to search with: each known term once, however often it was written.

        `having`: how many documents have each term, where that is kept beside the model.
        """
        having = self._having if having is None else having
        asked = count_terms(text[:QUERY_CHARACTERS])
        known = {index: having[index] for index in asked if index in having}
        if not known:
            return SparseVector([], [])
        weights = inverse_frequency(list(known.values()), self.documents)
        step = 2.0 ** (math.ceil(math.log2(weights.sum())) - _QUERY_BITS)
        rounded = np.maximum(np.rint(weights / step), 1) * step
        return SparseVector(list(known), rounded.tolist())

    def score(self, text: str, query: SparseVector) -> float:
        """The score of a text for a query, not rounded: to compare a few texts by."""
        counts, settings = count_terms(text), self.settings
        relative_length = counts.total() / self.average_length
        norm = settings.k1 * (1 - settings.b + settings.b * relative_length)
        pairs = zip(query.indices, query.values, strict=True)
        return sum(
            value * counts[one] / (counts[one] + norm) for one, value in pairs if one in counts
        )

    def weights(self, counts: ArrayLike, lengths: ArrayLike) -> _Floats:
        """`term_weights`, rounded to steps that 32-bit floats add up exactly."""
        exact = term_weights(counts, lengths, self.average_length, self.settings)
        return np.asarray(np.maximum(np.rint(exact * WEIGHT_STEPS), 1) / WEIGHT_STEPS)

    @classmethod
    def from_json(cls, value: JsonObject) -> "Bm25Model":
        """What `dataclasses.asdict` made of a model; TypeError or KeyError for anything else."""
        return cls(**value | {"settings": Bm25Settings(**value["settings"])})


@dataclass(frozen=True)
class CorpusCounts:
    """Sums over the texts of a corpus; texts can be added and taken away."""

    documents: int = 0
    terms: int = 0
    frequencies: Mapping[int, int] = field(default_factory=dict)

    def including(self, texts: Iterable[str]) -> "CorpusCounts":
        """With these texts."""
        return self._moved(texts, 1)

    def without(self, texts: Iterable[str]) -> "CorpusCounts":
        """After these texts, which were included before, are gone."""
        return self._moved(texts, -1)

    def model(self, settings: Bm25Settings) -> Bm25Model:
        """What BM25 needs to know of these texts."""
        mean = self.terms / max(1, self.documents)
        packed = pack_frequencies(self.frequencies)
        return Bm25Model(settings, self.documents, rounded_length(mean), packed)

    def _moved(self, texts: Iterable[str], sign: int) -> "CorpusCounts":
        documents, total, having = self.documents, self.terms, dict(self.frequencies)
        for text in texts:
            counts = count_terms(text)
            documents += sign
            total += sign * counts.total()
            for index in counts:
                having[index] = having.get(index, 0) + sign
        return CorpusCounts(documents, total, {one: n for one, n in having.items() if n > 0})


def rounded_length(mean: float) -> float:
    """To a power of the square root of 2, so that a few changed documents leave the vectors of all
    others as they are.
    """
    return round(2 ** (round(2 * math.log2(max(1.0, mean))) / 2), 1)


def pack_frequencies(frequencies: Mapping[int, int]) -> str:
    """Term hashes and how many documents have each, as text of about four characters a term."""
    indices = np.array(sorted(frequencies), np.int64)
    counts = np.array([frequencies[index] for index in indices.tolist()], np.int64)
    table = np.stack([np.diff(indices, prepend=0), counts]).astype("<u4")
    # Byte by byte: the high bytes of all numbers together are nearly all zeros.
    planes = table.view(np.uint8).reshape(2, -1, 4).transpose(0, 2, 1)
    return base64.b64encode(zlib.compress(planes.tobytes(), 6)).decode("ascii")


def unpack_frequencies(packed: str) -> dict[int, int]:
    """What `pack_frequencies` packed; SearchError where it is something else."""
    try:
        content = zlib.decompress(base64.b64decode(packed, validate=True))
        planes = np.frombuffer(content, np.uint8).reshape(2, 4, -1).transpose(0, 2, 1)
    except (ValueError, zlib.error) as error:
        raise SearchError(
            f"the term frequencies of the index are damaged ({error}); rebuild it with: assay index"
        ) from None
    table = np.ascontiguousarray(planes).view("<u4").reshape(2, -1)
    indices = np.cumsum(table[0], dtype=np.int64)
    return dict(zip(indices.tolist(), table[1].tolist(), strict=True))


def _number(name: str, default: float) -> float:
    value = os.environ.get(name, "")
    if not value:
        return default
    try:
        return float(value)
    except ValueError:
        raise UsageError(f"{name} must be a number, got {value!r}") from None
