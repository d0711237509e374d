"""docs/grading.md, "Grades of people": its commands run as they are shown."""

import csv
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from assay.cli.app import app
from assay.data import load_dataset

_PAGE = Path(__file__).parents[2] / "docs" / "grading.md"


def _run(block: str) -> None:
    for line in block.splitlines():
        result = CliRunner().invoke(app, line.split()[1:])
        assert result.exit_code == 0, (line, result.output, result.exception)


def test_people_grade_a_pool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    section = _PAGE.read_text().split("## Grades of people")[1]
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
