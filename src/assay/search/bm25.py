"""BM25 over titles and texts (BM25F), kept in the cache.

CACHE/bm25/NAME-SETTINGS-KEY/   ids.json, and the arrays of the postings, mapped when opened
CACHE/bm25/NAME-SETTINGS.lock   held while a new one is made

SETTINGS is a hash, and KEY stands for the documents and the analyzer.
"""

import hashlib
import json
import logging
import math
import os
import shutil
import zlib
from array import array
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from assay.data.cache import cache_folder
from assay.data.dataset import Dataset, Document
from assay.errors import DataError, SearchError, UsageError
from assay.files import read_file, reserve_file
from assay.privacy import is_private
from assay.progress import Progress, silent
from assay.search.analyzer import (
    ANALYZER,
    AUTO,
    DEFAULT_LANGUAGE,
    DOCUMENTS_READ,
    Analyzer,
    language_named,
    language_of,
    open_analyzer,
)
from assay.search.sealed_folder import (
    DamagedIndexError,
    check_folder,
    is_sealed,
    seal,
    writer_lock,
    writing_folder,
)

# A query is read up to here: it bounds the work for a text that was pasted by mistake
QUERY_CHARACTERS = 4000
# Documents from which an index is kept: fewer are counted in less time than a file is checked
KEPT_FROM = 1000
VARIABLE = "ASSAY_BM25"

# Both factors of a score are rounded to powers of two, 10 bits for a document's weight and 13 for
# the sum of a query's: every sum is exact in 32 bits, whatever the order of its terms.
_WEIGHT_STEPS = 1 << 10
_QUERY_BITS = 13
_LIMIT = 100.0
_FORMAT = 5
_IDS = "ids.json"
_MAX_IDS = 4 << 30
# About 16 MB; with what sorting takes, some 60.
_POSTINGS_AT_ONCE = 1 << 20
_DOCUMENTS_TOLD = 1000
_BLOCK = np.dtype([("row", "<u4"), ("text", "<u4"), ("title", "<u4")])

_log = logging.getLogger(__name__)

