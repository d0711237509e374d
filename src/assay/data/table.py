"""Rows of tables that others wrote: CSV, TSV, JSON lines, JSON and Parquet, one at a time.

A row that cannot be read is a `DataError` with its line, and the rows after it are still read.
"""

import ast
import csv
import io
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from math import isnan
from pathlib import Path
from typing import Any

import orjson

from assay.data.text_file import Record, TextFile, json_lines, plain_file, reading, short_repr
from assay.errors import DataError, UsageError, did_you_mean
from assay.extras import require_extras
from assay.files import require_regular
from assay.net.json import JsonObject, parse_json

# The formats that `read_table` reads, each but Parquet also as `.gz`.
SUFFIXES = (".csv", ".tsv", ".jsonl", ".ndjson", ".json", ".parquet")

_MAX_JSON = 256 * 2**20
# A cell may hold all contexts of a question; the csv module's own limit is 128 KiB.
_MAX_CELL = 16 * 2**20
_MAX_ROW = 2 * _MAX_CELL
_BATCH = 1024
# A cell that a data frame wrote with Python's repr; larger ones are not worth the parser's memory.
_MAX_LITERAL = 2**20
_MISSING = ("NAType", "NaTType")  # of pandas
# Spreadsheets run a cell that begins with one of these as a formula.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def csv_table(columns: Sequence[str], rows: Iterable[Iterable[object]]) -> bytes:
    """A table for spreadsheets, as CSV."""
    return "".join(f"{csv_row(cells)}\n" for cells in (columns, *rows)).encode("utf-8", "replace")


def csv_row(cells: Iterable[object]) -> str:
    """One line of `csv_table` without its end. Parts of a line are joined by a comma."""
    text = io.StringIO()
    # A cell that has a carriage return is quoted only if the writer ends its lines with one.
    csv.writer(text, lineterminator="\r\n").writerow(cells)
    return text.getvalue()[:-2]


def text_cell(text: str) -> str:
    """A cell that a spreadsheet does not run as a formula; `cell_text` is the way back."""
    return f"'{text}" if text.startswith(_FORMULA) else text


def cell_text(text: str) -> str:
    """The text of a cell without the apostrophe that `text_cell` puts before it."""
    return text[1:] if text.startswith("'") and text[1:].startswith(_FORMULA) else text


def read_table(table: Path | TextFile) -> Iterator[Record | DataError]:
    """The rows of a file, in order, by its suffix; a row that cannot be read is an error."""
    file = plain_file(table) if isinstance(table, Path) else table
    path = Path(file.label)
    match table_suffix(path):
        case ".jsonl" | ".ndjson":
            return json_lines(file)
        case ".json":
            return _from_json(file)
        case ".csv":
            return _from_delimited(file, ",")
        case ".tsv":
            return _from_delimited(file, "\t")
        case ".parquet":
            return _from_parquet(path)
    raise UsageError(
        f"{path}: a table is one of {', '.join(SUFFIXES)}, got {path.suffix or 'no suffix'}; "
        "rename the file"
    )


def require_readable_table(path: Path) -> None:
    """Raise `UsageError` for a workbook and `DataError` for an empty file."""
    if path.suffix.lower() in (".xlsx", ".xlsm", ".xls", ".ods"):
        raise UsageError(
            f"{path} is a workbook, which is not read; save the sheet as CSV UTF-8 and pass that"
        )
    if path.is_file() and table_suffix(path) in SUFFIXES and path.stat().st_size == 0:
        raise DataError("is empty; it needs a header and at least one row", file=path)


def table_suffix(path: Path) -> str:
    """The suffix that decides the format, in lower case and without `.gz`."""
    return (path.with_suffix("") if path.suffix == ".gz" else path).suffix.lower()


def memory_rows(values: object, source: str = "rows") -> Iterator[Record | DataError]:
    """Rows that are in memory: mappings, or a data frame; `UsageError` for anything else."""
    if hasattr(values, "to_dict") and hasattr(values, "columns"):
        values = values.to_dict("records")
    if isinstance(values, str | bytes | Mapping) or not hasattr(values, "__iter__"):
        raise UsageError(
            f"{source} must be a file, a data frame or an iterable of dictionaries, got "
            f"{type(values).__name__}"
        )
    for number, fields in enumerate(values, start=1):
        if isinstance(fields, Mapping):
            yield Record(source, number, dict(fields))
        else:
            what = f"must be a dictionary, got {short_repr(fields)}"
            yield Record(source, number, {}).refusal(what)


def parse_columns(given: Iterable[str], keys: Mapping[str, Collection[str]]) -> dict[str, str]:
    """`question=user_input,answer=response` as a mapping; `UsageError` for an unknown key.

    A key may be written as any of the column names that are read for it: `doc_ids=Documents`.
    """
    columns: dict[str, str] = {}
    for part in (part.strip() for text in given for part in text.split(",")):
        key, _, name = (word.strip() for word in part.partition("="))
        key = next((one for one, names in keys.items() if key in names), key)
        if not name or key not in keys:
            swapped = f". Did you mean '{name}={key}'?" if name in keys else ""
            raise UsageError(
                f"columns (--columns): {part!r} is not KEY=COLUMN; the keys are "
                f"{', '.join(keys)}{swapped or did_you_mean(key, keys)}"
            )
        columns[key] = name
    return columns


def find_columns(
    names: Iterable[object], known: Mapping[str, Sequence[str]], given: Mapping[str, str]
) -> dict[str, str | None]:
    """The column that holds each key: the one given, else the first with a known name.

    `find_columns(["Actual Output"], {"answer": ("answer", "actual_output")}, {})` finds it.
    """
    row = Record("", 0, {str(name): None for name in names})
    return {key: given.get(key) or row.column(*aliases) for key, aliases in known.items()}


