"""`report.json`: figures first, then one row for each query, written and read as a stream.

The rows of a large run take hundreds of megabytes; lists of runs need the figures only, and pages
look at each row once. A report that another program wrote or reformatted is read as a whole.
"""

import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

import orjson

from assay.files import (
    FILE_MAX_BYTES,
    atomic_writer,
    complete_lines,
    create_file,
    open_file,
    read_lines,
)
from assay.metrics.answer_values import damaged, parse_stored
from assay.metrics.metric import parse_metric
from assay.net.json import JsonObject
from assay.run.models import QueryRow, Report, require_format

_ROWS = b',\n  "per_query_results": [\n'
# Rows begin at the start of a line only in files of ours.
_FIRST_ROW = _ROWS + b"{"
_END = b"]}\n"
_BLOCK = 32 * 1024


class ReportWriter:
    """Collects rows in a file beside the report, then puts figures and rows together."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._rows_path = path.with_name(".rows.part")
        self._rows: BinaryIO = create_file(self._rows_path)
        self._separator = b""

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
        """Remove the file of rows, also if a full disk does not take its last bytes."""
        with suppress(OSError):
            self._rows.close()
        self._rows_path.unlink(missing_ok=True)


def read_report_head(path: Path) -> Report:
    """Everything but the rows, as quick for a large run as for a small one."""
    value, _rows = _open_report(path)
    require_format(value, path)
    return Report.read(value, path, report_remedy(path))


def read_query_rows(path: Path) -> Iterator[QueryRow]:
    """The rows one at a time, each with a score for every metric that the report names."""
    head = read_report_head(path)
    keys = [parse_metric(name).key for name in head.statistics]
    number, remedy = 0, report_remedy(path)
    for number, value in enumerate(_open_report(path)[1], start=1):
        row = QueryRow.read(value, path, remedy, f"row {number}")
        for key in keys:
            if key not in row.scores:
                raise damaged(path, f"row {number}: {key} is not a number", remedy)
        yield row
    if number != head.summary.total_queries:
        total = head.summary.total_queries
        what = f"it has {number} rows, and its figures are of {total} queries"
        raise damaged(path, what, remedy)


def read_scores(path: Path, key: str) -> list[float]:
    """One score of every row, without validating the rows: for lists of many runs."""
    return [float(row.get(key) or 0.0) for row in _open_report(path)[1]]


def find_query_row(path: Path, query_id: str) -> QueryRow | None:
    """The row of one query, without parsing the others; None if there is none."""
    wanted, remedy = orjson.dumps(query_id), report_remedy(path)
    # Most lines are ruled out by a search for bytes, which is many times as fast as parsing them.
    for line in read_lines(path, limit=FILE_MAX_BYTES):
        if line.startswith(b'{"') and wanted in line:
            value = parse_stored(line.rstrip(b",\n"), path, remedy)
            if value.get("query_id") == query_id:
                return QueryRow.read(value, path, remedy, f"row of {query_id!r}")
    # A report that another program wrote has its rows on other lines.
    return next((row for row in read_query_rows(path) if row.query_id == query_id), None)


def report_remedy(path: Path) -> str:
    """What to do about a damaged report."""
    return f"recreate it from the call log with: assay eval --resume {path.parent}"


def _open_report(path: Path) -> tuple[JsonObject, Iterator[JsonObject]]:
    """The figures, and the rows, which are read one at a time."""
    start, remedy = bytearray(), report_remedy(path)
    with open_file(path) as file:
        while block := file.read(_BLOCK):
            seen = max(0, len(start) - len(_FIRST_ROW))
            start += block
            if (end := start.find(_FIRST_ROW, seen)) >= 0:
                return parse_stored(bytes(start[:end]) + b"}", path, remedy), _rows(
                    path, end + len(_ROWS)
                )
            if len(start) > FILE_MAX_BYTES:
                what = f"its rows do not begin within {FILE_MAX_BYTES:,} bytes"
                raise damaged(path, what, remedy)
    value = parse_stored(bytes(start), path, remedy)
    rows = value.pop("per_query_results", None)
    if not isinstance(rows, list):
        raise damaged(path, "per_query_results is not a list", remedy)
    return value, iter(rows)


def _rows(path: Path, offset: int) -> Iterator[JsonObject]:
    for _end, line in complete_lines(path, offset, limit=FILE_MAX_BYTES):
        if line == _END:
            return
        yield parse_stored(line.rstrip(b",\n"), path, report_remedy(path))
    raise damaged(path, "it is truncated", report_remedy(path))
