"""BM25: one scoring, in this process and as sparse vectors for Qdrant.

A document's vector holds the saturated term frequencies, a query's the inverse document
frequencies; their dot product is the score (Robertson and Walker 1994). Titles are a field of their
own with a weight and a mean length (BM25F, Robertson, Zaragoza and Taylor 2004); a lower bound for
a term that occurs at all is BM25+ (Lv and Zhai 2011). The frequencies are counted here and kept
with the index, not left to Qdrant, whose shards would each count their own documents.

Both sides are rounded to steps that are powers of two, so fine that it does not show and so coarse
that every product and sum is exact in 32-bit floats. So the order in which an engine adds does not
matter, and every engine returns the same scores and the same ties.
"""

import base64
import math
import os
import zlib
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from assay.data.dataset import Document
from assay.errors import UsageError, did_you_mean
from assay.net.json import JsonObject
from assay.search.analyzer import (
    ANALYZER,
    AUTO,
    DEFAULT_LANGUAGE,
    DEFAULT_STOP_WORDS,
    Analyzer,
    language_named,
    language_of,
    open_analyzer,
)

# A query is read up to here: it bounds the work for a text that was pasted by mistake.
QUERY_CHARACTERS = 4000

# 10 bits for a document's weight and 13 for the sum of a query's: 23 of the 24 that a float has.
WEIGHT_STEPS = 1 << 10
_QUERY_BITS = 13
VARIABLE = "ASSAY_BM25"
_LIMIT = 100.0
NOT_A_MODEL = (TypeError, KeyError, AttributeError, ValueError, UsageError)


_Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Bm25Settings:
    """What a user can choose. The defaults were chosen on NFCorpus dev, SciFact train and `notes`
    together, see benchmarks/README.md.

    Parameters:
        k1: term-frequency saturation.
        b: length normalization, from 0 to 1, of titles and of texts.
        delta: what a term is worth at least where it occurs, as in BM25+; 0 for none.
        title_weight: how often a word of the title counts; 0 leaves titles out.
        language: of the words in Latin script, by name or code; `auto` detects it in the
            documents, `none` stems nothing and has no stop words.
        stop_words: `default` for those of the language, `none`, or words with | between them.
    """

    k1: float = 1.2
    b: float = 0.75
    delta: float = 0.0
    title_weight: float = 3.0
    language: str = AUTO
    stop_words: str = DEFAULT_STOP_WORDS

    def __post_init__(self) -> None:
        for name, most in (("k1", _LIMIT), ("b", 1.0), ("delta", _LIMIT), ("title_weight", _LIMIT)):
            value = getattr(self, name)
            if not 0 <= value <= most:  # nor is NaN
                raise UsageError(
                    f"{name.replace('_', ' ')} of BM25 must be from 0 to {most:g}, got {value}; "
                    f"{_DEFAULTS[name]:g} is the default"
                )
        object.__setattr__(self, "language", language_named(self.language))

    @classmethod
    def from_environment(cls) -> "Bm25Settings":
        """What the variable ASSAY_BM25 says, `k1=0.9,b=0.4`, else the defaults."""
        return cls.parse([os.environ.get(VARIABLE, "")])

    @classmethod
    def parse(cls, texts: Iterable[str]) -> "Bm25Settings":
        """Bm25Settings.parse(["k1=0.9,language=german"])  # the defaults for all others"""
        chosen: dict[str, object] = {}
        for pair in filter(None, (pair.strip() for text in texts for pair in text.split(","))):
            name, equals, value = pair.partition("=")
            name = name.strip().replace("-", "_")
            if not equals or name not in _DEFAULTS:
                hint = did_you_mean(name, _DEFAULTS)
                raise UsageError(
                    f"--bm25 {pair!r} is not KEY=VALUE with one of {', '.join(_DEFAULTS)}{hint}"
                )
            number = isinstance(_DEFAULTS[name], float)
            chosen[name] = _number(f"--bm25 {name}", value) if number else value.strip()
        return replace(cls(), **chosen)  # type: ignore[arg-type]

    def as_environment(self) -> dict[str, str]:
        """The variable that makes another process use the same."""
        return {VARIABLE: self.as_text()}

    def as_text(self) -> str:
        """`k1=0.9,b=0.4`: what differs from the defaults, as `--bm25` takes it."""
        return ",".join(f"{name}={text}" for name, text in self._changed())

    def __str__(self) -> str:
        parts = {"k1": f"{self.k1:g}", "b": f"{self.b:g}"} | dict(self._changed())
        return ", ".join(f"{name.replace('_', ' ')}={text}" for name, text in parts.items())

    def _changed(self) -> list[tuple[str, str]]:
        values = {name: getattr(self, name) for name in _DEFAULTS}
        return [
            (name, f"{value:g}" if isinstance(value, float) else str(value))
            for name, value in values.items()
            if value != _DEFAULTS[name]
        ]

    def language_for(self, documents: Iterable[Document]) -> str:
        """The language that these documents are read in."""
        return language_of(documents) if self.language == AUTO else self.language


