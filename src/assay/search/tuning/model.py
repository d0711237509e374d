"""The tuned ranker, ready to answer queries, and its file: magic, SHA-256, arrays of numpy."""

import hashlib
import io
import zipfile
from dataclasses import dataclass, fields, is_dataclass
from functools import partial
from pathlib import Path
from typing import Any, get_origin, get_type_hints

import numpy as np
import orjson
import scipy.sparse as sparse  # type: ignore[import-untyped]
from pydantic import TypeAdapter

from assay.errors import SearchError
from assay.files import atomic_write, read_file
from assay.search.tuning.features import CorpusFeatures, Floats, QueryEncoder, Sparse
from assay.search.tuning.memory import Memory
from assay.search.tuning.signals import PAGE, first_pass, second_pass
from assay.search.tuning.trees import TreeGraph
from assay.search.tuning.validation import FamiliarityGate, HeldOut

MAGIC = b"assay-tuned 11\n"
_MAX_BYTES = 4 * 2**30

Arrays = dict[str, np.ndarray[Any, Any]]


# The neighbors of a query that all trees are asked for.
PREDICTED = 60


@dataclass(frozen=True)
class TunedRanker:
    """Ranks the documents of one index."""

    held_out: HeldOut
    encoder: QueryEncoder
    corpus: CorpusFeatures
    memory: Memory
    overlap_trees: TreeGraph
    ranking_trees: TreeGraph
    gate: FamiliarityGate

    def rank(self, text: str, vector: Floats, top_k: int = 10) -> tuple[dict[int, float], float]:
        """Documents by their places in the index, best first, with scores from 0 to 1; and how far
        the query is like the judged ones, where the rest is the zero-shot ranking's weight.
        """
        top_k = min(top_k, len(self.corpus.vectors))
        questions = self.encoder.encode([text], np.asarray(vector, np.float32)[None, :])
        first = first_pass(self.corpus, self.memory, questions)
        predict = partial(self.overlap_trees.predict, best=PREDICTED)
        (candidates,) = second_pass(self.memory, first, predict, top_k)
        # As many bundles as hold twice what is asked for, which is more if filters follow.
        sizes = candidates.sizes
        best = max(1, int(2 * max(PAGE, top_k) * len(sizes) / sizes.sum()))
        scores = self.ranking_trees.predict(candidates.features, best)
        order = candidates.order(scores)[:top_k]
        documents = candidates.documents[order]
        values = 1 / (1 + np.exp(-scores[candidates.owners[order]].astype(np.float64)))
        if (missing := top_k - len(documents)) > 0:
            # Fewer candidates than asked for: zero-shot results follow, below all of them.
            rest = candidates.zero_shot[~np.isin(candidates.zero_shot, documents)][:missing]
            documents = np.concatenate([documents, rest])
            values = np.concatenate([values, np.zeros(len(rest))])
        # The documents of a bundle share its score: a hair between them keeps the order strict, the
        # same hair however many are asked for.
        values = values * 0.999 + 1 / np.arange(1, len(documents) + 1) * 0.001
        found = dict(zip(documents.tolist(), values.tolist(), strict=True))
        return found, self.gate.trust(candidates, documents[0])


def save_model(ranker: TunedRanker, path: Path) -> None:
    """Write the model in one step, so that a reader never sees half a file."""
    arrays: Arrays = {}
    _flatten("", ranker, arrays)
    buffer = io.BytesIO()
    # numpy dates the members of an archive 1980: the bytes depend on the arrays alone.
    np.savez(buffer, **arrays)  # type: ignore[arg-type]
    payload = buffer.getvalue()
    try:
        atomic_write(path, MAGIC + hashlib.sha256(payload).digest() + payload)
    except OSError as error:
        raise SearchError(f"the tuned model could not be written to {path}: {error}") from error


def load_model(path: Path) -> TunedRanker:
    """The model in a file. Raises `SearchError`."""
    head = len(MAGIC) + 32
    try:
        content = read_file(path, limit=_MAX_BYTES)
        if content[:head] != MAGIC + hashlib.sha256(content[head:]).digest():
            raise ValueError("another version, or damaged")
        with np.load(io.BytesIO(content[head:]), allow_pickle=False) as archive:
            arrays: Arrays = {name: archive[name] for name in archive.files}
        ranker: TunedRanker = _rebuild("", TunedRanker, arrays)
    # A version with other fields has the right checksum: it shows when the fields are filled.
    except (OSError, KeyError, TypeError, ValueError, zipfile.BadZipFile) as error:
        raise SearchError(
            f"the tuned model {path} cannot be read ({error}): run `assay tune` again"
        ) from None
    return ranker


def _flatten(prefix: str, value: Any, arrays: Arrays) -> None:
    """Dataclasses of arrays, sparse matrices, trees and such dataclasses; the rest as JSON."""
    for field in fields(value):
        name, part = prefix + field.name, getattr(value, field.name)
        if isinstance(part, np.ndarray):
            arrays[name] = part
        elif sparse.issparse(part):
            part.sort_indices()
            for piece in ("data", "indices", "indptr"):
                arrays[f"{name}.{piece}"] = getattr(part, piece)
            arrays[f"{name}.shape"] = np.array(part.shape, np.int64)
        elif is_dataclass(part):
            _flatten(f"{name}.", part, arrays)
        else:
            arrays[name] = np.frombuffer(orjson.dumps(part), np.uint8)


def _rebuild(prefix: str, kind: Any, arrays: Arrays) -> Any:
    parts: dict[str, Any] = {}
    for name, hint in get_type_hints(kind).items():
        key = prefix + name
        if hint is Sparse:
            data, indices, indptr, shape = (
                arrays[f"{key}.{piece}"] for piece in ("data", "indices", "indptr", "shape")
            )
            parts[name] = sparse.csr_matrix((data, indices, indptr), shape=tuple(shape.tolist()))
        elif get_origin(hint) is np.ndarray:
            parts[name] = arrays[key]
        elif is_dataclass(hint):
            parts[name] = _rebuild(f"{key}.", hint, arrays)
        else:
            parts[name] = TypeAdapter(hint).validate_json(arrays[key].tobytes())
    return kind(**parts)
