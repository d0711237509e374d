"""docs/ci.md: its commands run, in their order, in one folder."""

import re
import shlex
from pathlib import Path

import pytest
from tests.docs.page_commands import section
from typer.testing import CliRunner

from assay.cli.app import app
from assay.cli.init import render_ci

PAGE = (
    section("runs.md", "Label and find runs")
    + section("runs.md", "Export results")
    + section("ci.md").partition("\n## Gates")[2]
)
BLOCKS = re.findall(r"```sh\n(.*?)```", PAGE, flags=re.DOTALL)
COMMANDS = [line for block in BLOCKS for line in block.splitlines() if line.startswith("assay ")]


def test_the_commands_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert len(COMMANDS) == 12
    shown, said = {}, list[str]()
    for command in COMMANDS:
        result = CliRunner().invoke(app, shlex.split(command)[1:])
        assert result.exit_code == 0, (command, result.output)
        shown[command] = result.stdout
        said += result.stderr.splitlines()
    (verdict,) = re.findall(r"^gate passed: .*$", PAGE, flags=re.MULTILINE)
    assert verdict in said
    assert shown["assay runs --label bm25 --json"].count('"run": ') == 1


def test_the_job_is_the_one_that_init_writes() -> None:
    install = "pip install agent-assay -r requirements.txt"
    job = render_ci("github", branch="main", python="3.12", install=install, service=False)
    assert f"```yaml\n{job}```" in PAGE
