"""docs/grading.md, "Grades of people": its commands run as they are shown."""

import csv
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

import assay
from assay.cli.app import app
from assay.data import load_dataset, read_qrels
from assay.labels.grading.human_grades import GradedPool

_PAGE = Path(__file__).parents[2] / "docs" / "grading.md"


def _run(block: str) -> None:
    for line in block.splitlines():
        result = CliRunner().invoke(app, line.split()[1:])
        assert result.exit_code == 0, (line, result.output, result.exception)


def test_people_grade_a_pool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    section = _PAGE.read_text().split("## Grades of people")[1].partition("\n## ")[0]
    first, second = re.findall(r"```sh\n(.*?)```", section, re.DOTALL)
    _run(first)
    with Path("pool.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    for name in ("ann.csv", "bob.csv"):
        with Path(name).open("w", encoding="utf-8") as file:
            writer = csv.DictWriter(file, rows[0])
            writer.writeheader()
            writer.writerows({**row, "label": "1"} for row in rows)
    _run(second)
    graded = load_dataset("notes-graded").judgments["test"]
    assert all(graded[row["query_id"]][row["doc_id"]] == 1 for row in rows)


def test_people_grade_a_pool_in_the_web_ui(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assay.evaluate("builtin:bm25", "notes", num_queries=3, out="runs")
    section = _PAGE.read_text().split("## Grading in the web UI")[1]
    first, second = re.findall(r"```sh\n(.*?)```", section, re.DOTALL)
    make, serve = first.splitlines()
    _run(make)
    assert serve == "assay serve ui --runs runs"
    pool = GradedPool(Path("runs/pools/tea.csv"))
    pool.save("Ann", {pool.name(0): 3})
    pool.save("Bob", {pool.name(0): 2})
    _run(second)
    assert read_qrels(Path("tea.qrels")) == {pool.pairs[0].query_id: {pool.pairs[0].doc_id: 2}}
