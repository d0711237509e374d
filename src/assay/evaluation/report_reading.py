"""`report.json` read in parts: its head alone, or its rows one at a time.

The rows of a large run take hundreds of megabytes; lists of runs need heads only, and the HTML
report looks at each row once. A report that was written by another program, or formatted anew, is
read whole.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import orjson

from assay.errors import RunError
from assay.evaluation.file_shapes import Head, Row, require_shape
from assay.evaluation.plan import completed
from assay.measure.metrics import parse_metric

_ROWS = b',\n  "per_query_results": ['
_END = b"]}\n"
_BLOCK = 32 * 1024


def read_head(report: Path) -> dict[str, Any]:
    """Everything but the rows."""
    with report.open("rb") as file:
        start = file.read(_BLOCK)
        while (end := start.find(_ROWS)) < 0:
            more = file.read(_BLOCK)
            if not more:
                return _head(report, _object(report, start))
            start += more
    return _head(report, _object(report, start[:end] + b"}"))


def read_rows(report: Path) -> Iterator[dict[str, Any]]:
    """Each with a figure for every metric that the head names."""
    keys = [parse_metric(name).key for name in read_head(report)["statistics"]]
    for number, row in enumerate(_rows(report), start=1):
        yield _row(report, number, row, keys)


def read_whole(report: Path) -> dict[str, Any]:
    return {**read_head(report), "per_query_results": list(read_rows(report))}


def _head(report: Path, head: dict[str, Any]) -> dict[str, Any]:
    head.pop("per_query_results", None)
    require_shape(Head, head, report, _remedy(report))
    return {**head, "config": completed(head["config"])}


def _rows(report: Path) -> Iterator[Any]:
    with report.open("rb") as file:
        for line in file:
            if line == _ROWS[2:] + b"\n":
                break
        else:
            yield from _rows_of_whole(report)
            return
        for line in file:
            if line.startswith(b"{"):
                yield _parsed(report, line.rstrip(b",\n"))
            elif line == _END:
                return
    raise _damaged(report, "it ends in the middle")


def _rows_of_whole(report: Path) -> list[Any]:
    rows = _object(report, report.read_bytes()).get("per_query_results")
    if not isinstance(rows, list):
        raise _damaged(report, "per_query_results is not a list")
    return rows


def _row(report: Path, number: int, row: Any, keys: Sequence[str]) -> dict[str, Any]:
    require_shape(Row, row, report, _remedy(report), f"row {number}")
    for key in keys:
        value = row.get(key)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise _damaged(report, f"row {number}: {key} is not a number")
    assert isinstance(row, dict)
    return row


def _object(report: Path, content: bytes) -> dict[str, Any]:
    value = _parsed(report, content)
    if not isinstance(value, dict):
        raise _damaged(report, "it does not hold an object")
    return value


def _parsed(report: Path, content: bytes) -> Any:
    try:
        return orjson.loads(content)
    except orjson.JSONDecodeError as error:
        raise _damaged(report, str(error)) from None


def _damaged(report: Path, what: str) -> RunError:
    return RunError(f"{report} is damaged: {what}; {_remedy(report)}")


def _remedy(report: Path) -> str:
    return f"write it anew from the calls with: assay eval --resume {report.parent}"
