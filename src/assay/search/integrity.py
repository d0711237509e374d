"""Whether the files that Assay keeps are those that it wrote: `assay doctor --deep`.

Damage is found when a file is used, too; this finds it in files that nobody has used for a while,
and in indexes that are too large to be read whenever they are opened.
"""

import hashlib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from assay.data.cache import cache_folder
from assay.errors import AssayError, SearchError
from assay.files import open_file, read_file
from assay.search.embedding import VectorCache
from assay.search.index_files import check_files, has_checksums, live_generation
from assay.search.model_files import digest_file
from assay.search.store import DamagedIndexError


@dataclass(frozen=True, slots=True)
class CheckedFile:
    """What was found about one index or file."""

    what: str
    damage: str = ""
    note: str = ""

    @property
    def state(self) -> str:
        """In words."""
        return self.damage or self.note or "every checksum matches"


def check_kept_files() -> Iterator[CheckedFile]:
    """Read and hash the indexes, the vector cache, and the models in the cache."""
    for check, path in _kept_files(cache_folder()):
        try:
            yield check(path)
        except (AssayError, OSError) as error:  # a pipe, say, or somebody else's
            yield CheckedFile(path.name, str(error))


def _kept_files(cache: Path) -> Iterator[tuple[Callable[[Path], CheckedFile], Path]]:
    path = os.environ.get("QDRANT_PATH")
    for folder in dict.fromkeys([cache / "index", *([Path(path).expanduser()] if path else [])]):
        for home in sorted(folder.iterdir()) if folder.is_dir() else ():
            if home.is_dir():
                yield _index, home
    for kept in sorted((cache / "bm25").glob("*/manifest.json")):
        yield _bm25, kept.parent
    yield _vectors, cache / "vectors.sqlite3"
    for kept in sorted((cache / "models").glob("*.onnx")):
        if digest_file(kept).exists():
            yield _model, kept
    for kept in sorted((cache / "tuned").glob("*.model")):
        yield _tuned, kept


def _index(home: Path) -> CheckedFile:
    what = f"index {home.name}"
    try:
        generation = live_generation(home)
        if generation is None:
            return CheckedFile(what, note="not complete; it is built when it is first needed")
        check_files(generation, every=True)
        if not has_checksums(generation):
            return CheckedFile(what, note="built by an earlier version, without checksums")
    except DamagedIndexError as error:
        return CheckedFile(what, f"{error.damage}; it is rebuilt when it is next used")
    return CheckedFile(what)


def _bm25(folder: Path) -> CheckedFile:
    what = f"BM25 index {folder.name}"
    try:
        check_files(folder, every=True)
    except DamagedIndexError as error:
        return CheckedFile(what, f"{error.damage}; it is rebuilt when it is next used")
    return CheckedFile(what)


def _vectors(path: Path) -> CheckedFile:
    what = "vector cache"
    problems = VectorCache(path).check()
    if problems:
        found = "; ".join(problems)
        return CheckedFile(what, f"damaged ({found}); what is damaged is computed again when used")
    return CheckedFile(what)


def _model(path: Path) -> CheckedFile:
    what = f"model {path.name}"
    with open_file(path) as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found.encode() != read_file(digest_file(path)):
        return CheckedFile(what, "damaged; it is made again when it is next used")
    return CheckedFile(what)


def _tuned(path: Path) -> CheckedFile:
    what = f"tuned model {path.name}"
    try:
        from assay.search.tuning.model import check_model
    except ImportError:
        return CheckedFile(what, note="not checked: the extra [tuned] is not installed")
    try:
        check_model(path)
    except SearchError as error:
        return CheckedFile(what, str(error))
    return CheckedFile(what)
