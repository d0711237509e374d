"""`assay doctor --deep`: checks stored files against their checksums.

Damage is found when a file is used, too; this finds it in files that nobody has used for a while,
and in indexes that are too large to be read whenever they are opened.
"""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from assay.data.cache import cache_folder
from assay.errors import AssayError
from assay.search.embedding import VectorCache
from assay.search.index_files import check_files, live_generation
from assay.search.store import DamagedIndexError


@dataclass(frozen=True, slots=True)
class CheckedFile:
    """What was found about one index or file."""

    what: str
    damage: str = ""
    note: str = ""

    @property
    def state(self) -> str:
        """What was found, in words."""
        return self.damage or self.note or "every checksum matches"


def check_kept_files() -> Iterator[CheckedFile]:
    """Read and hash the indexes, the vector cache and the tuned models."""
    for what, check, path in _kept_files(cache_folder()):
        try:
            yield CheckedFile(what, *check(path))
        except (AssayError, OSError) as error:  # a pipe, say, or somebody else's
            yield CheckedFile(what, str(error))


_Check = Callable[[Path], tuple[str, str]]
"""What is damaged, and what else there is to say; both empty where every checksum matches."""


def _kept_files(cache: Path) -> Iterator[tuple[str, _Check, Path]]:
    path = os.environ.get("QDRANT_PATH")
    for folder in dict.fromkeys([cache / "index", *([Path(path).expanduser()] if path else [])]):
        for home in sorted(folder.iterdir()) if folder.is_dir() else ():
            if home.is_dir():
                yield f"index {home.name}", _index, home
    for kept in sorted((cache / "bm25").glob("*/manifest.json")):
        yield f"BM25 index {kept.parent.name}", _generation, kept.parent
    yield "vector cache", _vectors, cache / "vectors.sqlite3"
    for kept in sorted((cache / "tuned").glob("*.model")):
        yield f"tuned model {kept.name}", _tuned, kept


def _index(home: Path) -> tuple[str, str]:
    live = live_generation(home)
    return _generation(live) if live else ("", "not complete; it is built when it is first needed")


def _generation(folder: Path) -> tuple[str, str]:
    try:
        check_files(folder, every=True)
    except DamagedIndexError as error:
        return f"{error.damage}; it is rebuilt when it is next used", ""
    return "", ""


def _vectors(path: Path) -> tuple[str, str]:
    found = "; ".join(VectorCache(path).check())
    return f"damaged ({found}); what is damaged is computed again when used" if found else "", ""


def _tuned(path: Path) -> tuple[str, str]:
    try:
        from assay.search.tuning.model import check_model
    except ImportError:
        return "", "not checked: the extra [tuned] is not installed"
    check_model(path)  # raises what is said of a damaged one
    return "", ""