_DEFAULTS = {one.name: one.default for one in fields(Bm25Settings)}


def _number(name: str, value: str) -> float:
    try:
        return float(value)
    except ValueError:
        raise UsageError(f"{name} must be a number, got {value!r}") from None


def inverse_frequency(having: ArrayLike, documents: int) -> _Floats:
    """Lucene's form, which is never negative. `having`: how many documents have each term."""
    counts = np.asarray(having, np.float64)
    return np.asarray(np.log1p((documents - counts + 0.5) / (counts + 0.5)))


def term_weights(
    counts: ArrayLike, lengths: ArrayLike, average_length: float, settings: Bm25Settings
) -> _Floats:
    """What each term of a text is worth, from 0 to 1, before its inverse document frequency."""
    return saturated(normalized(counts, lengths, average_length, settings.b), settings)


def normalized(counts: ArrayLike, lengths: ArrayLike, average_length: float, b: float) -> _Floats:
    """Frequencies in a field, as if it were of average length."""
    relative = np.asarray(lengths, np.float64) / average_length
    return np.asarray(np.asarray(counts, np.float64) / np.maximum(1 - b + b * relative, 1e-9))


def saturated(frequencies: ArrayLike, settings: Bm25Settings) -> _Floats:
    """From 0 to 1: more of a word says less and less."""
    found = np.asarray(frequencies, np.float64)
    least = settings.delta / (settings.k1 + 1)
    return np.asarray((found / (found + settings.k1) + least) / (1 + least))


@dataclass(frozen=True, slots=True)
class SparseVector:
    """`indices` are hashes of terms."""

    indices: list[int]
    values: list[float]

    def __bool__(self) -> bool:
        return bool(self.indices)


@dataclass(frozen=True, slots=True)
class DocumentTerms:
    """How often a document has each term, by its hash, in each of its fields."""

    text: Counter[int]
    title: Counter[int]

    @property
    def terms(self) -> list[int]:
        """Each once, in the order in which they are counted."""
        return [*self.text, *(term for term in self.title if term not in self.text)]


