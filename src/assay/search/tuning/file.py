"""A tuned model as one file: a line that names the format, a line of JSON, and arrays.

The JSON says what the model was learned from and how it did; it also carries the SHA-256 of the
arrays, which are a numpy archive without pickled objects. The same model gives the same bytes.
"""

import contextlib
import hashlib
import io
import json
import os
import zipfile
from dataclasses import asdict, fields, is_dataclass
from pathlib import Path
from typing import Any, get_type_hints

import lightgbm
import numpy as np

from assay.errors import SearchError
from assay.search.tuning.arrays import Sparse, sparse_from_parts
from assay.search.tuning.heldout import Figures, Gain, HeldOut
from assay.search.tuning.memory import Memory
from assay.search.tuning.model import About, TunedRanker
from assay.search.tuning.reading import Corpus, Reader

MAGIC = b"assay-tuned 1\n"
# The header is read before anything is known to be sound.
LONGEST_HEADER = 1_000_000

Arrays = dict[str, np.ndarray[Any, Any]]


def save(ranker: TunedRanker, path: Path) -> None:
    """Writes beside the target and renames, so that a reader never sees half a file."""
    payload = _payload(ranker)
    header = {
        "about": asdict(ranker.about),
        "held_out": asdict(ranker.held_out),
        "tree_count": ranker.tree_count,
        "familiar_from": ranker.familiar_from,
        "sha256": hashlib.sha256(payload).hexdigest(),
    }
    temporary = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("wb") as file:
            file.write(MAGIC + json.dumps(header, sort_keys=True).encode() + b"\n")
            file.write(payload)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise SearchError(f"the tuned model could not be written to {path}: {error}") from error


def load(path: Path, fingerprint: str | None = None) -> TunedRanker:
    """`fingerprint`: of the documents that will be ranked; a model of others is refused."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise SearchError(f"there is no tuned model at {path}: run `assay tune`") from None
    except OSError as error:
        raise SearchError(f"the tuned model {path} could not be read: {error}") from error
    header, payload = _split(path, content)
    if hashlib.sha256(payload).hexdigest() != header.get("sha256"):
        raise _damaged(path, "its contents do not match their checksum")
    try:
        ranker = _restore(header, payload)
    except (KeyError, TypeError, ValueError, zipfile.BadZipFile, lightgbm.basic.LightGBMError):
        raise _damaged(path, "it was written by another version of Assay") from None
    if fingerprint is not None and ranker.about.fingerprint != fingerprint:
        raise SearchError(
            f"the tuned model {path} was learned on other documents than those of this index: "
            "run `assay tune` again"
        )
    return ranker


def _split(path: Path, content: bytes) -> tuple[dict[str, Any], bytes]:
    if not content.startswith(MAGIC):
        raise _damaged(path, "it is not a tuned model of this version")
    end = content.find(b"\n", len(MAGIC), len(MAGIC) + LONGEST_HEADER)
    try:
        header = json.loads(content[len(MAGIC) : end]) if end > 0 else None
    except ValueError:
        header = None
    if not isinstance(header, dict):
        raise _damaged(path, "its header cannot be read")
    return header, content[end + 1 :]


def _damaged(path: Path, why: str) -> SearchError:
    return SearchError(f"the tuned model {path} cannot be used, {why}: run `assay tune` again")


def _payload(ranker: TunedRanker) -> bytes:
    arrays: Arrays = {}
    for name in ("reader", "corpus", "memory"):
        _flatten(f"{name}.", getattr(ranker, name), arrays)
    for name in ("overlap_trees", "ranking_trees"):
        arrays[name] = _bytes(getattr(ranker, name).model_to_string())
    buffer = io.BytesIO()
    # numpy dates the members of an archive 1980: the bytes depend on the arrays alone.
    np.savez(buffer, **arrays)  # type: ignore[arg-type]
    return buffer.getvalue()


def _restore(header: dict[str, Any], payload: bytes) -> TunedRanker:
    about, held_out = header["about"], header["held_out"]
    with np.load(io.BytesIO(payload), allow_pickle=False) as archive:
        arrays: Arrays = {name: archive[name] for name in archive.files}
    return TunedRanker(
        about=About(
            **about | {"splits": tuple(about["splits"]), "features": tuple(about["features"])}
        ),
        held_out=HeldOut(held_out["split"], _gain(held_out["all"]), _gain(held_out["unfamiliar"])),
        reader=_rebuild("reader.", Reader, arrays),
        corpus=_rebuild("corpus.", Corpus, arrays),
        memory=_rebuild("memory.", Memory, arrays),
        overlap_trees=lightgbm.Booster(model_str=_text(arrays["overlap_trees"])),
        ranking_trees=lightgbm.Booster(model_str=_text(arrays["ranking_trees"])),
        tree_count=int(header["tree_count"]),
        familiar_from=float(header["familiar_from"]),
    )


def _gain(values: dict[str, Any]) -> Gain:
    figures = {name: Figures(**values[name]) for name in ("hybrid", "tuned")}
    return Gain(**values | figures)


def _flatten(prefix: str, value: Any, arrays: Arrays) -> None:
    """Dataclasses of arrays, sparse matrices, vocabularies and such dataclasses."""
    for field in fields(value):
        name, part = prefix + field.name, getattr(value, field.name)
        if is_dataclass(part):
            _flatten(f"{name}.", part, arrays)
        elif isinstance(part, dict):
            arrays[name] = _bytes("\n".join(part))
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
        else:
            parts[name] = arrays[key]
    return kind(**parts)


def _bytes(text: str) -> np.ndarray[Any, Any]:
    return np.frombuffer(text.encode(), np.uint8)


def _text(array: np.ndarray[Any, Any]) -> str:
    return array.tobytes().decode()
