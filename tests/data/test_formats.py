"""Every format of a data set with every fault: what is refused with its place, what is told."""

import csv
import gzip
import io
import json
import re
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from assay.data import Dataset, load_dataset
from assay.data.load import check_dataset
from assay.errors import DataError

Rows = list[dict[str, Any]]
Tables = dict[str, Rows]


def sound() -> Tables:
    return {
        "corpus": [
            {"_id": "d1", "title": "Tea", "text": "Green tea is steeped."},
            {"_id": "d2", "title": "", "text": "Coffee is brewed."},
        ],
        "queries": [{"_id": "q1", "text": "tea?"}, {"_id": "q2", "text": "coffee?"}],
        "qrels": [
            {"query-id": "q1", "corpus-id": "d1", "score": 2},
            {"query-id": "q2", "corpus-id": "d2", "score": 1},
        ],
    }


def lines(rows: Rows) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def delimited(rows: Rows, delimiter: str = ",") -> bytes:
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=list(rows[0]), delimiter=delimiter)
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().encode()


def parquet(rows: Rows) -> bytes:
    buffer = io.BytesIO()
    texts = [{key: str(each) for key, each in row.items()} for row in rows]
    pq.write_table(pa.Table.from_pylist(texts), buffer)
    return buffer.getvalue()


def folder(write: Callable[[Rows], bytes], suffix: str) -> Callable[[Path, Tables], Path]:
    def written(place: Path, tables: Tables) -> Path:
        for name, rows in tables.items():
            path = place / "set" / (f"qrels/test{suffix}" if name == "qrels" else f"{name}{suffix}")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(write(rows))
        return place / "set"

    return written


def packed(place: Path, tables: Tables) -> Path:
    plain = folder(lines, ".jsonl")(place, tables)
    with zipfile.ZipFile(place / "set.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for path in plain.rglob("*.*"):
            archive.write(path, f"set/{path.relative_to(plain).as_posix()}")
        archive.writestr("__MACOSX/set/._corpus.jsonl", b"\xff")
    return place / "set.zip"


FORMATS = {
    "JSON lines": folder(lines, ".jsonl"),
    "JSON lines, gzip": folder(lambda rows: gzip.compress(lines(rows)), ".jsonl.gz"),
    "zip": packed,
    "CSV": folder(delimited, ".csv"),
    "CSV of a German spreadsheet": folder(
        lambda rows: b"\xef\xbb\xbf" + delimited(rows, ";").replace(b"\n", b"\r\n"), ".csv"
    ),
    "Parquet": folder(parquet, ".parquet"),
    "JSON": folder(lambda rows: json.dumps(rows).encode(), ".json"),
}


def change(table: str, row: int, **fields: Any) -> Callable[[Tables], None]:
    return lambda tables: tables[table][row].update(fields)


def add(table: str, **fields: Any) -> Callable[[Tables], None]:
    return lambda tables: tables[table].append({**tables[table][0], **fields})


def drop_column(table: str, name: str) -> Callable[[Tables], None]:
    def drop(tables: Tables) -> None:
        for row in tables[table]:
            del row[name]

    return drop


def drop_qrels(tables: Tables) -> None:
    del tables["qrels"]


ERRORS: dict[str, tuple[Callable[[Tables], None], str, str]] = {
    "no id": (change("corpus", 1, _id=""), "corpus", "has no id in a column _id"),
    "an id twice": (add("corpus", text="x"), "corpus", "id 'd1' is already used for other"),
    "no column of texts": (drop_column("corpus", "text"), "corpus", "has no text in a column"),
    "a query without an id": (change("queries", 0, _id=""), "queries", "has no id in a column"),
    "no column of grades' ids": (drop_column("qrels", "corpus-id"), "test", "has no id in a col"),
    "a grade in words": (change("qrels", 1, score="much"), "test", "a grade must be an integer"),
    "a fraction as a grade": (change("qrels", 1, score=0.5), "test", "a grade must be an integer"),
    "two grades": (add("qrels", score=1), "test", "document 'd1' has grade 1 .* but 2 before"),
}

WARNINGS: dict[str, tuple[Callable[[Tables], None], str]] = {
    "a row twice": (add("corpus"), r"rows that repeat an earlier one \(kept once\): 1, 'd1'"),
    "an empty document": (change("corpus", 1, text=""), "neither title nor text: 1, 'd2'"),
    "an empty query": (change("queries", 1, text=""), "queries without text: 1, 'q2'"),
    "an unknown query": (add("qrels", **{"query-id": "who"}), "dropped, .*: 1, query 'who'"),
    "an unknown document": (
        add("qrels", **{"corpus-id": "D2"}),
        r"not in the corpus .*: 1, 'D2' for query 'q1' \(the corpus has it in another case\)",
    ),
    "no judgments": (drop_qrels, "data sets without qrels"),
}


@pytest.mark.parametrize("write", FORMATS.values(), ids=FORMATS)
def test_a_sound_data_set_is_the_same_in_every_format(
    tmp_path: Path, write: Callable[[Path, Tables], Path]
) -> None:
    dataset = load_dataset(write(tmp_path, sound()))
    first = load_dataset(folder(lines, ".jsonl")(tmp_path / "plain", sound()))
    assert dataset.fingerprint == first.fingerprint
    assert dataset.judgments == {"test": {"q1": {"d1": 2}, "q2": {"d2": 1}}}
    assert (dataset.name, dataset.warnings) == ("set", ())


@pytest.mark.parametrize("write", FORMATS.values(), ids=FORMATS)
@pytest.mark.parametrize(("spoil", "file", "what"), ERRORS.values(), ids=ERRORS)
def test_a_fault_is_refused_with_its_file_and_row(
    tmp_path: Path,
    write: Callable[[Path, Tables], Path],
    spoil: Callable[[Tables], None],
    file: str,
    what: str,
) -> None:
    tables = sound()
    spoil(tables)
    path = write(tmp_path, tables)
    with pytest.raises(DataError, match=rf"{file}\.\w+(?:\.gz)?:(?:\d+:| row \d+:) .*{what}"):
        load_dataset(path)
    assert any(file in error for error in check_dataset(path).errors)


@pytest.mark.parametrize("write", FORMATS.values(), ids=FORMATS)
@pytest.mark.parametrize(("spoil", "what"), WARNINGS.values(), ids=WARNINGS)
def test_what_can_be_lived_with_is_told(
    tmp_path: Path,
    write: Callable[[Path, Tables], Path],
    spoil: Callable[[Tables], None],
    what: str,
) -> None:
    tables = sound()
    spoil(tables)
    dataset: Dataset = load_dataset(write(tmp_path, tables))
    assert any(re.search(what, each) for each in dataset.warnings), dataset.warnings


def test_other_files_beside_a_data_set_are_not_part_of_it(tmp_path: Path) -> None:
    path = folder(lines, ".jsonl")(tmp_path, sound())
    for name in ("docs/readme.json", "data/test.json", "notes/dev.csv", "corpus_old.jsonl"):
        (path / name).parent.mkdir(exist_ok=True)
        (path / name).write_text('{"page": "About"}')
    dataset = load_dataset(path)
    assert list(dataset.documents) == ["d1", "d2"]
    assert (list(dataset.judgments), dataset.warnings) == (["test"], ())
