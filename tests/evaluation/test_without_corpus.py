"""A service that has its own documents is measured by a table of questions and expected ids."""

from pathlib import Path

import pytest
from click.testing import CliRunner

import assay
from assay.cli.eval import evaluate
from assay.cli.verb import VerbCommand
from assay.errors import UsageError
from assay.evaluation.run import load_run

TABLE = "Frage,docs,lang\nWie lange zieht Tee?,tea-1;tea-7,de\nHow hot is the water?,tea-7,en\n"
OPTIONS = ["--dataset", "questions.csv", "--columns", "query=Frage,ids=docs"]

app = VerbCommand("eval", evaluate)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    Path("questions.csv").write_text(TABLE, encoding="utf-8")
    Path("tea_service.py").write_text(
        "def search(query, top_k):\n    return ['tea-7', 'tea-99']\n\n"
        "def other(query, top_k):\n    return ['99']\n"
    )


def test_the_spreadsheet_measures_a_service_without_a_corpus() -> None:
    result = CliRunner().invoke(app, ["python:tea_service:search", *OPTIONS])
    assert result.exit_code == 0, result.output
    assert "has no documents: misspelled ids" in result.stderr
    report = load_run("latest").report
    assert report.metrics["recall@5"] == 0.75
    assert report.violations["unknown"].ids == 0
    assert report.dataset.documents == 0
    assert report.config.columns == ("query=Frage,ids=docs",)
    page = load_run("latest").folder.page_file.read_text(encoding="utf-8")
    assert "Wie lange zieht Tee?" in page
    assert "no document has this id" not in page


def test_faithfulness_is_measured_only_where_there_are_texts() -> None:
    Path("answered.csv").write_text("query,doc_ids,answer\nHow long?,tea-7,Three minutes.\n")
    Path("answering_service.py").write_text(
        "def bare(query, top_k):\n"
        "    return {'doc_ids': ['tea-7'], 'answer': 'Three minutes.', 'citations': ['tea-7']}\n\n"
        "def shown(query, top_k):\n"
        "    return bare(query, top_k) | {'contexts': [{'id': 'tea-7', 'text': 'Three minutes'}]}\n"
    )
    found = {}
    for name in ("bare", "shown"):
        run = assay.evaluate(f"python:answering_service:{name}", "answered.csv", answers=True)
        assert run.report.answers is not None
        found[name] = run.report.answers.metrics.get("faithfulness")
    assert found["bare"] is None
    assert found["shown"] == 1.0


def test_ids_of_another_kind_are_noticed_without_a_corpus() -> None:
    result = CliRunner().invoke(app, ["python:tea_service:other", *OPTIONS])
    assert "no returned id is one that 'questions' expects" in result.stderr
    assert "assay doctor TARGET --dataset questions.csv" in result.stderr


@pytest.mark.parametrize(
    "extra", [["builtin:bm25"], ["python:tea_service:search", "--baseline", "builtin:bm25"]]
)
def test_what_needs_texts_says_so(extra: list[str]) -> None:
    result = CliRunner().invoke(app, [*extra, *OPTIONS])
    assert isinstance(result.exception, UsageError)
    assert "target 'builtin:bm25' needs the texts of documents" in str(result.exception)
