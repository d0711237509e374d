"""`assay data`."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from assay.cli.app import data_verbs
from assay.data import load_dataset
from assay.errors import DataError

QUESTIONS = "query_id,query,doc_ids,grades,answer,lang\n1,how?,d1;d2,2;1,so,de\n2,why?,d9,,,en\n"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("set.csv").write_text(QUESTIONS)


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(data_verbs, arguments)


def test_an_imported_table_is_the_same_data_set() -> None:
    result = invoke("import", "set.csv", "--out", "mine", "--json")
    counts = {"queries": 2, "judgments": 3, "documents": 0, "answers": 1}
    assert json.loads(result.stdout) == {"folder": "mine", **counts}
    before, after = load_dataset("set.csv"), load_dataset("mine")
    assert after.fingerprint == before.fingerprint
    assert after.queries == before.queries
    assert after.answers == before.answers
    assert sorted(path.name for path in Path().iterdir()) == ["mine", "set.csv"]


def test_documents_come_from_a_second_table() -> None:
    Path("docs.tsv").write_text("id\ttitle\ttext\nd1\tTea\tSteep.\nd2\t\tBoil.\n")
    result = invoke("import", "set.csv", "--out", "mine", "--corpus", "docs.tsv")
    assert "docs.tsv lacks 1 of 3 expected ids, for example 'd9'" in result.stderr
    assert load_dataset("mine").documents["d1"].full_text == "Tea Steep."


def test_nothing_is_left_of_an_import_that_failed() -> None:
    Path("set.jsonl").write_text('{"query": "how?", "doc_ids": ["a\\tb"]}')
    result = invoke("import", "set.jsonl", "--out", "mine")
    assert isinstance(result.exception, DataError)
    assert sorted(path.name for path in Path().iterdir()) == ["set.csv", "set.jsonl"]


def test_check_prints_places_and_fails() -> None:
    Path("set.csv").write_text(QUESTIONS + "2,other,d1,,,\n")
    result = invoke("check", "set.csv")
    assert result.exit_code == 1
    assert result.stdout.startswith("error: set.csv:4: query id '2' was already used on line 3")
    assert "1 error, 0 warnings: 2 queries, 3 judgments and 0 documents" in result.stdout


def test_warnings_fail_only_a_strict_check() -> None:
    Path("set.csv").write_text(QUESTIONS + "3,who?,,,,\n")
    result = invoke("check", "set.csv", "--json")
    (warning,) = json.loads(result.stdout)["warnings"]
    assert (result.exit_code, "not scored: 1, on line 4" in warning) == (0, True)
    assert invoke("check", "set.csv", "--strict").exit_code == 1


def test_a_sample_says_that_its_scores_are_its_own() -> None:
    result = invoke("sample", "notes", "--out", "small", "-n", "5", "--documents", "30")
    assert "compare them only with each other" in result.stderr
    assert list(json.loads(invoke("list", "--json").stdout)) == ["nfcorpus", "notes"]
    assert len(load_dataset("small").queries) == 5


def test_info_is_what_a_score_depends_on_with_names_as_they_are() -> None:
    folder = Path("odd [red]name")
    (folder / "qrels").mkdir(parents=True)
    (folder / "corpus.jsonl").write_text(
        '{"_id": "d", "text": "a b c"}\n{"_id": "[e]", "text": ""}'
    )
    (folder / "queries.jsonl").write_text(
        '{"_id": "q", "text": "x", "metadata": {"tags": ["[bold]tag"]}}\n{"_id": "p", "text": "x"}'
    )
    (folder / "qrels" / "test.tsv").write_text("q\td\t1\n")
    (folder / "qrels" / "train.tsv").write_text("p\td\t1\n")
    shown = invoke("info", str(folder)).stdout
    for words in ("2, of which empty: 1", "too few", "1 of 1 documents", "odd [red]name"):
        assert words in shown
    assert "[bold]tag: 1" in shown
    assert "'[e]' on line 2" in shown
    assert max(len(line) for line in shown.splitlines()) <= 80
    facts = json.loads(invoke("info", str(folder), "--split", "train", "--json").stdout)
    assert (facts["split"], facts["documents"]) == ("train", 2)
    assert facts["splits"]["test"]["grades"] == {"1": 1}
