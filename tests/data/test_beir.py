"""Reading folders and archives in BEIR format, sound and unsound."""

import gzip
import os
import re
import zipfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from assay.data import Dataset, Document, Fact, Query, ReferenceAnswer, load_dataset
from assay.data.beir import write_beir
from assay.errors import AssayError, DataError, UsageError

WriteDataset = Callable[..., Path]

D1 = '{"_id": "d1", "title": "Tea", "text": "Green tea is steeped."}\n'
Q1 = '{"_id": "q1", "text": "how is tea made"}\n'


def test_a_sound_folder_is_read_whole(write_dataset: WriteDataset) -> None:
    dataset = load_dataset(write_dataset())
    assert dataset.name == "small"
    assert dataset.documents["d1"] == Document("d1", "Tea", "Green tea is steeped.")
    assert dataset.queries["q2"] == Query("q2", "how is coffee made", ("multi-hop",))
    assert dataset.judgments == {"test": {"q1": {"d1": 2, "d2": 0}, "q2": {"d2": 1}}}
    assert dataset.warnings == ()


def test_queries_keep_the_order_of_their_file(write_dataset: WriteDataset) -> None:
    lines = "".join(f'{{"_id": "q{n}", "text": "x"}}\n' for n in (3, 1, 2))
    dataset = load_dataset(write_dataset({"queries.jsonl": lines, "qrels/test.tsv": "q1\td1\t1"}))
    assert list(dataset.queries) == ["q3", "q1", "q2"]


def test_every_tsv_under_qrels_is_a_split(write_dataset: WriteDataset) -> None:
    dataset = load_dataset(write_dataset({"qrels/train.tsv": "q2\td1\t1\n", "qrels/._x.tsv": "?"}))
    assert list(dataset.judgments) == ["test", "train"]


@pytest.mark.parametrize("inside", ["", "set/"], ids=["at the root", "in one folder"])
def test_a_zip_reads_like_the_folder_it_was_made_of(
    write_dataset: WriteDataset, tmp_path: Path, inside: str
) -> None:
    folder = write_dataset()
    path = tmp_path / "packed.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in folder.rglob("*.*"):
            archive.write(file, inside + file.relative_to(folder).as_posix())
        archive.writestr("__MACOSX/set/._corpus.jsonl", b"\xff")
    packed, plain = load_dataset(path), load_dataset(folder)
    assert packed.name == "packed"
    assert packed.fingerprint == plain.fingerprint


def test_compressed_files_stand_for_plain_ones(write_dataset: WriteDataset) -> None:
    folder = write_dataset({"corpus.jsonl": None, "corpus.jsonl.gz": gzip.compress(D1.encode())})
    assert list(load_dataset(folder).documents) == ["d1"]


def test_reference_answers_come_with_facts_and_documents(write_dataset: WriteDataset) -> None:
    answers = (
        '{"query_id": "q1", "answer": "Steeped.", "documents": ["d1"], '
        '"facts": [{"text": "steeped", "accept": ["steeped", "soaked"]}, "green"]}\n'
        '{"query_id": "q2", "answer": null}\n'
    )
    dataset = load_dataset(write_dataset({"answers.jsonl": answers}))
    facts = (Fact("steeped", ("steeped", "soaked")), Fact("green", ("green",)))
    assert dataset.answers["q1"] == ReferenceAnswer("q1", "Steeped.", facts, ("d1",))
    assert dataset.answers["q2"].answer is None


@pytest.mark.parametrize(
    "changes",
    [
        {"corpus.jsonl": b"\xef\xbb\xbf" + D1.encode()},
        {"corpus.jsonl": D1.replace("\n", "\r\n") + "\r\n  \r\n"},
        {"corpus.jsonl": D1.rstrip("\n")},
        {"corpus.jsonl": '{"_id": "d1", "text": "no title"}'},
        {"corpus.jsonl": '{"_id": "d1", "title": null, "text": "null", "metadata": null}'},
        {"corpus.jsonl": '{"_id": "d1", "title": "", "text": "line separators \u2028 \x85"}'},
        {"queries.jsonl": Q1 + '{"_id": "q9", "text": "never judged"}\n'},
        {"queries.jsonl": '{"_id": "q1", "text": "x", "metadata": {"tags": 5}}'},
        {"qrels/test.tsv": b"\xef\xbb\xbfquery-id\tcorpus-id\tscore\r\n\r\nq1\td1\t1\r\n"},
        {"qrels/test.tsv": "q1 0 d1 1\n"},
    ],
    ids=[
        "byte order mark",
        "CRLF and blank lines",
        "no newline at the end",
        "no title",
        "nulls",
        "odd characters within a line",
        "query without judgments",
        "tags of another kind",
        "judgments with all of that",
        "TREC judgments",
    ],
)
def test_harmless_oddities_are_read_without_a_warning(
    write_dataset: WriteDataset, changes: dict[str, str | bytes]
) -> None:
    one_judgment = {"qrels/test.tsv": "q1\td1\t1\n"}
    dataset = load_dataset(write_dataset(one_judgment | changes))
    assert dataset.warnings == ()
    assert "d1" in dataset.documents
    assert dataset.judgments["test"] == {"q1": {"d1": 1}}


