"""Text that may not be passed on is made anew by whoever has the data, and checked."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.ground_truth.conftest import NFCORPUS, Invoke

from assay.data import Dataset, Query, load_dataset
from assay.errors import DataError
from assay.labels.ground_truth.generation import SELECTED
from assay.labels.ground_truth.records import load_ground_truth

FIXTURE = Path(__file__).parents[1] / "rag_evaluation" / "fixtures" / "ground_truth.json"


@pytest.fixture
def bare(folder: Path, invoke: Invoke, tmp_path: Path) -> Path:
    path = tmp_path / "bare.json"
    invoke(folder, "--queries", "q2", "--without-text", "--out", path)
    return path


def expect_refusal(path: Path, dataset: Dataset, message: str) -> None:
    with pytest.raises(DataError, match=message) as caught:
        load_ground_truth(path, dataset)
    assert path.name in str(caught.value)


def test_a_file_without_text_holds_no_word_of_the_data_set(bare: Path, drinks: Dataset) -> None:
    content = bare.read_text()
    (record,) = json.loads(content)
    assert (record["query_text"], record["ground_truth_answer"]) == (None, None)
    assert "Basel" not in content
    assert record["expected_document_ids"] == ["b"]


def test_the_text_comes_back_from_the_readers_own_copy(bare: Path, drinks: Dataset) -> None:
    (truth,) = load_ground_truth(bare, drinks)
    assert truth.query_text == "coffee in Basel"
    assert truth.ground_truth_answer == "Coffee was given to 25 people in Basel."
    assert (truth.expected_document_ids, truth.highly_relevant_count) == (("b",), 1)
    assert truth.provenance["provider"] == "extractive"


def test_a_file_with_text_is_read_as_it_is(folder: Path, invoke: Invoke, drinks: Dataset) -> None:
    invoke(folder)
    truths = load_ground_truth(Path("ground_truth.json"), drinks)
    assert [truth.query_id for truth in truths] == ["q1", "q2"]
    assert all(truth.ground_truth_answer for truth in truths)


def test_other_data_is_told_and_not_believed(bare: Path, drinks: Dataset) -> None:
    coffee = replace(drinks.documents["b"], text="Coffee was given to 26 people in Basel.")
    other = replace(drinks, documents={**drinks.documents, "b": coffee})
    expect_refusal(bare, other, "the answer of query 'q2' .* differs here")
    asked = {**drinks.queries, "q2": Query("q2", "coffee in Bern")}
    expect_refusal(bare, replace(drinks, queries=asked), "the question of query 'q2'")
    expect_refusal(bare, replace(drinks, queries={}), "query 'q2' is not in 'drinks'")
    without = {key: value for key, value in drinks.documents.items() if key != "b"}
    expect_refusal(bare, replace(drinks, documents=without), "'drinks' has none of")


@pytest.mark.parametrize("content", ["{", "{}", "[1]", '[{"query_id": 3}]', '[{"query_id": "a"}]'])
def test_a_file_that_is_something_else_is_told(
    content: str, tmp_path: Path, drinks: Dataset
) -> None:
    path = tmp_path / "wrong.json"
    path.write_text(content)
    expect_refusal(path, drinks, "JSON|record 1 is not a reference answer")
    expect_refusal(tmp_path / "absent.json", drinks, "no such file")
    expect_refusal(tmp_path, drinks, "cannot be read: ")


RECORD: dict[str, Any] = {
    "query_id": "q2",
    "query_text": "coffee in Basel",
    "ground_truth_answer": "25 people drank it.",
    "expected_document_ids": ["b"],
    "highly_relevant_count": 1,
    "provenance": {"document_ids": ["b"]},
}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"query_id": " "}, "record 2 .*'query_id' must be a non-blank string"),
        ({"query_text": 7}, "record 2 .*'query_text' must be a non-blank string or null"),
        ({"query_text": "coffee in Bern"}, "query 'q2' is 'coffee in Bern' here"),
        (
            {"ground_truth_answer": " \n"},
            "record 2 .*'ground_truth_answer' must be a non-blank string",
        ),
        ({"expected_document_ids": [["x"]]}, "record 2 .*'expected_document_ids' must be a list"),
        ({"expected_document_ids": "b"}, "record 2 .*'expected_document_ids' must be a list"),
        ({"expected_document_ids": []}, "none of the documents that query 'q2' expects"),
        ({"expected_document_ids": ["b", "z"]}, "no document 'z', which 'expected_document_ids'"),
        ({"highly_relevant_count": "1"}, "record 2 .*must be an integer"),
        ({"highly_relevant_count": True}, "record 2 .*must be an integer"),
        ({"provenance": "me"}, "record 2 .*'provenance' must be an object"),
        ({"provenance": {"document_ids": 5}}, "record 2 .*'document_ids' must be a list"),
        ({"provenance": {"document_ids": [{}]}}, "record 2 .*'document_ids' must be a list"),
        ({"provenance": {"document_ids": "b"}}, "record 2 .*'document_ids' must be a list"),
        ({"provenance": {"document_ids": ["z"]}}, "no document 'z', which 'document_ids' of"),
        ({"query_id": "q1"}, "records 1 and 2 are both for query 'q1'"),
    ],
)
def test_a_record_that_is_wrong_is_named(
    changes: dict[str, Any], message: str, tmp_path: Path, drinks: Dataset
) -> None:
    path = tmp_path / "wrong.json"
    # "gone" is judged for q1 and missing from the corpus, which is no fault of this file.
    other = {"query_id": "q1", "query_text": "does tea lower blood pressure"}
    first = RECORD | other | {"expected_document_ids": ["a", "gone"]}
    path.write_text(json.dumps([first, RECORD]))
    assert len(load_ground_truth(path, drinks)) == 2
    path.write_text(json.dumps([first, RECORD | changes]))
    expect_refusal(path, drinks, message)


def test_a_file_without_a_record_is_told(tmp_path: Path, drinks: Dataset) -> None:
    path = tmp_path / "empty.json"
    path.write_text("[]")
    expect_refusal(path, drinks, "has no reference answers")


def test_a_byte_order_mark_is_passed_over(tmp_path: Path, drinks: Dataset) -> None:
    path = tmp_path / "bom.json"
    path.write_text(json.dumps([RECORD]), encoding="utf-8-sig")
    assert load_ground_truth(path, drinks)[0].ground_truth_answer == "25 people drank it."


def test_the_committed_file_names_the_five_questions_and_holds_no_text() -> None:
    records: list[dict[str, Any]] = json.loads(FIXTURE.read_text())
    assert [record["query_id"] for record in records] == list(SELECTED)
    assert [record["highly_relevant_count"] for record in records] == [21, 20, 16, 15, 14]
    for record in records:
        assert (record["query_text"], record["ground_truth_answer"]) == (None, None)
        assert len(record["expected_document_ids"]) == record["highly_relevant_count"]


@NFCORPUS
def test_the_committed_file_fits_nfcorpus_and_this_version() -> None:
    """Fails when the extract changes: run tools/generate_rag_ground_truth.py --resume."""
    truths = load_ground_truth(FIXTURE, load_dataset("nfcorpus"))
    assert truths[2].query_text == "Coffee and Artery Function"
    assert all(len(truth.ground_truth_answer) > 200 for truth in truths)


@NFCORPUS
def test_the_committed_file_holds_no_sentence_of_nfcorpus() -> None:
    content = FIXTURE.read_text()
    nfcorpus = load_dataset("nfcorpus")
    for truth in load_ground_truth(FIXTURE, nfcorpus):
        assert truth.query_text not in content
        for doc_id in truth.expected_document_ids:
            document = nfcorpus.documents[doc_id]
            assert document.title not in content
            assert document.text[:60] not in content


@NFCORPUS
def test_the_tool_writes_the_committed_file_or_one_with_text(tmp_path: Path) -> None:
    tool = FIXTURE.parents[3] / "tools" / "generate_rag_ground_truth.py"
    out = tmp_path / "truth.json"
    for options in (["--provider", "extractive"], ["--without-text", "--resume"]):
        command = [sys.executable, str(tool), "--out", str(out), *options]
        subprocess.run(command, check=True, capture_output=True)
        answers = [record["ground_truth_answer"] for record in json.loads(out.read_text())]
        assert all(answers) is ("--without-text" not in options)
    made, committed = json.loads(out.read_text()), json.loads(FIXTURE.read_text())
    for record in (*made, *committed):
        del record["provenance"]["created"], record["provenance"]["assay"]
    assert made == committed
