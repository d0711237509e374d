"""The tuned ranker, ready to answer queries, and its file.

A model is one file: a line that names the format, a line of JSON, and arrays. The JSON says what
the model was learned from and how it did; it also carries the SHA-256 of the arrays, which are a
numpy archive without pickled objects. The same model gives the same bytes.
"""

import hashlib
import io
import json
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any, get_type_hints

import numpy as np

from assay.errors import SearchError
from assay.files import atomic_write, read_file
from assay.net.json import JsonObject
from assay.search.explanation import JudgedQuery
from assay.search.retriever import LearnedRanking, Ranked
from assay.search.tuning.arrays import Floats, Integers, Sparse, sparse_from_parts
from assay.search.tuning.features import CorpusFeatures, QueryEncoder
from assay.search.tuning.memory import Memory
from assay.search.tuning.ranking import PAGE, RankingCandidates, propose
from assay.search.tuning.signals import (
    FirstPass,
    Signals,
    compare_with_judged,
    first_pass,
    propagate,
)
from assay.search.tuning.trees import TreeGraph
from assay.search.tuning.validation import FamiliarityGate, HeldOut, TuningGain


@dataclass(frozen=True)
class About:
    """What a model file says of itself."""

    fingerprint: str
    """Of the documents."""
    splits: tuple[str, ...]
    """Whose judgments it knows."""
    seed: int
    features: tuple[str, ...]
    versions: dict[str, str]
    bm25: tuple[float, ...]
    """The constants of BM25 in the hybrid ranking that it was compared with."""


# A kind of evidence has brought up a document that is this high in its ranking.
FOUND_BY_RANK = 100
JUDGED_SHOWN = 5
# The neighbors of a query that all trees are asked for.
PREDICTED = 60
_EVIDENCE = {"words": "text", "meaning": "meaning_best", "judgments": "kriging_1"}


@dataclass(frozen=True)
class TunedRanker:
    """Ranks the documents of one index with what was learned from judged queries."""

    about: About
    held_out: HeldOut
    encoder: QueryEncoder
    corpus: CorpusFeatures
    memory: Memory
    overlap_trees: TreeGraph
    ranking_trees: TreeGraph
    gate: FamiliarityGate
    """With which queries the zero-shot ranking counts as well."""
    judged: tuple[str, ...] = ()
    """Ids of the remembered queries."""

    @property
    def splits(self) -> tuple[str, ...]:
        """Whose judgments it knows."""
        return self.about.splits

    def rank(self, text: str, vector: Floats, top_k: int = 10) -> LearnedRanking:
        """Best first."""
        top_k = self._checked(vector, top_k)
        questions = self.encoder.encode([text], np.asarray(vector, np.float32)[None, :])
        first = first_pass(self.corpus, self.memory, questions)
        signals, (candidates,) = second_pass(self.memory, first, self._overlap, top_k)
        # As many bundles as hold twice what is asked for, which is more where filters follow.
        sizes = candidates.sizes
        best = max(1, int(2 * max(PAGE, top_k) * len(sizes) / sizes.sum()))
        scores = self.ranking_trees.predict(candidates.features, best)
        documents, values = _page(candidates, scores, top_k)
        labels = self.memory.bundles.label[documents]
        ranks = {kind: _ranks(signals[name][0], labels) for kind, name in _EVIDENCE.items()}
        found = [
            Ranked(
                document, value, {kind: rank[place] for kind, rank in ranks.items() if rank[place]}
            )
            for place, (document, value) in enumerate(
                zip(documents.tolist(), values.tolist(), strict=True)
            )
        ]
        return LearnedRanking(found, self.gate.trust(candidates, documents[0]))

    def judged_for(
        self, text: str, vector: Floats, documents: Sequence[int]
    ) -> list[tuple[JudgedQuery, ...]]:
        """For each document, the judged queries that spoke for it, most alike first."""
        questions = self.encoder.encode([text], np.asarray(vector, np.float32)[None, :])
        pairs = compare_with_judged(self.memory, first_pass(self.corpus, self.memory, questions))
        flat = pairs.features.reshape(-1, pairs.features.shape[-1])
        overlap = np.clip(self._overlap(flat), 0, 1)
        neighbours = pairs.neighbours[0]
        relevant = self.memory.relevant[neighbours]
        found = []
        for label in self.memory.bundles.label[np.asarray(documents, np.int64)].tolist():
            spoke = np.asarray(relevant[:, [label]].toarray()).ravel() > 0
            best = sorted(np.flatnonzero(spoke).tolist(), key=lambda one: -overlap[one])
            found.append(
                tuple(
                    JudgedQuery(self.judged[neighbours[one]], float(overlap[one]))
                    for one in best[:JUDGED_SHOWN]
                    if neighbours[one] < len(self.judged)
                )
            )
        return found

    def _overlap(self, features: Floats) -> Floats:
        return self.overlap_trees.predict(features, PREDICTED)

    def _checked(self, vector: Floats, top_k: int) -> int:
        if top_k < 1:
            raise SearchError(f"top_k must be >= 1, got {top_k}")
        expected = self.corpus.vectors.shape[1]
        if np.shape(vector) != (expected,):
            raise SearchError(
                f"the query vector has shape {np.shape(vector)}, the tuned model expects vectors "
                "of "
                f"{expected} numbers: embed with the model of the index, or run `assay tune` again"
            )
        return min(top_k, len(self.corpus.vectors))