def test_a_number_is_accepted_as_an_id(write_dataset: WriteDataset) -> None:
    changes = {
        "corpus.jsonl": '{"_id": 7, "text": "x"}',
        "queries.jsonl": '{"_id": 8, "text": "x"}',
        "qrels/test.tsv": "8\t7\t1",
    }
    dataset = load_dataset(write_dataset(changes))
    assert dataset.documents["7"].id == "7"
    assert dataset.judgments["test"] == {"8": {"7": 1}}
    assert dataset.warnings == ()


@pytest.mark.parametrize(
    ("changes", "warning"),
    [
        (
            {"qrels/test.tsv": "q1\td1\t1\nq1\td1\t1\n"},
            r"test.tsv: judgments that repeat an earlier one \(kept once\): 1, 'q1' 'd1' on line 2",
        ),
        ({"qrels/test.tsv": "query-id\tcorpus-id\tscore\n"}, "splits without judgments: 1"),
        (
            {"answers.jsonl": '{"query_id": "who", "answer": "x"}'},
            "answers dropped, because their query does not exist: 1, query 'who'",
        ),
        (
            {"answers.jsonl": '{"query_id": "q1", "answer": "x", "documents": ["gone"]}'},
            "answers whose document is not in the corpus: 1, 'gone' for query 'q1'",
        ),
    ],
)
def test_what_can_be_lived_with_is_a_warning_with_count_and_example(
    write_dataset: WriteDataset, changes: dict[str, str | None], warning: str
) -> None:
    dataset = load_dataset(write_dataset(changes))
    assert any(re.search(warning, each) for each in dataset.warnings), dataset.warnings


def test_a_judged_document_that_is_not_there_counts_in_the_ideal(
    write_dataset: WriteDataset,
) -> None:
    dataset = load_dataset(write_dataset({"qrels/test.tsv": "q1\tgone\t1\nwho\td1\t1\n"}))
    assert dataset.judgments["test"] == {"q1": {"gone": 1}}


def test_an_answer_to_a_query_that_is_not_there_is_left_out(write_dataset: WriteDataset) -> None:
    answers = '{"query_id": "who", "answer": "x"}\n{"query_id": "q1", "answer": "y"}\n'
    assert list(load_dataset(write_dataset({"answers.jsonl": answers})).answers) == ["q1"]


def test_an_empty_document_is_kept(write_dataset: WriteDataset) -> None:
    dataset = load_dataset(write_dataset({"corpus.jsonl": D1 + '{"_id": "d2", "text": null}\n'}))
    assert dataset.documents["d2"].full_text == ""


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"corpus.jsonl": None, "queries.jsonl": None},
            r"small: has no queries; a data set has corpus.jsonl, queries",
        ),
        ({"queries.jsonl": None}, r"small: has no queries; .* assay data questions makes some"),
        ({"corpus.jsonl": ""}, r"corpus.jsonl: has no documents; add rows with '_id'"),
        ({"queries.jsonl": "\n\n"}, r"queries.jsonl: has no queries; add rows with '_id'"),
        (
            {"corpus.jsonl": D1 + "\n{oops\n"},
            r"corpus.jsonl:3: is not valid JSON: .*; correct",
        ),
        ({"corpus.jsonl": "[1]\n"}, r"corpus.jsonl:1: must be one JSON object.*got \[1\]"),
        (
            {"corpus.jsonl": '{"_id": true}\n'},
            r"corpus.jsonl:1: has no id .* got True",
        ),
        ({"corpus.jsonl": '{"_id": "x", "text": 5}'}, r":1: 'text' must be text, got 5"),
        ({"corpus.jsonl": D1.encode() + b'{"_id": "\xff"}'}, r"corpus.jsonl:2: is not UTF-8.*0xff"),
        ({"corpus.jsonl": D1.encode("utf-16")}, r"corpus.jsonl:1: is not UTF-8.*save it as UTF-8"),
        ({"corpus.jsonl": None, "corpus.jsonl.gz": b"no"}, r"corpus.jsonl.gz: cannot be read"),
        (
            {"corpus.jsonl": None, "corpus.jsonl.gz": gzip.compress(D1.encode())[:-9]},
            r"corpus.jsonl.gz: cannot be read: .*ended before.*; .* or get a new copy",
        ),
        ({"qrels/test.tsv": "q1\td1\n"}, r"test.tsv:1: has 2 columns; judgments have three"),
        (
            {"qrels/test.tsv": "q1\td1\t1\nq1\td2\n"},
            r"test.tsv:2: has 2 columns.*earlier lines have 3",
        ),
        ({"qrels/test.tsv": "q1\t\t1\n"}, r"test.tsv:1: a column is empty"),
        (
            {"qrels/test.tsv": "q1\td1\t1\nq1\td1\t2\n"},
            r"test.tsv:2: document 'd1' has grade 2 for query 'q1', but 1 before",
        ),
        ({"answers.jsonl": '{"query_id": "q1"}'}, r"answers.jsonl:1: query 'q1' has no 'answer'"),
        (
            {"answers.jsonl": '{"query_id": "q1", "answer": "x", "facts": [{}]}'},
            r"answers.jsonl:1: a fact must be .*got {}",
        ),
        (
            {"answers.jsonl": '{"query_id": "q1", "answer": "x", "documents": "d1"}'},
            r"answers.jsonl:1: 'documents' must be a list, got 'd1'",
        ),
        (
            {"answers.jsonl": '{"query_id": "q1", "answer": "x", "documents": [1]}'},
            r"answers.jsonl:1: 'documents' must hold non-empty strings",
        ),
    ],
)
def test_what_cannot_be_mended_is_refused_with_file_line_and_remedy(
    write_dataset: WriteDataset, changes: dict[str, str | bytes | None], message: str
) -> None:
    with pytest.raises(DataError, match=message):
        load_dataset(write_dataset(changes))


