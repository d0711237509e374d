"""Folders, archives and dictionaries: every format with every fault, sound and unsound."""

import csv
import gzip
import io
import json
import os
import re
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas
import pytest
from tests.data.conftest import Rows, Tables, WriteDataset, lines, parquet, sound

from assay.data import Dataset, Document, load_dataset, text_file
from assay.data.load import check_dataset
from assay.errors import DataError, UsageError

D1 = '{"_id": "d1", "title": "Tea", "text": "Green tea is steeped."}\n'
CUT_GZIP = gzip.compress(D1.encode())[:-9]
Q1 = '{"_id": "q1", "text": "how is tea made"}\n'


def delimited(rows: Rows, delimiter: str = ",") -> bytes:
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=list(rows[0]), delimiter=delimiter)
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().encode()


Write = Callable[[Path, Tables], Path]
Spoil = Callable[[Tables], None]


def folder(write: Callable[[Rows], bytes], suffix: str) -> Write:
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
    "Parquet": folder(
        lambda rows: parquet([{key: str(text) for key, text in row.items()} for row in rows]),
        ".parquet",
    ),
    "JSON": folder(lambda rows: json.dumps(rows).encode(), ".json"),
}


def change(table: str, row: int, **fields: Any) -> Spoil:
    return lambda tables: tables[table][row].update(fields)


def add(table: str, **fields: Any) -> Spoil:
    return lambda tables: tables[table].append({**tables[table][0], **fields})


def drop_column(table: str, name: str) -> Spoil:
    def drop(tables: Tables) -> None:
        for row in tables[table]:
            del row[name]

    return drop


def drop_qrels(tables: Tables) -> None:
    del tables["qrels"]


def answer(query_id: str, *documents: str) -> Spoil:
    row = {"query_id": query_id, "answer": "x", "documents": json.dumps(documents)}
    return lambda tables: tables.update(answers=[row])


ERRORS: dict[str, tuple[Spoil, str, str]] = {
    "no id": (change("corpus", 1, _id=""), "corpus", "has no id in a column _id"),
    "an id twice": (add("corpus", text="x"), "corpus", "id 'd1' is already used for other"),
    "no column of texts": (drop_column("corpus", "text"), "corpus", "has no text in a column"),
    "a query without an id": (change("queries", 0, _id=""), "queries", "has no id in a column"),
    "no column of grades' ids": (drop_column("qrels", "corpus-id"), "test", "has no id in a col"),
    "a grade in words": (change("qrels", 1, score="much"), "test", "a grade must be an integer"),
    "a fraction as a grade": (change("qrels", 1, score=0.5), "test", "a grade must be an integer"),
    "two grades": (add("qrels", score=1), "test", "document 'd1' has grade 1 .* but 2 before"),
}

WARNINGS: dict[str, tuple[Spoil, str]] = {
    "a row twice": (add("corpus"), r"rows that repeat an earlier one \(kept once\): 1, 'd1'"),
    "an empty document": (change("corpus", 1, text=""), "corpus.*: rows without text: 1, 'd2'"),
    "an empty query": (change("queries", 1, text=""), "queries.*: rows without text: 1, 'q2'"),
    "an unknown query": (add("qrels", **{"query-id": "who"}), "dropped, .*: 1, query 'who'"),
    "an unknown document": (add("qrels", **{"corpus-id": "D2"}), "corpus .*: 1, 'D2' for .*'q1'"),
    "no judgments": (drop_qrels, "data sets without qrels"),
    "an answer for no query": (answer("q9"), r"answers dropped, .* not exist: 1, query 'q9'"),
    "an answer from no document": (answer("q1", "d9"), "answers .* corpus: 1, 'd9' for .*'q1'"),
}


@pytest.mark.parametrize("write", FORMATS.values(), ids=FORMATS)
def test_a_sound_data_set_is_the_same_in_every_format(tmp_path: Path, write: Write) -> None:
    dataset = load_dataset(write(tmp_path, sound()))
    first = load_dataset(folder(lines, ".jsonl")(tmp_path / "plain", sound()))
    assert dataset.fingerprint == first.fingerprint
    assert dataset.judgments == {"test": {"q1": {"d1": 2}, "q2": {"d2": 1}}}
    assert (dataset.name, dataset.warnings) == ("set", ())