def second_pass(
    memory: Memory,
    first: FirstPass,
    predict: Callable[[Floats], Floats],
    page: int = PAGE,
) -> tuple[Signals, list[RankingCandidates]]:
    """From the first look to the candidates of each query, by way of the overlaps with judged
    queries that `predict` gives for the features of each pair.
    """
    pairs = compare_with_judged(memory, first)
    flat = pairs.features.reshape(-1, pairs.features.shape[-1])
    overlap = predict(flat).reshape(pairs.neighbours.shape)
    signals = first.signals | propagate(memory, pairs.neighbours, overlap)
    return signals, propose(memory.bundles, first, signals, overlap.max(1), page)


def _page(candidates: RankingCandidates, scores: Floats, top_k: int) -> tuple[Integers, Floats]:
    order = candidates.order(scores)[:top_k]
    documents = candidates.documents[order]
    values = 1 / (1 + np.exp(-scores[candidates.owners[order]].astype(np.float64)))
    missing = top_k - len(documents)
    if missing > 0:
        # Fewer candidates than asked for: zero-shot results follow, below all of them.
        rest = candidates.zero_shot[~np.isin(candidates.zero_shot, documents)][:missing]
        documents = np.concatenate([documents, rest])
        values = np.concatenate([values, np.zeros(len(rest))])
    # The documents of a bundle share its score: a hair between them keeps the order strict, the
    # same hair however many are asked for.
    steps = 1 / np.arange(1, len(documents) + 1)
    return documents, np.asarray(values * 0.999 + steps * 0.001, np.float64)


def _ranks(scores: Floats, labels: Integers) -> list[int]:
    """Of the bundles among all; 0 for those that this evidence did not bring up."""
    own = scores[labels]
    ranks = 1 + len(scores) - np.searchsorted(np.sort(scores), own, side="right")
    return [int(rank) for rank in np.where((ranks <= FOUND_BY_RANK) & (own > 1e-6), ranks, 0)]


MAGIC = b"assay-tuned 7\n"
# The header is read before anything is known to be sound.
_MAX_BYTES = 4 * 2**30
MAX_HEADER = 64 * 2**20
"""It holds the ids of all remembered queries, each as long as its data set likes."""

Arrays = dict[str, np.ndarray[Any, Any]]


def save_model(ranker: TunedRanker, path: Path) -> None:
    """Write the model in one step, so that a reader never sees half a file."""
    payload = _payload(ranker)
    header: JsonObject = {
        "about": asdict(ranker.about),
        "held_out": asdict(ranker.held_out),
        "gate": asdict(ranker.gate),
        "judged": list(ranker.judged),
    }
    header["sha256"] = _checksum(header, payload)
    line = json.dumps(header, sort_keys=True).encode() + b"\n"
    if len(line) > MAX_HEADER:
        raise SearchError(
            f"the tuned model cannot be kept: the ids of its {len(ranker.judged):,} judged queries "
            f"need {len(line):,} bytes, and {MAX_HEADER:,} are allowed; use shorter ids"
        )
    content = MAGIC + line + payload
    try:
        atomic_write(path, content)
    except OSError as error:
        raise SearchError(f"the tuned model could not be written to {path}: {error}") from error


def load_model(path: Path, fingerprint: str | None = None) -> TunedRanker:
    """`fingerprint`: of the documents that will be ranked; a model of others is refused."""
    try:
        content = read_file(path, limit=_MAX_BYTES)
    except FileNotFoundError:
        raise SearchError(f"there is no tuned model at {path}: run `assay tune`") from None
    except OSError as error:
        raise SearchError(f"the tuned model {path} could not be read: {error}") from error
    header, payload = _split(path, content)
    try:
        ranker = _restore(header, payload)
    except (KeyError, TypeError, ValueError, zipfile.BadZipFile, SearchError):
        raise _damaged(path, "it was written by another version of Assay") from None
    if fingerprint is not None and ranker.about.fingerprint != fingerprint:
        raise SearchError(
            f"the tuned model {path} was learned on other documents than those of this index: "
            "run `assay tune` again"
        )
    return ranker


def check_model(path: Path) -> None:
    """Raise `SearchError` unless the file is as it was written."""
    _split(path, read_file(path, limit=_MAX_BYTES))


