"""docs/labels.md, "Grades of people": its commands run as they are shown."""

import csv
import re
from pathlib import Path

import pytest
from tests.docs.page_commands import section
from typer.testing import CliRunner

import assay
from assay.cli.app import app
from assay.data import load_dataset
from assay.labels.grading.human_grades import GradedPool

_PAGE = section("labels.md", "Grading")


def _run(block: str) -> None:
    for line in block.splitlines():
        result = CliRunner().invoke(app, line.split()[1:])
        assert result.exit_code == 0, (line, result.output, result.exception)


def test_people_grade_a_pool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = _PAGE.split("## Grades of people")[1].partition("\n### ")[0]
    (first,) = re.findall(r"```sh\n(.*?)```", text, re.DOTALL)
    _run(first)
    with Path("pool.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    with Path("pool.csv").open("w", encoding="utf-8") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows({**row, "label": "1"} for row in rows)
    graded = load_dataset("pool.csv").judgments["test"]
    assert all(graded[row["query_id"]][row["doc_id"]] == 1 for row in rows)


def test_people_grade_a_pool_in_the_web_ui(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assay.evaluate("builtin:bm25", "notes", num_queries=3, out="runs")
    text = _PAGE.split("## Grading in the web UI")[1]
    (first,) = re.findall(r"```sh\n(.*?)```", text, re.DOTALL)
    make, serve = first.splitlines()
    _run(make)
    assert serve == "assay serve ui --runs runs"
    pool = GradedPool(Path("runs/pools/tea.csv"))
    pool.save("Ann", {pool.name(0): 3})
    assert pool.grades_of("Ann") == {pool.name(0): 3}