def cell_list(value: Any) -> Sequence[Any]:
    """A list as it is, an array's values, the list that a cell spells out, or one thing alone.

    A cell spells out `["a", "b"]` as JSON, or `['a', 'b']` as a data frame writes lists into CSV.
    """
    if hasattr(value, "tolist"):
        value = value.tolist()
    if value is None or value == "":
        return []
    if isinstance(value, str) and value.lstrip().startswith("["):
        found = parsed_cell(value)
        if found is value and len(value) <= _MAX_LITERAL:
            # Else it is a text that begins with a bracket.
            with suppress(ValueError, SyntaxError, MemoryError, RecursionError):
                found = ast.literal_eval(value.strip())
        return found if isinstance(found, list) else [value]
    return value if isinstance(value, list | tuple) else [value]


def plain_cell(value: object) -> str | None:
    """The text of a cell, "" for an empty one; None if it is a list or an object.

    Data frames turn a column of integers with gaps into floats, and gaps into NaN.
    """
    if isinstance(value, str):
        return value.strip()
    if value is None or type(value).__name__ in _MISSING:
        return ""
    if hasattr(value, "__len__"):
        return None
    if isinstance(value, float):
        return "" if isnan(value) else str(int(value)) if value.is_integer() else str(value)
    return str(value).lower() if isinstance(value, bool) else str(value)


def parsed_cell(value: Any) -> Any:
    """The JSON in a text, else the value as it is."""
    if not isinstance(value, str) or value.lstrip()[:1] not in ("{", "["):
        return value
    try:
        return parse_json(value)
    except orjson.JSONDecodeError:
        return value


def first_value(fields: JsonObject, names: Iterable[str]) -> Any:
    """The value under the first of these names that has one."""
    return next((fields[name] for name in names if fields.get(name) is not None), None)


def _from_json(file: TextFile) -> Iterator[Record | DataError]:
    value = read_json(file)
    while isinstance(value, dict):  # an export of spans, or rows in a field: `results`, `testCases`
        value = value.get("results", value.get("testCases", [value]))
    if not isinstance(value, list):
        raise DataError("must hold a list of rows; write it as JSON lines", file=file.label)
    yield from memory_rows(value, file.label)


def read_json(file: TextFile) -> Any:
    """The value of a JSON file of at most 256 MB; `.gz` is decompressed."""
    with reading(file.label), file.open() as stream:
        content = stream.read(_MAX_JSON + 1)
    if len(content) > _MAX_JSON:
        what = f"is larger than {_MAX_JSON // 2**20} MB; write it as JSON lines"
        raise DataError(what, file=file.label)
    try:
        return parse_json(content.removeprefix(b"\xef\xbb\xbf"))
    except orjson.JSONDecodeError as error:
        what = f"is not valid JSON: {error.msg}"
        raise DataError(what, file=file.label, line=error.lineno) from None


def _from_delimited(file: TextFile, delimiter: str) -> Iterator[Record | DataError]:
    # The limit is that of the whole process, of which another library may have raised it.
    csv.field_size_limit(max(csv.field_size_limit(), _MAX_CELL))
    held, line = 0, 1  # the line where the next row begins

    def lines() -> Iterator[str]:
        nonlocal held
        for text in file.raw_lines():
            held += len(text)  # the lines of one row, whose cells may hold ends of lines
            if held > _MAX_ROW:
                raise csv.Error(f"a row of more than {_MAX_ROW // 2**20} million characters")
            yield text

    fed = lines()
    try:
        header_line = next(fed, "")
        if delimiter == "," and "," not in header_line:
            # As spreadsheets write it if the comma is in numbers.
            delimiter = next((mark for mark in ";\t" if mark in header_line), ",")
        header = [name.strip() for name in next(csv.reader([header_line], delimiter=delimiter), [])]
        _require_distinct(header, file.label, 1)
        reader = csv.reader(fed, delimiter=delimiter)
        held, line = 0, 2
        for cells in reader:
            row = Record(file.label, line, dict(zip(header, cells, strict=False)), lined=True)
            held, line = 0, reader.line_num + 2
            if not any(map(str.strip, cells)):  # ";;;", as spreadsheets write empty rows
                continue
            same = len(cells) == len(header)
            what = f"has {len(cells)} cells, the header has {len(header)}"
            yield row if same else row.refusal(what)
    except csv.Error as error:  # where a row ends is not known from here on
        yield Record(file.label, line, {}, lined=True).refusal(f"is not valid CSV: {error}")


def _require_distinct(names: Sequence[str], file: str | Path, line: int | None = None) -> None:
    """Of two columns of one name, only one could be read; columns without a name are not read."""
    repeated = next((name for name, number in Counter(names).items() if name and number > 1), None)
    if repeated:
        what = f"has {names.count(repeated)} columns named {short_repr(repeated)}"
        raise DataError(f"{what}; rename or delete all but one", file=file, line=line)


def _from_parquet(path: Path) -> Iterator[Record | DataError]:
    require_extras("reading Parquet", "pyarrow")
    import pyarrow.parquet as parquet
    from pyarrow import ArrowException

    with reading(path, "is not valid Parquet", ArrowException):
        require_regular(path)
        with parquet.ParquetFile(path) as file:
            _require_distinct(file.schema_arrow.names, path)
            batches = file.iter_batches(batch_size=_BATCH)
            rows = chain.from_iterable(batch.to_pylist() for batch in batches)
            for number, fields in enumerate(rows, start=1):
                yield Record(str(path), number, fields)
