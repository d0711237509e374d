"""BM25 over the documents of a data set: counted once, kept in the cache, opened as it is.

CACHE/bm25/NAME-KEY/   ids.json, and the arrays of the postings, mapped into memory when opened
CACHE/bm25/NAME.lock   held while a new one is made

KEY stands for the documents, the analyzer and all settings. Counting takes as much memory for
a million documents as for a thousand, except for their ids and lengths.
"""

import hashlib
import json
import logging
import shutil
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from assay.data.cache import cache_folder
from assay.data.dataset import Dataset, Document
from assay.errors import DataError, SearchError
from assay.files import read_file, reserve_file
from assay.privacy import is_private
from assay.progress import Progress, silent
from assay.search.analyzer import ANALYZER, DOCUMENTS_READ, open_analyzer
from assay.search.bm25 import (
    WEIGHT_STEPS,
    Bm25Model,
    Bm25Settings,
    SparseVector,
    count_document,
    rounded_length,
)
from assay.search.sealed_folder import (
    DamagedIndexError,
    check_folder,
    is_sealed,
    seal,
    writer_lock,
    writing_folder,
)

_log = logging.getLogger(__name__)

KEPT_FROM = 1000
"""Documents from which an index is kept: fewer are counted in less time than a file is checked."""

_FORMAT = 4
_IDS = "ids.json"
_MAX_IDS = 4 << 30
_ARRAYS = ("terms", "ends", "rows", "weights")
# About 16 MB; with what sorting takes, some 60.
_POSTINGS_AT_ONCE = 1 << 20
_DOCUMENTS_TOLD = 1000
_BLOCK = np.dtype([("row", "<u4"), ("text", "<u4"), ("title", "<u4")])

_Array = NDArray[Any]


class Postings(Mapping[int, int]):
    """For each term, the rows that have it and its weight in each; as a mapping, how many have it.

    Parameters:
        terms: hashes, in order.
        ends: where the postings of each term end.
        rows: documents, in the order of the corpus.
        weights: as integers of `WEIGHT_STEPS`.
    """

    def __init__(self, terms: _Array, ends: _Array, rows: _Array, weights: _Array) -> None:
        self.terms, self.ends, self.rows, self.weights = terms, ends, rows, weights

    def __getitem__(self, term: int) -> int:
        span = self.span(term)
        if span is None:
            raise KeyError(term)
        return span[1] - span[0]

    def __iter__(self) -> Iterator[int]:
        return iter(self.terms.tolist())

    def __len__(self) -> int:
        return len(self.terms)

    def span(self, term: int) -> tuple[int, int] | None:
        """Where the postings of a term are; None for a term that no row has."""
        place = int(np.searchsorted(self.terms, np.uint32(term)))
        if place == len(self.terms) or self.terms[place] != term:
            return None
        return int(self.ends[place - 1]) if place else 0, int(self.ends[place])


