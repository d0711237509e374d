"""Tables of others: a bad row names its line, and what is read of one is bounded."""

import io
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest

from assay.data import table, text_file
from assay.data.table import csv_table, read_table
from assay.data.text_file import Record
from assay.errors import DataError


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("log.json", b'{"results": 1}', "must hold a list of rows"),
        ("log.json", b"{", "is not valid JSON"),
        ("log.csv", b"a,b\n\xff,1\n", "log.csv:2: is not UTF-8 (byte 0xff in column 1)"),
        ("log.parquet", b"PAR0", "is not valid Parquet"),
    ],
)
def test_what_is_no_table_is_told(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(DataError) as caught:
        list(read_table(path))
    assert message in str(caught.value)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.jsonl"])
@pytest.mark.parametrize("start", ["", "question,answer\n", 'question,answer\n"'])
def test_a_line_without_an_end_is_refused_before_it_is_in_memory(
    monkeypatch: pytest.MonkeyPatch, name: str, start: str
) -> None:
    """Two kilobytes of gzip unpack to megabytes: what is read of them is bounded."""
    monkeypatch.setattr(text_file, "MAX_LINE", 50_000)
    monkeypatch.setattr(table, "_MAX_ROW", 50_000)
    source = Counting((start + "a" * 2_000_000).encode())
    endless = text_file.TextFile(name, lambda: io.BufferedReader(source))
    monkeypatch.setattr(table, "plain_file", lambda _path: endless)
    with suppress(DataError):
        rows = list(read_table(Path(name)))
        assert isinstance(rows[-1], DataError)
    assert 0 < source.count < 200_000


class Counting(io.RawIOBase):
    def __init__(self, content: bytes) -> None:
        self._inner = io.BytesIO(content)
        self.count = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        count = self._inner.readinto(buffer)
        self.count += count
        return count


@pytest.mark.parametrize("kind", [".csv", ".tsv", ".parquet"])
def test_two_columns_of_one_name_are_refused(tmp_path: Path, kind: str) -> None:
    path = tmp_path / f"rows{kind}"
    if kind == ".parquet":
        columns = [pyarrow.array(["q1"]), pyarrow.array([1]), pyarrow.array([3])]
        table = pyarrow.Table.from_arrays(columns, names=["query", "score", "score"])
        pyarrow.parquet.write_table(table, path)
    else:
        mark = "\t" if kind == ".tsv" else ","
        path.write_text("query,score, score \nq1,1,3\n".replace(",", mark))
    line = "" if kind == ".parquet" else ":1"
    with pytest.raises(DataError, match=f"{line}: has 2 columns named 'score'; rename or delete"):
        list(read_table(path))


@pytest.mark.parametrize("text", ["river\r=1+1", "a\nb", "a\r\nb", 'a "b", c', "\r"])
def test_a_written_table_is_read_back_with_every_line_break(tmp_path: Path, text: str) -> None:
    path = tmp_path / "table.csv"
    path.write_bytes(csv_table(["id", "text"], [["1", text], ["2", "x"]]))
    rows = [each.fields for each in read_table(path) if isinstance(each, Record)]
    assert rows == [{"id": "1", "text": text}, {"id": "2", "text": "x"}]