@pytest.mark.parametrize("write", FORMATS.values(), ids=FORMATS)
@pytest.mark.parametrize(("spoil", "file", "what"), ERRORS.values(), ids=ERRORS)
def test_a_fault_is_told_by_file_and_row(
    tmp_path: Path, write: Write, spoil: Spoil, file: str, what: str
) -> None:
    tables = sound()
    spoil(tables)
    path = write(tmp_path, tables)
    with pytest.raises(DataError, match=rf"{file}\.\w+(?:\.gz)?:(?:\d+:| row \d+:) .*{what}"):
        load_dataset(path)
    assert any(file in error for error in check_dataset(path).errors)


@pytest.mark.parametrize("write", FORMATS.values(), ids=FORMATS)
@pytest.mark.parametrize(("spoil", "what"), WARNINGS.values(), ids=WARNINGS)
def test_what_is_bearable_is_told(tmp_path: Path, write: Write, spoil: Spoil, what: str) -> None:
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


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("corpus.jsonl", b"\xef\xbb\xbf" + D1.encode()),
        ("corpus.jsonl", D1.replace("\n", "\r\n") + "\r\n  \r\n"),
        ("corpus.jsonl", D1.rstrip("\n")),
        ("corpus.jsonl", '{"_id": "d1", "title": null, "text": "null", "metadata": null}'),
        ("corpus.jsonl", '{"_id": "d1", "text": "line separators \u2028 \x85"}'),
        ("queries.jsonl", Q1 + '{"_id": "q9", "text": "never judged"}\n'),
        ("queries.jsonl", '{"_id": "q1", "text": "x", "metadata": {"tags": 5}}'),
        ("qrels/test.tsv", b"\xef\xbb\xbfquery-id\tcorpus-id\tscore\r\n\r\nq1\td1\t1\r\n"),
        ("qrels/test.tsv", "q1 0 d1 1\n"),
    ],
)
def test_harmless_oddities_are_read_without_a_warning(
    write_dataset: WriteDataset, name: str, content: str | bytes
) -> None:
    dataset = load_dataset(write_dataset({"qrels/test.tsv": "q1\td1\t1\n", name: content}))
    assert dataset.warnings == ()
    assert "d1" in dataset.documents
    assert dataset.judgments["test"] == {"q1": {"d1": 1}}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"queries.jsonl": None}, r"small: has no queries; .* assay data questions makes some"),
        ({"corpus.jsonl": ""}, r"corpus.jsonl: has no documents; add rows with '_id'"),
        ({"corpus.jsonl": "[1]\n"}, r"corpus.jsonl:1: must be one JSON object.*got \[1\]"),
        ({"corpus.jsonl": '{"_id": "x", "text": 5}'}, r":1: 'text' must be text, got 5"),
        ({"corpus.jsonl": None, "corpus.jsonl.gz": CUT_GZIP}, r"jsonl.gz: cannot be read: .*ended"),
        ({"qrels/test.tsv": "q1\t\t1\n"}, r"test.tsv:1: must have 3 columns.* none of it empty"),
        ({"answers.jsonl": '{"query_id": "q1", "answer": "x", "facts": [{}]}'}, r":1: a fact is"),
        ({"answers.jsonl": '{"query_id": "q1", "answer": "x", "documents": [1]}'}, r"list of ids"),
    ],
)
def test_what_cannot_be_mended_is_refused_with_file_line_and_remedy(
    write_dataset: WriteDataset, changes: dict[str, str | bytes | None], message: str
) -> None:
    with pytest.raises(DataError, match=message):
        load_dataset(write_dataset(changes))


@pytest.mark.timeout(20)
@pytest.mark.parametrize("name", ["corpus.jsonl", "qrels/test.tsv", "corpus.jsonl.gz"])
def test_a_pipe_in_place_of_a_file_blocks_nobody(write_dataset: WriteDataset, name: str) -> None:
    folder = write_dataset()
    (folder / name.removesuffix(".gz")).unlink(missing_ok=True)
    os.mkfifo(folder / name)
    with pytest.raises(DataError, match=r"cannot be read: it is not a regular file"):
        load_dataset(folder)