def test_a_long_value_does_not_flood_the_message(write_dataset: WriteDataset) -> None:
    with pytest.raises(DataError) as refusal:
        load_dataset(write_dataset({"corpus.jsonl": '["' + "x" * 5000 + '"]'}))
    assert len(str(refusal.value)) < 500


@pytest.mark.parametrize(
    "place", ['"metadata": {"m": %s}', '"metadata": {"tags": %s}', '"title": %s']
)
def test_nesting_beyond_what_python_can_follow_is_survived(
    write_dataset: WriteDataset, place: str
) -> None:
    line = '{"_id": "x", "text": "", ' + place % ("[" * 1000 + "]" * 1000) + "}\n"
    with suppress(DataError):
        load_dataset(write_dataset({"corpus.jsonl": line + line, "queries.jsonl": line + line}))


def test_several_data_sets_in_one_folder_are_not_guessed_at(
    write_dataset: WriteDataset, tmp_path: Path
) -> None:
    write_dataset(name="a")
    write_dataset(name="b")
    with pytest.raises(UsageError, match=r"pass the folder of one, .*: a, b"):
        load_dataset(tmp_path)


def test_a_data_set_that_is_written_and_read_again_is_the_same(tmp_path: Path) -> None:
    notes = load_dataset("notes")
    write_beir(notes, tmp_path / "copy")
    again = load_dataset(tmp_path / "copy")
    assert again.fingerprint == notes.fingerprint
    assert again.documents == notes.documents
    assert again.queries == notes.queries
    assert again.answers == notes.answers


def test_a_folder_without_a_corpus_has_questions_and_ids(write_dataset: WriteDataset) -> None:
    dataset = load_dataset(write_dataset({"corpus.jsonl": None}))
    assert dataset.corpus_ids is None
    assert dataset.known_ids == {"d1", "d2"}
    assert dataset.warnings == ()


def test_an_id_that_qrels_cannot_hold_is_refused(tmp_path: Path) -> None:
    dataset = Dataset("d", {}, {"q": Query("q", "?")}, {"test": {"q": {"a\tb": 1}}})
    with pytest.raises(DataError, match=r"id 'a\\tb' has a tab"):
        write_beir(dataset, tmp_path)


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    "name", ["corpus.jsonl", "queries.jsonl", "qrels/test.tsv", "answers.jsonl", "corpus.jsonl.gz"]
)
def test_a_pipe_in_place_of_a_file_blocks_nobody(write_dataset: WriteDataset, name: str) -> None:
    folder = write_dataset()
    (folder / name.removesuffix(".gz")).unlink(missing_ok=True)
    os.mkfifo(folder / name)
    with pytest.raises(DataError, match=r"cannot be read: it is not a regular file"):
        load_dataset(folder)


@pytest.mark.timeout(20)
@pytest.mark.parametrize("name", ["set.zip", "set", "set.csv", "set.parquet", "set.jsonl"])
def test_a_pipe_in_place_of_a_data_set_blocks_nobody(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / name)
    with pytest.raises(AssayError):
        load_dataset(str(tmp_path / name))
