"""The list of runs between two calls of `assay runs`: what did not change is not read again.

A report has thousands of rows, and a list needs twenty figures of it. They are kept in the cache,
by the folder of the runs, with the times of the files that they were read from.
"""

import hashlib
import sqlite3
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from assay.data.cache import CacheDatabase, cache_folder
from assay.errors import AssayError
from assay.run.run_line import COLUMNS, DAMAGED, RunLine, Signature, run_signatures

# Another set of columns is another table: an older Assay's is left alone, and made anew if needed.
_TABLE = f"lines_{hashlib.sha256(','.join(COLUMNS).encode()).hexdigest()[:12]}"
_FIELDS = ("header_time", "report_time", *COLUMNS)


def list_lines(folder: Path) -> list[RunLine]:
    """Every run under `folder`; a cache that cannot be used costs time, nothing else."""
    found = run_signatures(folder)
    known: dict[str, tuple[Signature, RunLine]] = {}
    with suppress(AssayError, OSError):
        known = _database(folder).use(_read)
    lines: dict[str, RunLine] = {}
    for name, signature in found.items():
        earlier = known.get(name)
        if earlier is not None and earlier[0] == signature:
            lines[name] = earlier[1]
    new = {name: signature for name, signature in found.items() if name not in lines}
    lines |= _read_lines(folder, new)
    gone = known.keys() - found.keys()
    if new or gone:
        kept = [(found[name], lines[name]) for name in new if _is_settled(found[name], lines[name])]
        with suppress(AssayError, OSError):
            _database(folder).use(lambda database: _write(database, gone, kept))
    return [lines[name] for name in found]


def _read_lines(folder: Path, runs: Mapping[str, Signature]) -> dict[str, RunLine]:
    if not runs:
        return {}
    from assay.run.folder import RunFolder  # the models of a report take longer than the list
    from assay.run.index import read_line

    return {name: read_line(RunFolder(folder / name), each) for name, each in runs.items()}


def _is_settled(signature: Signature, line: RunLine) -> bool:
    """A run that goes on changes without a new time of its files; a damaged one may be mended."""
    return not signature[2] and line.state != DAMAGED


def _database(folder: Path) -> CacheDatabase:
    place = hashlib.sha256(str(folder.resolve()).encode("utf-8", "surrogatepass")).hexdigest()
    path = cache_folder() / "runs" / f"{place[:16]}.sqlite"
    path.parent.mkdir(parents=True, exist_ok=True)
    create = f"CREATE TABLE IF NOT EXISTS {_TABLE} ({', '.join(_FIELDS)}, PRIMARY KEY (name))"
    return CacheDatabase(path, "list of runs", create)


def _read(database: sqlite3.Connection) -> dict[str, tuple[Signature, RunLine]]:
    rows = database.execute(f"SELECT * FROM {_TABLE}")
    return {row[2]: ((row[0], row[1], ""), RunLine(*row[2:])) for row in rows}


def _write(
    database: sqlite3.Connection, gone: set[str], kept: list[tuple[Signature, RunLine]]
) -> None:
    database.executemany(f"DELETE FROM {_TABLE} WHERE name = ?", [(name,) for name in gone])
    places = ", ".join("?" * len(_FIELDS))
    database.executemany(
        f"INSERT OR REPLACE INTO {_TABLE} VALUES ({places})",
        [(*key[:2], *(getattr(line, name) for name in COLUMNS)) for key, line in kept],
    )
