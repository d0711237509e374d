"""`assay data info` and `assay data list`."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from assay.cli.app import data_verbs


@pytest.fixture
def dataset(tmp_path: Path) -> str:
    """One whose names would be markup if a terminal library had its way."""
    folder = tmp_path / "odd [red]name"
    (folder / "qrels").mkdir(parents=True)
    (folder / "corpus.jsonl").write_text(
        '{"_id": "d", "text": "a b c"}\n{"_id": "[e]", "text": ""}'
    )
    (folder / "queries.jsonl").write_text(
        '{"_id": "q", "text": "x", "metadata": {"tags": ["[bold]tag"]}}\n{"_id": "p", "text": "x"}'
    )
    (folder / "qrels" / "test.tsv").write_text("q\td\t1\n")
    (folder / "qrels" / "train.tsv").write_text("p\td\t1\n")
    (folder / "qrels" / "[dim]more.tsv").write_text("p\td\t1\n")
    return str(folder)


def invoke(*arguments: str) -> tuple[str, str]:
    result = CliRunner().invoke(data_verbs, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout, result.stderr


def test_info_prints_what_a_score_depends_on_within_80_columns(dataset: str) -> None:
    shown, _ = invoke("info", dataset)
    for words in ("2, of which empty: 1", "Recall", "too few", "1 of 1 documents", "1: 1"):
        assert words in shown
    assert max(len(line) for line in shown.splitlines()) <= 80


def test_names_from_files_are_shown_as_they_are(dataset: str) -> None:
    shown, _ = invoke("info", dataset)
    assert "odd [red]name" in shown
    assert "[bold]tag 1" in shown
    assert "[dim]more" in shown
    assert "'[e]' on line 2" in shown


def test_json_is_all_that_stdout_holds(dataset: str) -> None:
    facts = json.loads(invoke("info", dataset, "--json")[0])
    assert facts["documents"] == 2
    assert facts["splits"]["test"]["grades"] == {"1": 1}
    assert facts["overlap_with_train"]["share_seen"] == 1.0
    assert facts["ceilings"]["Precision@5"] == pytest.approx(0.2)


def test_the_split_and_the_assumption_can_be_chosen(dataset: str) -> None:
    facts = json.loads(invoke("info", dataset, "--split", "train", "--json")[0])
    assert (facts["split"], facts["assumed_std"]) == ("train", 0.2)


def test_list_names_the_known_data_sets() -> None:
    assert list(json.loads(invoke("list", "--json")[0])) == ["nfcorpus", "notes"]
    shown, said = invoke("list")
    assert "nfcorpus" in shown
    assert "BEIR" in said
