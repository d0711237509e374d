"""`report.json`: figures first, then one row for each query, written and read as a stream.

The rows of a large run take hundreds of megabytes; lists of runs need the figures only, and pages
look at each row once. A report that was written by another program, or reformatted, is read as
a whole.
"""

import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

import orjson

from assay.errors import RunError
from assay.files import FILE_MAX_BYTES, atomic_writer, create_file, open_file, read_file, read_lines
from assay.metrics.metric import parse_metric
from assay.net.json import JsonObject
from assay.run.models import QueryRow, Report, require_format

_ROWS = b',\n  "per_query_results": ['
_END = b"]}\n"
_BLOCK = 32 * 1024


class ReportWriter:
    """Collects rows in a file beside the report, then puts figures and rows together."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._rows_path = path.with_name(".rows.part")
        self._rows: BinaryIO = create_file(self._rows_path)
        self._separator = b"\n"

    def add(self, row: QueryRow) -> None:
        """Append one row."""
        self._rows.write(self._separator + row.to_json())
        self._separator = b",\n"

    def finish(self, report: Report) -> None:
        """Replace the report file, all or nothing."""
        opening = report.to_json(indent=2)[:-2]  # without its last "\n}"
        with atomic_writer(self._path) as file:
            file.write(opening + _ROWS)
            self._rows.seek(0)
            shutil.copyfileobj(self._rows, file)
            file.write(b"\n" + _END)

    def close(self) -> None:
        """Remove the rows' own file, also where a full disk does not take its last bytes."""
        with suppress(OSError):
            self._rows.close()
        self._rows_path.unlink(missing_ok=True)


def read_report_head(path: Path) -> Report:
    """Everything but the rows, as quick for a large run as for a small one."""
    value = _read_head(path)
    value.pop("per_query_results", None)
    require_format(value, path)
    return Report.read(value, path, report_remedy(path))


def _read_head(path: Path) -> JsonObject:
    with open_file(path) as file:
        start = bytearray(file.read(_BLOCK))
        seen = 0
        while (end := start.find(_ROWS, seen)) < 0:
            more = file.read(_BLOCK)
            if not more:
                return _object(path, start)
            seen = max(0, len(start) - len(_ROWS))
            start += more
            if len(start) > FILE_MAX_BYTES:
                raise _damaged(path, f"its rows do not begin within {FILE_MAX_BYTES:,} bytes")
    return _object(path, start[:end] + b"}")


def read_query_rows(path: Path) -> Iterator[QueryRow]:
    """The rows one at a time, each with a score for every metric that the report names."""
    head = read_report_head(path)
    keys = [parse_metric(name).key for name in head.statistics]
    number, remedy = 0, report_remedy(path)
    for number, value in enumerate(_rows(path), start=1):
        row = QueryRow.read(value, path, remedy, f"row {number}")
        for key in keys:
            if key not in row.scores:
                raise _damaged(path, f"row {number}: {key} is not a number")
        yield row
    if number != head.summary.total_queries:
        total = head.summary.total_queries
        raise _damaged(path, f"it has {number} rows, and its figures are of {total} queries")


def read_scores(path: Path, key: str) -> list[float]:
    """One score of every row, without validating the rows: for lists of many runs."""
    return [float(row.get(key) or 0.0) for row in _rows(path)]


def find_query_row(path: Path, query_id: str) -> QueryRow | None:
    """The row of one query, without reading the others; None where there is none."""
    wanted = orjson.dumps(query_id)
    for line in read_lines(path, limit=FILE_MAX_BYTES):
        if line.startswith(b'{"') and wanted in line:
            value = _parsed(path, line.rstrip(b",\n"))
            if value.get("query_id") == query_id:
                return QueryRow.read(value, path, report_remedy(path), f"row of {query_id!r}")
    # A report that another program wrote has its rows on other lines.
    return next((row for row in read_query_rows(path) if row.query_id == query_id), None)


def report_remedy(path: Path) -> str:
    """What to do about a damaged report."""
    return f"recreate it from the call log with: assay eval --resume {path.parent}"


def _rows(path: Path) -> Iterator[Any]:
    lines = read_lines(path, limit=FILE_MAX_BYTES)  # written elsewhere, it may be one line
    if not any(line == _ROWS[2:] + b"\n" for line in lines):
        yield from _rows_of_whole(path)
        return
    for line in lines:
        if line.startswith(b"{"):
            yield _parsed(path, line.rstrip(b",\n"))
        elif line == _END:
            return
        elif line.startswith(b"   "):  # indented by another program, which broke the rows too
            yield from _rows_of_whole(path)
            return
    raise _damaged(path, "it is truncated")


def _rows_of_whole(path: Path) -> list[Any]:
    rows = _object(path, read_file(path)).get("per_query_results")
    if not isinstance(rows, list):
        raise _damaged(path, "per_query_results is not a list")
    return rows


def _object(path: Path, content: bytes | bytearray) -> JsonObject:
    value = _parsed(path, content)
    if not isinstance(value, dict):
        raise _damaged(path, "it is not a JSON object")
    return value


def _parsed(path: Path, content: bytes | bytearray) -> Any:
    try:
        return orjson.loads(content)
    except orjson.JSONDecodeError as error:
        raise _damaged(path, str(error)) from None


def _damaged(path: Path, what: str) -> RunError:
    return RunError(f"{path} is damaged: {what}; {report_remedy(path)}")