@dataclass(frozen=True)
class Bm25Model:
    """Settings and what is known of a corpus: everything that a score depends on but the texts.

    Parameters:
        settings: as chosen.
        documents: how many there are.
        average_length: of their texts, in terms.
        average_title: the average length of their titles.
        language: what they are read in, where the settings leave it open.
        analyzer: which version of the analyzer read them.
        frequencies: how many documents have each term, by its hash.
    """

    settings: Bm25Settings
    documents: int
    average_length: float
    average_title: float = 1.0
    language: str = DEFAULT_LANGUAGE
    analyzer: str = ANALYZER
    frequencies: Mapping[int, int] = field(default_factory=dict, compare=False, repr=False)

    @cached_property
    def _analyzer(self) -> Analyzer:
        return open_analyzer(self.language, self.settings.stop_words)

    def document(self, document: Document) -> SparseVector:
        """The vector to index for a document."""
        found = count_document(document, self._analyzer, self.settings)
        weights = self.weights(
            [found.text[term] for term in found.terms],
            [found.title[term] for term in found.terms],
            found.text.total(),
            found.title.total(),
        )
        return SparseVector(found.terms, weights.tolist())

    def terms(self, text: str) -> list[str]:
        """The words of a query or a passage as they are counted, in order."""
        return self._analyzer.terms(text)

    def query(self, text: str) -> SparseVector:
        """The vector to search with: each known term once, however often it was written."""
        having = self.frequencies
        asked = self._analyzer.count_query(text[:QUERY_CHARACTERS])
        known = {index: count for index in asked if (count := having.get(index))}
        if not known:
            return SparseVector([], [])
        weights = inverse_frequency(list(known.values()), self.documents)
        step = 2.0 ** (math.ceil(math.log2(weights.sum())) - _QUERY_BITS)
        rounded = np.maximum(np.rint(weights / step), 1) * step
        return SparseVector(list(known), rounded.tolist())

    def score(self, text: str, query: SparseVector) -> float:
        """The score of a text without a title, not rounded: to compare a few passages by."""
        counts, settings = self._analyzer.count(text), self.settings
        # In floats of Python: arrays of a few numbers take ten times as long.
        norm = 1 - settings.b + settings.b * counts.total() / self.average_length
        saturation, least = settings.k1 * max(norm, 1e-9), settings.delta / (settings.k1 + 1)
        return sum(
            value * (counts[one] / (counts[one] + saturation) + least) / (1 + least)
            for one, value in zip(query.indices, query.values, strict=True)
            if one in counts
        )

    def weights(
        self, texts: ArrayLike, titles: ArrayLike, lengths: ArrayLike, title_lengths: ArrayLike
    ) -> _Floats:
        """Of terms by how often text and title have them, and by how long these are; rounded to
        steps that 32-bit floats add up exactly.
        """
        settings = self.settings
        frequencies = normalized(texts, lengths, self.average_length, settings.b)
        if settings.title_weight:
            named = normalized(titles, title_lengths, self.average_title, settings.b)
            frequencies = frequencies + settings.title_weight * named
        exact = saturated(frequencies, settings)
        return np.asarray(np.maximum(np.rint(exact * WEIGHT_STEPS), 1) / WEIGHT_STEPS)

    def as_json(self, *, frequencies: bool) -> JsonObject:
        """The form that `from_json` reads. `frequencies`: packed, if nothing else has them."""
        packed = _pack_frequencies(self.frequencies) if frequencies else ""
        return asdict(replace(self, frequencies={})) | {"frequencies": packed}

    @classmethod
    def from_json(cls, value: JsonObject) -> "Bm25Model":
        """What `as_json` made of a model; for anything else, one of NOT_A_MODEL."""
        packed = value["frequencies"]
        parts = {
            "settings": Bm25Settings(**value["settings"]),
            "frequencies": _unpack_frequencies(packed) if packed else {},
        }
        return cls(**value | parts)


def count_document(document: Document, analyzer: Analyzer, settings: Bm25Settings) -> DocumentTerms:
    """The terms of a document's fields; a title that has no weight is not read."""
    title = analyzer.count(document.title) if settings.title_weight else Counter[int]()
    return DocumentTerms(analyzer.count(document.text), title)


def _pack_frequencies(frequencies: Mapping[int, int]) -> str:
    """Term hashes and how many documents have each, as text of about four characters a term."""
    table = np.array(sorted(frequencies.items()), np.int64).reshape(-1, 2).T
    table[0] = np.diff(table[0], prepend=0)
    # Byte by byte: the high bytes of all numbers together are nearly all zeros.
    planes = np.ascontiguousarray(table, "<u4").view(np.uint8).reshape(2, -1, 4).transpose(0, 2, 1)
    return base64.b64encode(zlib.compress(planes.tobytes(), 6)).decode("ascii")


def _unpack_frequencies(packed: str) -> dict[int, int]:
    try:
        content = zlib.decompress(base64.b64decode(packed, validate=True))
        planes = np.frombuffer(content, np.uint8).reshape(2, 4, -1).transpose(0, 2, 1)
    except zlib.error as error:
        raise ValueError(f"the term frequencies are damaged ({error})") from None
    table = np.ascontiguousarray(planes).view("<u4").reshape(2, -1)
    indices = np.cumsum(table[0], dtype=np.int64)
    return dict(zip(indices.tolist(), table[1].tolist(), strict=True))


def rounded_length(mean: float) -> float:
    """To a power of the square root of 2: a mean that hardly differs changes no weight."""
    return round(2 ** (round(2 * math.log2(max(1.0, mean))) / 2), 1)