@pytest.mark.parametrize("bound", ["MAX_MEMBERS", "ARCHIVE_MAX_BYTES", "RATIO_MATTERS_ABOVE"])
def test_an_archive_that_unpacks_to_too_much_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bound: str
) -> None:
    path = packed(tmp_path, sound())
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("zeros", bytes(2**20))
    assert load_dataset(path).warnings == ()
    monkeypatch.setattr(text_file, bound, 2)
    with pytest.raises(DataError, match="pass a folder instead"):
        load_dataset(path)


@pytest.mark.parametrize(
    ("at", "change", "message"),
    [
        (8, b"\x01\x00", "encrypted"),
        (16, b"\x00\x00", "Bad CRC-32"),
        (24, b"\x05\x00\x00\x00", "Bad CRC-32"),  # a size that is declared too small
        (-40, b"", "is not a readable zip archive"),
    ],
)
def test_a_damaged_archive_is_refused(tmp_path: Path, at: int, change: bytes, message: str) -> None:
    path = packed(tmp_path, sound())
    content = bytearray(path.read_bytes())
    if at < 0:
        del content[at:]
    else:
        start = content.index(b"PK\x01\x02") + at
        content[start : start + len(change)] = change
    path.write_bytes(content)
    with pytest.raises(DataError, match=message):
        load_dataset(path)


QUERIES = {"q1": "how long?", "q2": "why?"}
JUDGMENTS = {"q1": {"d1": 2, "d2": 0}, "q2": {"d2": 1}}
DOCUMENTS = {"d1": {"title": "Tea", "text": "Steep."}, "d2": {"title": "", "text": "Because."}}


ROWS = (
    [{"query_id": key, "query": text} for key, text in QUERIES.items()],
    [
        {"qid": query_id, "doc_id": doc_id, "score": grade}
        for query_id, grades in JUDGMENTS.items()
        for doc_id, grade in grades.items()
    ],
    [{"id": key, **fields} for key, fields in DOCUMENTS.items()],
)


@pytest.mark.parametrize(
    ("queries", "judgments", "documents"),
    [
        (QUERIES, JUDGMENTS, {**DOCUMENTS, "d2": "Because."}),
        ROWS,
        tuple(pandas.DataFrame(rows) for rows in ROWS),
    ],
    ids=["dictionaries", "rows", "frames"],
)
def test_every_form_is_one_data_set(queries: object, judgments: object, documents: object) -> None:
    dataset = Dataset.from_dicts(queries, judgments, documents)
    assert {each.id: each.text for each in dataset.queries.values()} == QUERIES
    assert dataset.judgments_in("test") == JUDGMENTS
    assert dataset.documents["d1"] == Document("d1", "Tea", "Steep.")
    assert dataset.documents["d2"].full_text == "Because."


def test_ids_may_be_numbers_and_judgments_a_list() -> None:
    dataset = Dataset.from_dicts({1: "how?"}, {1: [7, 8]}, answers={1: "so", "1": "so"})  # type: ignore[dict-item]
    assert dataset.judgments_in("test") == {"1": {"7": 1, "8": 1}}
    assert dataset.answers["1"].documents == ("7", "8")
    assert dataset.corpus_ids is None
    with pytest.raises(UsageError, match=r"a search needs the texts .*'memory' has only"):
        dataset.require_documents("a search")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (({}, {}), "queries must be texts, at least one"),
        (([{"query_id": "q", "frage": "x"}], {}), "row 1: has no text in a column query"),
        (({"q": "x"}, {"p": ["d"]}), "judgments: row 1: there is no query 'p'"),
        (({"q": "x"}, {"q": "d"}), "query 'q' must have {id: grade} or a list of ids, got 'd'"),
        (({"q": "x"}, [{"query_id": "q"}]), "judgments: row 1: has no id in a column doc_id"),
        (({"q": "x"}, {}, [{"id": "d", "text": t} for t in "ab"]), "row 2: id 'd' is already used"),
    ],
)
def test_what_is_wrong_is_refused_with_its_place(values: tuple[Any, ...], message: str) -> None:
    with pytest.raises(DataError, match=message):
        Dataset.from_dicts(*values)
