"""docs/runs.md: its suite runs as it is shown."""

import json
import re
from pathlib import Path

import pytest
from tests.docs.page_commands import section
from typer.testing import CliRunner

from assay.cli.app import app

_PAGE = section("runs.md", "Whole benchmarks")


def test_the_suite_of_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    found = re.search(r"```toml\n(.*?)```", _PAGE, re.DOTALL)
    assert found is not None
    # BM25 only: what the page shows of dense search is tested where search is.
    Path("mine.toml").write_text(re.sub(r"^dense = .*\n", "", found[1], flags=re.MULTILINE))
    planned = CliRunner().invoke(app, ["bench", "mine.toml", "--dry-run"])
    assert (planned.exit_code, planned.stderr.splitlines()[-1]) == (
        0,
        "4 runs to make, 288 queries to ask",
    )
    made = CliRunner().invoke(app, ["bench", "mine.toml", "--json"])
    assert made.exit_code == 0, made.stderr
    report = json.loads(made.stdout)
    assert report["datasets"] == ["notes", "first-forty"]
    assert [each["name"] for each in report["systems"]] == ["bm25, sequential", "bm25, parallel"]
    assert [each["shared"] for each in report["systems"]] == [True, True]
    again = CliRunner().invoke(app, ["bench", "--resume", "latest"])
    assert again.exit_code == 0
    assert "0 runs to make" in again.stderr
