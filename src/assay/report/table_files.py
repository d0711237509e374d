"""Tables as files: CSV, JSON lines, Markdown, LaTeX and Parquet.

A table is an iterator of rows, so that the rows of a large run are written as they are read. Rows
may lack columns that others have.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import BinaryIO, Literal

import orjson

from assay.data.table import csv_row, text_cell
from assay.extras import require_extras
from assay.net.redact import markdown_text, printable
from assay.report.numbers import figure

Format = Literal["csv", "markdown", "latex", "trec", "parquet", "jsonl"]

Cell = str | float | int | bool | list[str] | None
Row = Mapping[str, Cell]
Columns = Mapping[str, type]
"""The columns of a table, in their order: `str`, `float`, `int`, `bool`, or `list` of texts."""

_PARQUET_ROWS = 10_000
_LATEX = {
    **{each: f"\\{each}" for each in "&%$#_{}"},
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
}


def write_rows(
    rows: Iterable[Row], form: Format, stream: BinaryIO, columns: Columns | None = None
) -> None:
    """Write a table as CSV, JSON lines, Markdown, LaTeX or Parquet.

    Parameters:
        rows: what is written; a row without a column has an empty cell there.
        form: the format of the file.
        stream: where to write.
        columns: the columns of all rows, so that none of them is kept. Without them, the rows are
            read first, and every column that some row has is written.
    """
    if form == "jsonl":
        for row in rows:
            stream.write(orjson.dumps(dict(row), option=orjson.OPT_APPEND_NEWLINE))
        return
    if columns is None:
        rows = list(rows)
        columns = column_types(rows)
    if form == "parquet":
        _write_parquet(rows, columns, stream)
    elif form == "csv":
        _write_csv(rows, columns, stream)
    elif form == "latex":
        write_lines(_latex_rows(rows, columns), stream)
    else:
        write_lines(_markdown_lines(rows, columns), stream)


def column_types(rows: Iterable[Row]) -> dict[str, type]:
    """Every column of some rows, with the type of its cells; of empty ones, text."""
    found: dict[str, type | None] = {}
    for row in rows:
        for name, value in row.items():
            known = found.setdefault(name, None)
            if value is not None and known is not type(value):
                # Numbers of both kinds are one column of the wider one.
                found[name] = type(value) if known is None else float
    return {name: kind or str for name, kind in found.items()}


def write_lines(lines: Iterable[str], stream: BinaryIO) -> None:
    """Write lines of text."""
    for line in lines:
        stream.write(f"{line}\n".encode())


def _write_csv(rows: Iterable[Row], columns: Columns, stream: BinaryIO) -> None:
    if not columns:
        return
    stream.write(f"{csv_row(columns)}\n".encode())
    for row in rows:
        cells = (_csv_cell(row.get(name)) for name in columns)
        stream.write(f"{csv_row(cells)}\n".encode())


def _flat(value: Cell) -> str | float | int | None:
    return ";".join(value) if isinstance(value, list) else value


def _csv_cell(value: Cell) -> str | float | int | None:
    """Labels, branches and targets are a stranger's words: no spreadsheet may run them."""
    flat = _flat(value)
    return text_cell(flat) if isinstance(flat, str) else flat


def _write_parquet(rows: Iterable[Row], columns: Columns, stream: BinaryIO) -> None:
    require_extras("writing Parquet", "pyarrow")
    import pyarrow
    from pyarrow import parquet

    # Given, and not found out from the first rows: a column may be empty there.
    types = {
        str: pyarrow.string(),
        float: pyarrow.float64(),
        int: pyarrow.int64(),
        bool: pyarrow.bool_(),
        list: pyarrow.list_(pyarrow.string()),
    }
    schema = pyarrow.schema([(name, types[kind]) for name, kind in columns.items()])
    with parquet.ParquetWriter(stream, schema) as writer:
        for batch in _batches(rows):
            cells = [{name: row.get(name) for name in columns} for row in batch]
            writer.write_table(pyarrow.Table.from_pylist(cells, schema=schema))


def _batches(rows: Iterable[Row]) -> Iterator[list[Row]]:
    remaining = iter(rows)
    while batch := list(islice(remaining, _PARQUET_ROWS)):
        yield batch


def _markdown_lines(rows: Iterable[Row], columns: Columns) -> Iterator[str]:
    yield f"| {' | '.join(columns)} |"
    yield f"|{'---|' * len(columns)}"
    for row in rows:
        yield f"| {' | '.join(_markdown_cell(row.get(each)) for each in columns)} |"


def _markdown_cell(value: Cell) -> str:
    return figure(value) if isinstance(value, float) else markdown_text(_shown(value))


def _shown(value: Cell) -> str:
    if isinstance(value, float):
        return figure(value)
    return "" if value is None else str(_flat(value))


def _latex_rows(rows: Iterable[Row], columns: Columns) -> Iterator[str]:
    first, *headings = columns or [""]
    cells = ([latex_text(_shown(row.get(each))) for each in columns] for row in rows)
    return latex_lines(headings, cells, "", first)


def latex_lines(
    headings: Sequence[str], rows: Iterable[Sequence[str]], note: str, first: str = "System"
) -> Iterator[str]:
    """A LaTeX table of cells that are LaTeX; `note` is what a dagger in them means."""
    yield r"% needs \usepackage{booktabs}"
    if note:
        yield f"% dagger: {note}"
    yield rf"\begin{{tabular}}{{l{'r' * len(headings)}}}"
    yield r"\toprule"
    yield rf"{' & '.join(map(latex_text, (first, *headings)))} \\"
    yield r"\midrule"
    for row in rows:
        yield rf"{' & '.join(row)} \\"
    yield r"\bottomrule"
    yield r"\end{tabular}"


def latex_text(text: str) -> str:
    """A text in one line in which nothing is a command."""
    return "".join(_LATEX.get(each, each) for each in printable(" ".join(text.split())))