_Array = NDArray[Any]
_Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Bm25Settings:
    """Defaults were chosen on NFCorpus dev, SciFact train and `notes`, see benchmarks/README.md.

    Parameters:
        k1: term-frequency saturation.
        b: length normalization, from 0 to 1, of titles and of texts.
        delta: what a term is worth at least if it occurs (BM25+, Lv and Zhai 2011).
        title_weight: how often a word of the title counts; 0 leaves titles out.
        language: by name or code; `auto` detects it, `none` stems nothing.
    """

    k1: float = 1.2
    b: float = 0.75
    delta: float = 0.0
    title_weight: float = 3.0
    language: str = AUTO

    def __post_init__(self) -> None:
        for name, most in (("k1", _LIMIT), ("b", 1.0), ("delta", _LIMIT), ("title_weight", _LIMIT)):
            value = getattr(self, name)
            if not 0 <= value <= most:  # nor is NaN
                raise UsageError(
                    f"{name.replace('_', ' ')} of BM25 must be from 0 to {most:g}, got {value}"
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
            name, _, value = pair.partition("=")
            name = name.strip().replace("-", "_").replace(" ", "_")
            try:
                chosen[name] = type(_DEFAULTS[name])(value.strip())
            except (KeyError, ValueError):
                raise UsageError(
                    f"--bm25 {pair!r} is not KEY=VALUE with one of {', '.join(_DEFAULTS)}"
                ) from None
        return replace(cls(), **chosen)  # type: ignore[arg-type]

    def as_environment(self) -> dict[str, str]:
        """The variable that makes another process use the same."""
        return {VARIABLE: str(self)}

    def __str__(self) -> str:
        """`k1=1.2, b=0.75, language=german`: k1, b, and what differs from the defaults."""
        chosen = {
            name: f"{value:g}" if isinstance(value, float) else str(value)
            for name, value in asdict(self).items()
            if name in ("k1", "b") or value != _DEFAULTS[name]
        }
        return ", ".join(f"{name.replace('_', ' ')}={text}" for name, text in chosen.items())

    def language_for(self, documents: Iterable[Document]) -> str:
        """The language that these documents are read in."""
        return language_of(documents) if self.language == AUTO else self.language


_DEFAULTS = asdict(Bm25Settings())


def inverse_frequency(having: ArrayLike, documents: int) -> _Floats:
    """Lucene's form, which is never negative. `having`: how many documents have each term."""
    counts = np.asarray(having, np.float64)
    return np.asarray(np.log1p((documents - counts + 0.5) / (counts + 0.5)))


def normalized(counts: ArrayLike, lengths: ArrayLike, average_length: float, b: float) -> _Floats:
    """Frequencies in a field, as if it were of average length."""
    relative = np.asarray(lengths, np.float64) / average_length
    return np.asarray(np.asarray(counts, np.float64) / np.maximum(1 - b + b * relative, 1e-9))


def saturated(frequencies: _Floats, settings: Bm25Settings) -> _Floats:
    """From 0 to 1: more of a word says less and less."""
    least = settings.delta / (settings.k1 + 1)
    return np.asarray((frequencies / (frequencies + settings.k1) + least) / (1 + least))


# The hashes of a query's terms, each with its weight.
WeightedTerms = Mapping[int, float]


@dataclass(frozen=True)
class Bm25Model:
    """All that the weight of a term in a text depends on. Mean lengths are in terms."""

    settings: Bm25Settings
    documents: int
    average_length: float
    average_title: float = 1.0
    language: str = DEFAULT_LANGUAGE


class _Postings(NamedTuple):
    """For each of `terms`, which are hashes in order, the rows that have it and its weight in each,
    in `_WEIGHT_STEPS`. `ends`: where the postings of each term end.
    """

    terms: _Array
    ends: _Array
    rows: _Array
    weights: _Array

    def span(self, term: int) -> tuple[int, int]:
        """Where the postings of a term are; (0, 0) for a term that no row has."""
        place = int(np.searchsorted(self.terms, np.uint32(term)))
        if place == len(self.terms) or self.terms[place] != term:
            return 0, 0
        return int(self.ends[place - 1]) if place else 0, int(self.ends[place])

    def of(self, query: WeightedTerms) -> Iterator[tuple[_Array, _Array]]:
        """For each term of a query, the rows that have it and what it adds to their scores."""
        for term, value in query.items():
            start, end = self.span(term)
            added = self.weights[start:end] * np.float32(value / _WEIGHT_STEPS)
            yield self.rows[start:end], added


class Bm25Index:
    """Bm25Index(documents).search("green tea", 10)  # safe to use from several threads

    `folder`: an empty one to write the arrays to, which are in memory otherwise.
    """

    def __init__(
        self,
        documents: Iterable[Document],
        settings: Bm25Settings | None = None,
        progress: Progress = silent,
        *,
        folder: Path | None = None,
    ) -> None:
        settings, documents = settings or Bm25Settings(), iter(documents)
        first = list(islice(documents, DOCUMENTS_READ))
        language = settings.language_for(first)
        counted = _Counted()
        blocks = list(counted.blocks(chain(first, documents), settings, language, folder, progress))
        self.ids: Sequence[str] = counted.ids  # of all documents, in the order of the corpus
        lengths, titles = np.array(counted.lengths), np.array(counted.title_lengths)
        # Means to a power of the square root of 2: one that hardly differs changes no weight.
        means = (max(1.0, one.sum() / max(1, len(one))) for one in (lengths, titles))
        average, title = (round(2 ** (round(2 * math.log2(mean)) / 2), 1) for mean in means)
        self.model = Bm25Model(settings, len(lengths), average, title, language)
        self._postings = _merged(blocks, self.model, lengths, titles, folder)
        if folder is not None:
            (folder / _IDS).write_text(json.dumps(self.ids), encoding="ascii")

    @classmethod
    def open(cls, folder: Path) -> "Bm25Index":
        """The index that was sealed in a folder; `DamagedIndexError` if it is not as sealed."""
        about = check_folder(folder)["bm25"]
        arrays = (np.load(folder / f"{name}.npy", mmap_mode="r") for name in _Postings._fields)
        opened = cls.__new__(cls)
        opened.model = Bm25Model(**about | {"settings": Bm25Settings(**about["settings"])})
        opened._postings = _Postings(*(one.view(np.ndarray) for one in arrays))
        opened.ids = json.loads(read_file(folder / _IDS, limit=_MAX_IDS))
        return opened

    @cached_property
    def row_of(self) -> dict[str, int]:
        """The place of each document in `ids`."""
        return {doc_id: row for row, doc_id in enumerate(self.ids)}

    @cached_property
    def _analyzer(self) -> Analyzer:
        return open_analyzer(self.model.language)

    def search(self, query: str, top_k: int) -> list[tuple[str, float]]:
        """Documents that share a word with the query, best first; ties in the order of ids."""
        return list(self.find(self.query(query), top_k).items())

    def terms(self, text: str) -> list[str]:
        """The words of a query or a passage as they are counted, in order."""
        return self._analyzer.terms(text)

    def query(self, text: str) -> WeightedTerms:
        """The terms to search for: each known one once, however often it was written."""
        having: dict[int, int] = {}
        for term in self._analyzer.count_query(text[:QUERY_CHARACTERS]):
            start, end = self._postings.span(term)
            if end > start:
                having[term] = end - start
        if not having:
            return {}
        weights = inverse_frequency(list(having.values()), self.model.documents)
        step = 2.0 ** (math.ceil(math.log2(weights.sum())) - _QUERY_BITS)
        rounded = np.maximum(np.rint(weights / step), 1) * step
        return dict(zip(having, rounded.tolist(), strict=True))

    def find(
        self, query: WeightedTerms, count: int = 0, *, among: Collection[str] | None = None
    ) -> dict[str, float]:
        """The scores of documents that share a word with the query: of the best `count`, best
        first, equal ones in the order of ids; of all for 0. `among`: of these documents alone.
        """
        if among is None:
            found = np.zeros(len(self.ids), np.float32)
            for rows, added in self._postings.of(query):
                found[rows] += added
            rows = np.flatnonzero(found)
            found = found[rows]
        else:
            wanted = np.array(sorted(map(self.row_of.__getitem__, among)), np.uint32)
            found = np.zeros(len(wanted), np.float32)
            for having, added in self._postings.of(query):  # a few are looked up among many
                places = np.minimum(np.searchsorted(having, wanted), len(having) - 1)
                found += np.where(having[places] == wanted, added[places], np.float32(0))
            rows, found = wanted[found > 0].astype(np.int64), found[found > 0]
        best = self.best(found, count, rows) if count or among is None else range(len(rows))
        return {self.ids[rows[place]]: float(found[place]) for place in best}

    def best(self, scores: NDArray[np.float32], count: int, rows: _Array) -> list[int]:
        """The places of the highest scores, which belong to `rows`; of equal ones the lower id."""
        places = np.arange(len(scores))
        if 0 < count < len(scores):
            least = np.partition(scores, len(scores) - count)[len(scores) - count]
            places = np.flatnonzero(scores >= least)
        places = places[np.argsort(-scores[places], kind="stable")]
        ranked = scores[places]
        if not (ranked[1:] == ranked[:-1]).any():  # nearly always, and several times as quick
            return [int(place) for place in places[: count or None]]
        pairs = zip(scores[places].tolist(), places.tolist(), strict=True)
        ties = sorted((-score, self.ids[rows[place]], place) for score, place in pairs)
        return [place for _, _, place in ties[: count or None]]

    def score_text(self, text: str, query: WeightedTerms) -> float:
        """The score of a text without a title, not rounded: to compare a few passages by."""
        counts, settings = self._analyzer.count(text), self.model.settings
        # In floats of Python: arrays of a few numbers take ten times as long.
        norm = 1 - settings.b + settings.b * counts.total() / self.model.average_length
        saturation, least = settings.k1 * max(norm, 1e-9), settings.delta / (settings.k1 + 1)
        return sum(
            value * (counts[one] / (counts[one] + saturation) + least) / (1 + least)
            for one, value in query.items()
            if one in counts
        )


class _Block(NamedTuple):
    """The postings of some documents, sorted by term: each of `terms` has `having` of them."""

    terms: _Array
    having: _Array
    postings: _Array


class _Counted:
    """Ids of documents and how many terms their texts and titles have, in the order of the corpus.

    Counting them makes blocks of postings, which wait in a folder, or in memory if there is none,
    until the mean length of all documents is known.
    """

    def __init__(self) -> None:
        self.ids: list[str] = []
        self.lengths, self.title_lengths = array("d"), array("d")

    def blocks(
        self,
        documents: Iterable[Document],
        settings: Bm25Settings,
        language: str,
        folder: Path | None,
        progress: Progress,
    ) -> Iterator[_Block]:
        """Count the terms of all documents, some at a time, and sort what was counted by term."""
        analyzer, weighs_titles = open_analyzer(language), settings.title_weight > 0
        columns = [array("I") for _ in range(4)]
        for row, document in enumerate(documents):
            text = analyzer.count(document.text)
            title = analyzer.count(document.title) if weighs_titles else Counter[int]()
            terms = [*text, *(term for term in title if term not in text)]
            self.ids.append(document.id)
            self.lengths.append(text.total())
            self.title_lengths.append(title.total())
            columns[0].extend(terms)
            columns[1].extend([row] * len(terms))
            columns[2].extend(map(text.__getitem__, terms))
            columns[3].extend(map(title.__getitem__, terms))
            if len(columns[0]) >= _POSTINGS_AT_ONCE:
                yield _block(columns, folder and folder / f"block-{row}.npy")
                columns = [array("I") for _ in range(4)]
            if row % _DOCUMENTS_TOLD == 0:
                progress("indexing", row, None)
        yield _block(columns, folder and folder / "block-last.npy")


def _block(columns: Sequence["array[int]"], path: Path | None) -> _Block:
    """`columns`: for each posting its term, its row, and how often text and title have the term."""
    hashes, *others = (np.array(column, np.uint32) for column in columns)
    order = np.argsort(hashes, kind="stable")
    terms, having = np.unique(hashes, return_counts=True)
    postings = np.empty(len(hashes), _BLOCK)
    for name, values in zip(_BLOCK.names or (), others, strict=True):
        postings[name] = values[order]
    if path is not None:
        np.save(path, postings)
        postings = np.load(path, mmap_mode="r")
    return _Block(terms, having, postings)


def _merged(
    blocks: Sequence[_Block], model: Bm25Model, lengths: _Array, titles: _Array, folder: Path | None
) -> _Postings:
    """The postings of all blocks, by term, with the weights of the model."""
    terms = np.unique(np.concatenate([block.terms for block in blocks]))
    places = [np.searchsorted(terms, block.terms) for block in blocks]
    having = np.zeros(len(terms), np.int64)
    for block, place in zip(blocks, places, strict=True):
        having[place] += block.having
    ends = np.cumsum(having)
    rows = _room(folder, "rows", "<u4", int(having.sum()))
    weights = _room(folder, "weights", "<u2", int(having.sum()))
    free, settings = ends - having, model.settings
    for block, place in zip(blocks, places, strict=True):
        before = np.cumsum(block.having) - block.having
        targets = np.repeat(free[place] - before, block.having) + np.arange(len(block.postings))
        own, texts = block.postings["row"], block.postings["text"]
        found = normalized(texts, lengths[own], model.average_length, settings.b)
        if settings.title_weight:
            named = block.postings["title"]
            named = normalized(named, titles[own], model.average_title, settings.b)
            found = found + settings.title_weight * named
        rows[targets] = own
        weights[targets] = np.maximum(np.rint(saturated(found, settings) * _WEIGHT_STEPS), 1)
        free[place] += block.having
    made = _Postings(terms.astype("<u4"), ends.astype("<i8"), rows, weights)
    if folder is not None:
        for path in folder.glob("block-*.npy"):
            path.unlink()
        np.save(folder / "terms.npy", made.terms)
        np.save(folder / "ends.npy", made.ends)
    return made


def _room(folder: Path | None, name: str, kind: str, size: int) -> _Array:
    if folder is None:
        return np.empty(size, kind)
    path, shape = folder / f"{name}.npy", (max(1, size),)  # an empty file is not mapped
    room: _Array = np.lib.format.open_memmap(path, mode="w+", dtype=kind, shape=shape)
    reserve_file(path)  # writing to a sparse mmap on a full disk raises SIGBUS
    return room


def open_bm25(
    dataset: Dataset, settings: Bm25Settings | None = None, progress: Progress = silent
) -> Bm25Index:
    """The index of a data set's documents: from the cache, else built and kept there.

    A private run keeps nothing, and few documents are not worth a file. If the cache cannot be
    written, the index is built in memory, and a warning says so.
    """
    settings = settings or Bm25Settings()
    if len(dataset.documents) >= KEPT_FROM and not is_private():
        try:
            path = _path(dataset, settings)
            if (index := _opened(path)) is None:
                with writer_lock(path.parent / f"{path.name.rpartition('-')[0]}.lock", progress):
                    index = _opened(path) or _written(path, dataset, settings, progress)
            return index
        except (DataError, SearchError) as error:
            why = getattr(error.__cause__, "strerror", None) or type(error).__name__
            _log.warning("the BM25 index cannot be kept (%s): it is built in memory", why)
    return Bm25Index(dataset.documents.values(), settings, progress)


def _path(dataset: Dataset, settings: Bm25Settings) -> Path:
    # The language is told by the metadata of documents, which their fingerprint leaves out.
    language = settings.language_for(dataset.documents.values())
    chosen = zlib.crc32(json.dumps(asdict(settings), sort_keys=True).encode())
    parts = [_FORMAT, ANALYZER, language, dataset.corpus_fingerprint]
    key = hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]
    name = "".join(one if one.isalnum() or one in "._-" else "-" for one in dataset.name)[:100]
    return cache_folder() / "bm25" / f"{name}-{chosen:08x}-{key}"


def _opened(path: Path) -> Bm25Index | None:
    if not is_sealed(path):
        return None
    try:
        return Bm25Index.open(path)
    except DamagedIndexError as error:
        _log.warning("%s: it is rebuilt", error.damage)
        return None


def _written(path: Path, dataset: Dataset, settings: Bm25Settings, progress: Progress) -> Bm25Index:
    """Under the lock: nobody else writes an index of this name."""
    with writing_folder(path) as part:
        index = Bm25Index(dataset.documents.values(), settings, progress, folder=part)
        seal(part, {"bm25": asdict(index.model)})
    name = path.name.rpartition("-")[0]
    for other in path.parent.iterdir():
        # Of earlier documents or another version. Searches in progress have its files open.
        if other.is_dir() and other != path and other.name.rpartition("-")[0] == name:
            shutil.rmtree(other, ignore_errors=True)
    return Bm25Index.open(path)
