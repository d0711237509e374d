"""BM25 over the documents of a data set: counted once, kept in the cache, opened as it is.

CACHE/bm25/NAME-KEY/manifest.json   the model, and the SHA-256 of each file
CACHE/bm25/NAME-KEY/*.npy           the arrays of `_Postings`, mapped into memory when opened
CACHE/bm25/NAME.lock                held while a new one is made

KEY stands for the documents, the analyzer and all settings. Counting takes as much memory for
a million documents as for a thousand, except for their ids and lengths.
"""

import hashlib
import json
import logging
import shutil
from array import array
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, fields, replace
from functools import cached_property
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from assay.data.cache import cache_folder
from assay.data.dataset import Dataset, Document
from assay.errors import AssayError, SearchError
from assay.files import make_private_folder, reserve_file, staging_folder
from assay.privacy import is_private
from assay.progress import Progress, silent
from assay.search.analyzer import ANALYZER, DOCUMENTS_READ, open_analyzer
from assay.search.bm25 import (
    NOT_A_MODEL,
    WEIGHT_STEPS,
    Bm25Model,
    Bm25Settings,
    SparseVector,
    count_document,
    rounded_length,
)
from assay.search.index_files import (
    check_files,
    damaged_index,
    is_hashed_when_opened,
    read_manifest,
    require_disk_space,
    seal,
    writer_lock,
)
from assay.search.postings import Postings, best_rows, ends_fit, open_array, pack_frequencies
from assay.search.store import DamagedIndexError, collection_name

_log = logging.getLogger(__name__)

KEPT_FROM = 1000
"""Documents from which an index is kept: fewer are counted in less time than a file is checked."""

_FORMAT = 3
# About 16 MB; with what sorting takes, some 60.
_POSTINGS_AT_ONCE = 1 << 20
_DOCUMENTS_TOLD = 1000
_BLOCK = np.dtype([("row", "<u4"), ("text", "<u4"), ("title", "<u4")])

_Array = NDArray[Any]
_KINDS = ("<u4", "<i8", "<u4", "<u2", "|u1", "<i8")


@dataclass(frozen=True)
class _Postings(Postings):
    """Postings of documents, with their ids, and weights as integers of `WEIGHT_STEPS`."""

    ids: _Array
    """The UTF-8 of all ids."""
    id_ends: _Array

    def problem(self, size: int) -> str:
        """See `Postings`; the ids are checked, too."""
        if len(self.id_ends) != size or not ends_fit(self.id_ends, len(self.ids)):
            return "its ids do not fit its documents"
        return super().problem(size)

    def doc_id(self, row: int) -> str:
        """The id of a document."""
        start = int(self.id_ends[row - 1]) if row else 0
        content: bytes = self.ids[start : int(self.id_ends[row])].tobytes()
        return content.decode("utf-8", "surrogatepass")


class _Frequencies(Mapping[int, int]):
    """How many documents have each term, by its hash."""

    def __init__(self, postings: _Postings) -> None:
        self._postings = postings

    def __getitem__(self, term: int) -> int:
        span = self._postings.span(term)
        if span is None:
            raise KeyError(term)
        return span[1] - span[0]

    def __iter__(self) -> Iterator[int]:
        return iter(self._postings.terms.tolist())

    def __len__(self) -> int:
        return len(self._postings.terms)


