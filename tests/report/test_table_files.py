"""Tables as files: rows that lack columns, and columns that begin empty."""

import io

import pytest
from pyarrow import parquet

from assay.report.table_files import Format, Row, column_types, write_rows

ROWS: list[Row] = [
    {"name": "a", "score": 1, "left_out": None},
    {"name": "b", "score": 0.5, "label": "x & y", "wins": 0, "same": False},
]


def written(form: Format, rows: list[Row]) -> bytes:
    stream = io.BytesIO()
    write_rows(rows, form, stream)
    return stream.getvalue()


def test_the_columns_are_those_of_all_rows_with_the_type_of_their_cells() -> None:
    assert column_types(ROWS) == {
        "name": str,
        "score": float,
        "left_out": str,
        "label": str,
        "wins": int,
        "same": bool,
    }


@pytest.mark.parametrize(
    ("form", "lines"),
    [
        ("csv", ["name,score,left_out,label,wins,same", "a,1,,,,", "b,0.5,,x & y,0,False"]),
        ("markdown", ["| a | 1 |  |  |  |  |", "| b | 0.5000 |  | x & y | 0 | False |"]),
        ("latex", [r"a & 1 &  &  &  &  \\", r"b & 0.5000 &  & x \& y & 0 & False \\"]),
    ],
)
def test_a_row_without_a_column_has_an_empty_cell(form: Format, lines: list[str]) -> None:
    shown = written(form, ROWS).decode().splitlines()
    assert set(lines) <= set(shown), shown


def test_a_column_of_a_parquet_file_may_begin_empty() -> None:
    rows: list[Row] = [{"id": str(n), "label": None} for n in range(10_000)]
    rows.append({"id": "last", "label": "x", "score": 0.5})
    found = parquet.read_table(io.BytesIO(written("parquet", rows))).to_pylist()
    assert found[0] == {"id": "0", "label": None, "score": None}
    assert found[-1] == {"id": "last", "label": "x", "score": 0.5}


def test_a_table_without_rows_is_a_file() -> None:
    stream = io.BytesIO()
    write_rows([], "parquet", stream, {"id": str, "score": float})
    assert parquet.read_table(io.BytesIO(stream.getvalue())).column_names == ["id", "score"]
    assert written("csv", []) == b""