class Bm25Index:
    """BM25 over titles and texts: Bm25Index(documents).search("green tea", 10)

    Ranks as an index of the same documents in Qdrant does; safe to ask from several threads.

    Parameters:
        documents: what to search.
        settings: of BM25; the defaults if left out.
        progress: called while documents are counted.
        folder: an empty folder to write the arrays to; left out: they stay in memory.
    """

    def __init__(
        self,
        documents: Iterable[Document],
        settings: Bm25Settings | None = None,
        progress: Progress = silent,
        *,
        folder: Path | None = None,
    ) -> None:
        counter = _Counter(folder, settings or Bm25Settings())
        counter.count(documents, progress)
        self._set(*counter.postings(), counter.ids)

    @classmethod
    def open(cls, folder: Path) -> "Bm25Index":
        """The index that was sealed in a folder; `DamagedIndexError` if it is not as sealed."""
        about = check_folder(folder)
        arrays = (np.load(folder / f"{name}.npy", mmap_mode="r") for name in _ARRAYS)
        opened = cls.__new__(cls)
        opened._set(
            Bm25Model.from_json(about["bm25"]),
            Postings(*(one.view(np.ndarray) for one in arrays)),
            json.loads(read_file(folder / _IDS, limit=_MAX_IDS)),
        )
        return opened

    def _set(self, model: Bm25Model, postings: Postings, ids: Sequence[str]) -> None:
        self.model = replace(model, frequencies=postings)
        """Everything that a score depends on but the texts."""
        self.ids = ids
        """Of all documents, in the order of the corpus."""
        self._postings = postings

    @cached_property
    def row_of(self) -> dict[str, int]:
        """The place of each document in `ids`."""
        return {doc_id: row for row, doc_id in enumerate(self.ids)}

    def search(self, query: str, top_k: int) -> list[tuple[str, float]]:
        """Documents that share a word with the query, best first; ties in the order of ids."""
        scores = self.scores(self.model.query(query))
        best = self.best(scores, top_k, scores > 0)
        return [(self.ids[row], float(scores[row])) for row in best]

    def scores(self, query: SparseVector) -> NDArray[np.float32]:
        """The score of each document; 0 for one without a word of the query.

        Exact whatever the order of the terms, as weights are rounded to steps.
        """
        scores, postings = np.zeros(len(self.ids), np.float32), self._postings
        for term, value in zip(query.indices, query.values, strict=True):
            start, end = postings.span(term) or (0, 0)
            weights = postings.weights[start:end] * np.float32(value / WEIGHT_STEPS)
            scores[postings.rows[start:end]] += weights
        return scores

    def best(
        self, scores: NDArray[np.float32], count: int, allowed: NDArray[np.bool_] | None = None
    ) -> list[int]:
        """The rows of the highest scores, best first; of equal ones the lower id."""
        rows = None if allowed is None else np.flatnonzero(allowed)
        values = scores if rows is None else scores[rows]
        if 0 < count < len(values):
            least = np.partition(values, len(values) - count)[len(values) - count]
            places = np.flatnonzero(values >= least)
            rows, values = places if rows is None else rows[places], values[places]
        numbers = range(len(values)) if rows is None else rows.tolist()
        order = np.argsort(-values, kind="stable")
        ranked = values[order]
        if not (ranked[1:] == ranked[:-1]).any():  # nearly always, and several times as quick
            return [numbers[place] for place in order[:count].tolist()]
        found = zip(values.tolist(), numbers, strict=True)
        pairs = sorted((-value, self.ids[row], row) for value, row in found)
        return [row for _, _, row in pairs[:count]]


@dataclass(frozen=True)
class _Block:
    """The postings of some documents, sorted by term: each of `terms` has `having` of them."""

    terms: _Array
    having: _Array
    postings: _Array


