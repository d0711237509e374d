"""`--columns` of `assay score` and `assay audit`, for a table as the data set."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from assay import evaluate
from assay.cli.app import app
from assay.errors import UsageError

TABLE = "Nummer,Frage,docs\nq1,Wie lange?,a;b\nq2,Wie heiß?,c\n"
COLUMNS = ["--columns", "query=Frage,ids=docs", "--columns", "query_id=Nummer"]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("fragen.csv").write_text(TABLE, encoding="utf-8")
    Path("run.json").write_text('{"q1": ["a", "x"], "q2": ["c"]}')


def test_a_ranking_is_scored_by_the_columns_of_a_table() -> None:
    command = ["score", "run.json", "--dataset", "fragen.csv", *COLUMNS, "--json"]
    result = CliRunner().invoke(app, [*command, "--metrics", "recall@5"], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["metrics"]["recall@5"]["mean"] == 0.75


def test_a_report_is_audited_by_the_columns_of_a_table() -> None:
    found = {"Wie lange?": ["a", "x"], "Wie heiß?": ["c"]}
    columns = {"query": "Frage", "ids": "docs", "query_id": "Nummer"}
    run = evaluate(lambda query, top_k: found[query], "fragen.csv", columns=columns)
    report = str(run.folder.report_file)
    command = ["audit", report, "--dataset", "fragen.csv", *COLUMNS]
    result = CliRunner().invoke(app, command, catch_exceptions=False)
    assert result.exit_code == 0, result.output


def test_columns_without_a_table_are_refused() -> None:
    Path("report.json").write_text("{}")
    result = CliRunner().invoke(app, ["audit", "report.json", *COLUMNS])
    assert isinstance(result.exception, UsageError)
    assert "add --dataset FILE" in str(result.exception)
