"""`report.json` read in parts: its head alone, or its rows one at a time.

The rows of a large run take hundreds of megabytes; lists of runs need heads only, and the HTML
report looks at each row once. A report that was written by another program, or formatted anew, is
read whole.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson

from assay.errors import RunError

_ROWS = b',\n  "per_query_results": ['
_BLOCK = 32 * 1024


def read_head(report: Path) -> dict[str, Any]:
    """Everything but the rows."""
    with report.open("rb") as file:
        start = file.read(_BLOCK)
        while (end := start.find(_ROWS)) < 0:
            more = file.read(_BLOCK)
            if not more:
                return _whole(report, start)
            start += more
    return _object(report, start[:end] + b"}")


def read_rows(report: Path) -> Iterator[dict[str, Any]]:
    with report.open("rb") as file:
        for line in file:
            if line == _ROWS[2:] + b"\n":
                break
        else:
            yield from _rows_of(report)
            return
        for line in file:
            if line.startswith(b"{"):
                yield orjson.loads(line.rstrip(b",\n"))


def _whole(report: Path, content: bytes) -> dict[str, Any]:
    head = _object(report, content)
    head.pop("per_query_results", None)
    return head


def _rows_of(report: Path) -> list[dict[str, Any]]:
    rows = _object(report, report.read_bytes()).get("per_query_results", [])
    assert isinstance(rows, list)
    return rows


def _object(report: Path, content: bytes) -> dict[str, Any]:
    try:
        value = orjson.loads(content)
    except orjson.JSONDecodeError as error:
        raise RunError(f"{report} is damaged: {error}") from None
    if not isinstance(value, dict):
        raise RunError(f"{report} is damaged: it does not hold an object")
    return value