class Bm25Index:
    """BM25 over titles and texts. Ranks as an index of the same documents in Qdrant does.

    Safe to ask from several threads.

    Parameters:
        documents: what to search.
        settings: of BM25; the defaults where left out.
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
        self._set(*counter.postings())

    @classmethod
    def open(cls, folder: Path) -> "Bm25Index":
        """The index that was sealed in a folder; `DamagedIndexError` where it is not as sealed."""
        whole = is_hashed_when_opened(folder)
        check_files(folder, every=whole)
        try:
            model = Bm25Model.from_json(read_manifest(folder)["bm25"])
            kinds = zip(fields(_Postings), _KINDS, strict=True)
            postings = _Postings(
                *(open_array(folder / f"{one.name}.npy", kind) for one, kind in kinds)
            )
            if problem := postings.problem(model.documents) if whole else "":
                raise ValueError(problem)
        except (OSError, ValueError, AssayError, *NOT_A_MODEL) as error:
            raise damaged_index(folder, str(error)) from None
        opened = cls.__new__(cls)
        opened._set(model, postings)
        return opened

    def _set(self, model: Bm25Model, postings: _Postings) -> None:
        self.weighting = model
        """The model without frequencies, which are in the arrays."""
        self._postings, self._having = postings, _Frequencies(postings)

    @cached_property
    def model(self) -> Bm25Model:
        """Everything that a score depends on but the texts."""
        postings = self._postings
        having = np.diff(postings.ends, prepend=0).tolist()
        packed = pack_frequencies(dict(zip(postings.terms.tolist(), having, strict=True)))
        return replace(self.weighting, frequencies=packed)

    def search(self, query: str, top_k: int) -> list[tuple[str, float]]:
        """Documents that share a word with the query, best first; ties in the order of ids."""
        return self.nearest(self.weighting.query(query, self._having), top_k)

    def nearest(self, vector: SparseVector, top_k: int) -> list[tuple[str, float]]:
        """As `search`, for the vector of a query."""
        postings = self._postings
        try:
            scores = postings.scores(vector, self.weighting.documents, WEIGHT_STEPS)
            having = np.flatnonzero(scores)
            best = having[best_rows(scores[having], top_k)].tolist()
            return [(postings.doc_id(row), float(scores[row])) for row in best]
        except (ValueError, IndexError) as error:  # too large to be read when it was opened
            raise DamagedIndexError(f"the BM25 index is damaged ({error})") from None


@dataclass(frozen=True)
class _Block:
    """The postings of some documents, sorted by term: each of `terms` has `having` of them."""

    terms: _Array
    having: _Array
    postings: _Array


class _Counter:
    """Counts terms, some documents at a time, and sorts what it counted by term.

    Blocks of postings wait in `folder`, or in memory where there is none, until the mean length
    and the order of all documents are known.
    """

    def __init__(self, folder: Path | None, settings: Bm25Settings) -> None:
        self._folder, self._settings = folder, settings
        self._language = ""
        self._ids: list[str] = []
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
            self._ids.append(document.id)
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
            path = self._block_file(len(self._blocks))
            np.save(path, postings)
            postings = np.load(path, mmap_mode="r")
        self._blocks.append(_Block(terms, having, postings))
        self._start_block()

    def _block_file(self, number: int) -> Path:
        assert self._folder is not None
        return self._folder / f"block-{number}.npy"

    def postings(self) -> tuple[Bm25Model, _Postings]:
        """Everything that was counted, by term, and the model without frequencies."""
        lengths, titles = np.array(self._lengths), np.array(self._title_lengths)
        average, title = (rounded_length(one.sum() / max(1, len(one))) for one in (lengths, titles))
        model = Bm25Model(self._settings, len(lengths), average, "", title, self._language)
        terms = np.unique(np.concatenate([block.terms for block in self._blocks]))
        places = [np.searchsorted(terms, block.terms) for block in self._blocks]
        having = np.zeros(len(terms), np.int64)
        for block, place in zip(self._blocks, places, strict=True):
            having[place] += block.having
        order = sorted(range(len(self._ids)), key=self._ids.__getitem__)
        ids = [self._ids[row].encode("utf-8", "surrogatepass") for row in order]
        if self._folder is not None:
            needed = int(having.sum()) * 6 + len(terms) * 12 + sum(map(len, ids)) + len(ids) * 8
            require_disk_space(self._folder, needed)
        ends = np.cumsum(having)
        made = _Postings(
            terms=self._kept("terms", terms.astype("<u4")),
            ends=self._kept("ends", ends.astype("<i8")),
            rows=self._room("rows", "<u4", int(having.sum())),
            weights=self._room("weights", "<u2", int(having.sum())),
            ids=self._kept("ids", np.frombuffer(b"".join(ids), np.uint8)),
            id_ends=self._kept("id_ends", np.cumsum([len(one) for one in ids], dtype="<i8")),
        )
        row_of = np.empty(len(order), np.uint32)
        row_of[order] = np.arange(len(order), dtype=np.uint32)
        free = ends - having
        for block, place in zip(self._blocks, places, strict=True):
            before = np.cumsum(block.having) - block.having
            targets = np.repeat(free[place] - before, block.having) + np.arange(len(block.postings))
            rows = block.postings["row"]
            made.rows[targets] = row_of[rows]
            weights = model.weights(
                block.postings["text"], block.postings["title"], lengths[rows], titles[rows]
            )
            made.weights[targets] = np.rint(weights * WEIGHT_STEPS).astype(np.uint16)
            free[place] += block.having
        for number in range(len(self._blocks) if self._folder else 0):
            self._block_file(number).unlink()
        for one in (made.rows, made.weights):
            if isinstance(one, np.memmap):
                one.flush()
        return model, made

    def _kept(self, name: str, values: _Array) -> _Array:
        if self._folder is not None:
            np.save(self._folder / f"{name}.npy", values)
        return values

    def _room(self, name: str, kind: str, size: int) -> _Array:
        if self._folder is None:
            return np.empty(size, kind)
        path = self._folder / f"{name}.npy"
        room: _Array = np.lib.format.open_memmap(path, mode="w+", dtype=kind, shape=(size,))
        reserve_file(path)
        return room


def open_bm25(
    dataset: Dataset, settings: Bm25Settings | None = None, progress: Progress = silent
) -> Bm25Index:
    """The index of a data set's documents: from the cache, else built and kept there.

    A private run keeps nothing, and few documents are not worth a file. Where the cache cannot be
    written, the index is built in memory, and a warning says so.
    """
    settings = settings or Bm25Settings()
    if is_private() or len(dataset.documents) < KEPT_FROM:
        return Bm25Index(dataset.documents.values(), settings, progress)
    try:
        folder = cache_folder() / "bm25"
        name = collection_name(dataset.name)
        path = folder / f"{name}-{_key(dataset, settings)}"
        index = _opened(path)
        if index is None:
            make_private_folder(folder)
            with writer_lock(folder / f"{name}.lock", progress):
                index = _opened(path) or _written(path, name, dataset, settings, progress)
        return index
    except (OSError, SearchError) as error:
        why = getattr(error, "strerror", None) or type(error).__name__
        _log.warning("the BM25 index cannot be kept (%s): it is built in memory", why)
        return Bm25Index(dataset.documents.values(), settings, progress)


def _key(dataset: Dataset, settings: Bm25Settings) -> str:
    # Told by the metadata of documents, which their fingerprint leaves out, or detected.
    language = settings.language_for(dataset.documents.values())
    parts = [_FORMAT, ANALYZER, language, asdict(settings), dataset.corpus_fingerprint]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]


def _opened(path: Path) -> Bm25Index | None:
    if not path.is_dir():
        return None
    try:
        return Bm25Index.open(path)
    except DamagedIndexError as error:
        _log.warning("%s: it is rebuilt", error.damage)
        return None


def _written(
    path: Path, name: str, dataset: Dataset, settings: Bm25Settings, progress: Progress
) -> Bm25Index:
    """Under the lock: nobody else writes an index of this name."""
    with staging_folder(path) as staging:
        part = staging / path.name
        make_private_folder(part)
        index = Bm25Index(dataset.documents.values(), settings, progress, folder=part)
        seal(part, {"bm25": asdict(index.weighting)})
        with suppress(FileNotFoundError):
            shutil.rmtree(path)  # a damaged one
        part.rename(path)
    index = Bm25Index.open(path)
    for other in path.parent.glob(f"{name}-*"):
        # Of an earlier state of the documents. Those who search it have its files open.
        ours = other.name.rpartition("-")[0] == name  # not of a data set whose name goes on
        if ours and other != path and _same_settings(other, index.weighting):
            shutil.rmtree(other, ignore_errors=True)
    return index


def _same_settings(folder: Path, model: Bm25Model) -> bool:
    try:
        other = Bm25Model.from_json(read_manifest(folder)["bm25"])
    except (AssayError, *NOT_A_MODEL):
        return False
    return (other.settings, other.analyzer) == (model.settings, model.analyzer)
