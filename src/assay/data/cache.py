"""The cache: its folder, and tables in SQLite."""

import logging
import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from assay.errors import AssayError, DataError
from assay.files import make_private_folder
from assay.privacy import is_private

# What is cached is as private as the documents that it was made from.
_OWNER_ONLY = 0o600

_log = logging.getLogger(__name__)
_Value = TypeVar("_Value")


def cache_folder() -> Path:
    """`ASSAY_CACHE`, else `XDG_CACHE_HOME/assay`, else `~/.cache/assay`; created if missing."""
    try:
        if chosen := os.environ.get("ASSAY_CACHE"):
            folder = Path(chosen).expanduser().absolute()
        else:
            xdg = Path(os.environ.get("XDG_CACHE_HOME", ""))
            # The XDG specification says to ignore relative paths.
            folder = (xdg if xdg.is_absolute() else Path.home() / ".cache") / "assay"
        make_private_folder(folder)
    except (OSError, RuntimeError) as error:  # RuntimeError: the home folder is unknown
        why = (isinstance(error, OSError) and error.strerror) or error
        raise DataError(
            f"the cache folder cannot be written: {why}; set ASSAY_CACHE to a writable folder",
            file=getattr(error, "filename", None),  # servers log it, and do not say it
        ) from error
    return folder


@dataclass(frozen=True, slots=True)
class CacheDatabase:
    """A table in the cache, in SQLite: several processes may write at once, and a crash leaves it
    intact. A damaged file is set aside and a new one started: everything in it can be made again.

    `what` is its name in messages, `table` the SQL that creates the table if it is missing, and
    `failure` the exception if the file cannot be used.
    """

    path: Path
    what: str
    table: str
    failure: type[AssayError] = DataError

    def use(self, work: Callable[[sqlite3.Connection], _Value]) -> _Value:
        """The result of `work` in one transaction; it may be called a second time."""
        try:
            return self._once(work)
        except (sqlite3.OperationalError, OSError) as error:  # full, locked, not writable
            raise self.failure(
                f"the {self.what} {self.path} cannot be used: {error}; free some disk space, "
                "or set ASSAY_CACHE to a writable folder (the cached data is kept)"
            ) from error
        except sqlite3.DatabaseError as error:
            aside = self.path.with_suffix(".damaged")
            self.path.replace(aside)
            why = f"damaged ({type(error).__name__}): it was renamed to {aside.name}"
            _log.warning("the %s %s is %s, and a new one was created", self.what, self.path, why)
            return self._once(work)

    def _once(self, work: Callable[[sqlite3.Connection], _Value]) -> _Value:
        if not is_private() and not self.path.exists():
            os.close(os.open(self.path, os.O_CREAT | os.O_RDWR, _OWNER_ONLY))
        # A private run has an empty one, gone when it is closed.
        place = ":memory:" if is_private() else self.path
        with closing(sqlite3.connect(place, timeout=60.0)) as database:
            # All of it can be made again: no entry is worth a sync of the disk.
            database.execute("PRAGMA synchronous = NORMAL")
            database.execute(self.table)
            with database:
                return work(database)