class _Counter:
    """Counts terms, some documents at a time, and sorts what it counted by term.

    Blocks of postings wait in `folder`, or in memory if there is none, until the mean length of all
    documents is known.
    """

    def __init__(self, folder: Path | None, settings: Bm25Settings) -> None:
        self._folder, self._settings = folder, settings
        self._language = ""
        self.ids: list[str] = []
        self._lengths, self._title_lengths = array("d"), array("d")
        self._blocks: list[_Block] = []
        self._start_block()

    def _start_block(self) -> None:
        self._terms, self._rows, self._texts, self._titles = (array("I") for _ in range(4))

    def count(self, documents: Iterable[Document], progress: Progress) -> None:
        """Count the terms of all documents, which are read once."""
        documents = iter(documents)
        first = list(islice(documents, DOCUMENTS_READ))
        self._language = self._settings.language_for(first)
        analyzer = open_analyzer(self._language, self._settings.stop_words)
        for row, document in enumerate(chain(first, documents)):
            found = count_document(document, analyzer, self._settings)
            terms = found.terms
            self.ids.append(document.id)
            self._lengths.append(found.text.total())
            self._title_lengths.append(found.title.total())
            self._terms.extend(terms)
            self._texts.extend(map(found.text.__getitem__, terms))
            self._titles.extend(map(found.title.__getitem__, terms))
            self._rows.extend([row] * len(terms))
            if len(self._terms) >= _POSTINGS_AT_ONCE:
                self._end_block()
            if row % _DOCUMENTS_TOLD == 0:
                progress("indexing", row, None)
        self._end_block()

    def _end_block(self) -> None:
        hashes = np.array(self._terms, np.uint32)
        order = np.argsort(hashes, kind="stable")
        terms, having = np.unique(hashes, return_counts=True)
        postings = np.empty(len(hashes), _BLOCK)
        postings["row"] = np.array(self._rows, np.uint32)[order]
        postings["text"] = np.array(self._texts, np.uint32)[order]
        postings["title"] = np.array(self._titles, np.uint32)[order]
        if self._folder is not None:
            path = self._block_file(self._folder, len(self._blocks))
            np.save(path, postings)
            postings = np.load(path, mmap_mode="r")
        self._blocks.append(_Block(terms, having, postings))
        self._start_block()

    @staticmethod
    def _block_file(folder: Path, number: int) -> Path:
        return folder / f"block-{number}.npy"

    def postings(self) -> tuple[Bm25Model, Postings]:
        """Everything that was counted, by term; and the model without frequencies."""
        lengths, titles = np.array(self._lengths), np.array(self._title_lengths)
        average, title = (rounded_length(one.sum() / max(1, len(one))) for one in (lengths, titles))
        model = Bm25Model(self._settings, len(lengths), average, title, self._language)
        terms = np.unique(np.concatenate([block.terms for block in self._blocks]))
        places = [np.searchsorted(terms, block.terms) for block in self._blocks]
        having = np.zeros(len(terms), np.int64)
        for block, place in zip(self._blocks, places, strict=True):
            having[place] += block.having
        ends = np.cumsum(having)
        rows = self._room("rows", "<u4", int(having.sum()))
        weights = self._room("weights", "<u2", int(having.sum()))
        free = ends - having
        for block, place in zip(self._blocks, places, strict=True):
            before = np.cumsum(block.having) - block.having
            targets = np.repeat(free[place] - before, block.having) + np.arange(len(block.postings))
            own = block.postings["row"]
            rows[targets] = own
            found = model.weights(
                block.postings["text"], block.postings["title"], lengths[own], titles[own]
            )
            weights[targets] = np.rint(found * WEIGHT_STEPS).astype(np.uint16)
            free[place] += block.having
        made = Postings(terms.astype("<u4"), ends.astype("<i8"), rows, weights)
        if self._folder is not None:
            self._save(self._folder, made)
        return model, made

    def _save(self, folder: Path, made: Postings) -> None:
        for number in range(len(self._blocks)):
            self._block_file(folder, number).unlink()
        np.save(folder / "terms.npy", made.terms)
        np.save(folder / "ends.npy", made.ends)
        (folder / _IDS).write_text(json.dumps(self.ids), encoding="ascii")
        for one in (made.rows, made.weights):
            if isinstance(one, np.memmap):
                one.flush()

    def _room(self, name: str, kind: str, size: int) -> _Array:
        if self._folder is None:
            return np.empty(size, kind)
        path = self._folder / f"{name}.npy"
        if not size:  # which cannot be mapped
            np.save(path, np.empty(0, kind))
            return np.empty(0, kind)
        room: _Array = np.lib.format.open_memmap(path, mode="w+", dtype=kind, shape=(size,))
        reserve_file(path)
        return room


def open_bm25(
    dataset: Dataset, settings: Bm25Settings | None = None, progress: Progress = silent
) -> Bm25Index:
    """The index of a data set's documents: from the cache, else built and kept there.

    A private run keeps nothing, and few documents are not worth a file. If the cache cannot be
    written, the index is built in memory, and a warning says so.
    """
    settings = settings or Bm25Settings()
    if is_private() or len(dataset.documents) < KEPT_FROM:
        return Bm25Index(dataset.documents.values(), settings, progress)
    try:
        path = _path(dataset, settings)
        index = _opened(path)
        if index is None:
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
    parts = [_FORMAT, ANALYZER, language, asdict(settings), dataset.corpus_fingerprint]
    key = hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]
    name = "".join(one if one.isalnum() or one in "._-" else "-" for one in dataset.name)[:100]
    return cache_folder() / "bm25" / f"{name}-{key}"


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
        seal(part, {"bm25": index.model.as_json(frequencies=False)})
    name = path.name.rpartition("-")[0]
    for other in path.parent.iterdir():
        # Of an earlier state of the documents or version; who searches it has its files open.
        ours = other.is_dir() and other.name.rpartition("-")[0] == name
        if ours and other != path and _settings_of(other) in (None, index.model.settings):
            shutil.rmtree(other, ignore_errors=True)
    return Bm25Index.open(path)


def _settings_of(folder: Path) -> Bm25Settings | None:
    try:
        return Bm25Settings(**check_folder(folder)["bm25"]["settings"])
    except (DamagedIndexError, KeyError, TypeError):
        return None