def _split(path: Path, content: bytes) -> tuple[JsonObject, bytes]:
    if not content.startswith(MAGIC):
        raise _damaged(path, "it is not a tuned model of this version")
    end = content.find(b"\n", len(MAGIC), len(MAGIC) + MAX_HEADER)
    try:
        header = json.loads(content[len(MAGIC) : end]) if end > 0 else None
    except (ValueError, RecursionError):
        header = None
    if not isinstance(header, dict):
        raise _damaged(path, "its header cannot be read")
    payload = content[end + 1 :]
    if header.get("sha256") != _checksum(header, payload):
        raise _damaged(path, "its contents do not match their checksum")
    return header, payload


def _checksum(header: JsonObject, payload: bytes) -> str:
    """Of the arrays and of everything else in the header."""
    rest = {name: value for name, value in header.items() if name != "sha256"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode() + payload).hexdigest()


def _damaged(path: Path, why: str) -> SearchError:
    return SearchError(f"the tuned model {path} cannot be used, {why}: run `assay tune` again")


def _payload(ranker: TunedRanker) -> bytes:
    arrays: Arrays = {}
    for name in ("encoder", "corpus", "memory"):
        _flatten(f"{name}.", getattr(ranker, name), arrays)
    for name in ("overlap_trees", "ranking_trees"):
        arrays[name] = np.frombuffer(getattr(ranker, name).content, np.uint8)
    buffer = io.BytesIO()
    # numpy dates the members of an archive 1980: the bytes depend on the arrays alone.
    np.savez(buffer, **arrays)  # type: ignore[arg-type]
    return buffer.getvalue()


def _restore(header: JsonObject, payload: bytes) -> TunedRanker:
    about, held_out = header["about"], header["held_out"]
    with np.load(io.BytesIO(payload), allow_pickle=False) as archive:
        if sum(one.file_size for one in archive.zip.infolist()) > len(payload):
            raise ValueError("packed")  # which we do not do: a megabyte of it may be a gigabyte
        arrays: Arrays = {name: archive[name] for name in archive.files}
    return TunedRanker(
        about=About(
            **about | {name: tuple(about[name]) for name in ("splits", "features", "bm25")}
        ),
        held_out=HeldOut(
            held_out["split"],
            _gain(held_out["all"]),
            _gain(held_out["unfamiliar"]),
            _gain(held_out["dev"]) if held_out["dev"] else None,
            tuple(held_out["by_set"]),
        ),
        encoder=_rebuild("encoder.", QueryEncoder, arrays),
        corpus=_rebuild("corpus.", CorpusFeatures, arrays),
        memory=_rebuild("memory.", Memory, arrays),
        overlap_trees=TreeGraph(arrays["overlap_trees"].tobytes()),
        ranking_trees=TreeGraph(arrays["ranking_trees"].tobytes()),
        gate=FamiliarityGate(
            tuple(header["gate"]["weights"]), float(header["gate"]["trusted_from"])
        ),
        judged=tuple(header.get("judged", ())),
    )


def _gain(values: JsonObject) -> TuningGain:
    means = {name: _mean(values[name]) for name in ("hybrid", "tuned")}
    return TuningGain(**values | means)


def _mean(value: float | JsonObject) -> float:
    """Older models have an object with two more metrics."""
    return float(value["ndcg_10"] if isinstance(value, dict) else value)


def _flatten(prefix: str, value: Any, arrays: Arrays) -> None:
    """Dataclasses of arrays, sparse matrices, vocabularies, names and such dataclasses."""
    for field in fields(value):
        name, part = prefix + field.name, getattr(value, field.name)
        if is_dataclass(part):
            _flatten(f"{name}.", part, arrays)
        elif isinstance(part, dict):
            arrays[name] = _bytes("\n".join(part))
        elif isinstance(part, str):
            arrays[name] = _bytes(part)
        elif isinstance(part, np.ndarray):
            arrays[name] = part
        else:
            part.sort_indices()
            for piece in ("data", "indices", "indptr"):
                arrays[f"{name}.{piece}"] = getattr(part, piece)
            arrays[f"{name}.shape"] = np.array(part.shape, np.int64)


def _rebuild(prefix: str, kind: Any, arrays: Arrays) -> Any:
    parts: dict[str, Any] = {}
    for name, hint in get_type_hints(kind).items():
        key = prefix + name
        if is_dataclass(hint):
            parts[name] = _rebuild(f"{key}.", hint, arrays)
        elif hint is Sparse:
            pieces = ("data", "indices", "indptr", "shape")
            parts[name] = sparse_from_parts(*(arrays[f"{key}.{piece}"] for piece in pieces))
        elif getattr(hint, "__origin__", None) is dict:
            words = _text(arrays[key]).split("\n") if len(arrays[key]) else []
            parts[name] = {word: place for place, word in enumerate(words)}
        elif hint is str:
            parts[name] = _text(arrays[key])
        else:
            parts[name] = arrays[key]
    return kind(**parts)


def _bytes(text: str) -> np.ndarray[Any, Any]:
    return np.frombuffer(text.encode(), np.uint8)


def _text(array: np.ndarray[Any, Any]) -> str:
    return array.tobytes().decode()
