"""docs/logged-answers.md: its code runs, and so do its commands on files of that form."""

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from assay.cli.score import score_command

PAGE = (Path(__file__).parents[2] / "docs" / "logged-answers.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^assay score .*$", PAGE, flags=re.MULTILINE)
CODE = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)

app = typer.Typer()
app.command("score")(score_command)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RAG_EVAL_PROVIDER", raising=False)
    row = {"question": "How long?", "answer": "3 minutes.", "contexts": ["Steep it 3 minutes."]}
    Path("answers.jsonl").write_text(json.dumps(row))
    Path("export.csv").write_text(
        "prompt,completion,chunks\nHow long?,3 minutes.,\"['3 minutes']\""
    )
    return tmp_path


def test_the_code_runs_and_its_wrong_number_lowers_faithfulness(folder: Path) -> None:
    names: dict[str, Any] = {}
    exec(CODE[0], names)
    assert names["scored"].rows()[2].score("faithfulness") == 0
    assert names["scored"].rows()[0].score("faithfulness") > 0
    assert len((folder / "samples.jsonl").read_text().splitlines()) == 3


def test_the_commands_run(folder: Path) -> None:
    assert len(COMMANDS) == 5
    exec(CODE[0], {})
    (spans,) = re.findall(r"```json\n(.*?)```", PAGE, flags=re.DOTALL)
    Path("traces.json").write_text(spans)
    for command in COMMANDS:
        result = CliRunner().invoke(app, shlex.split(command)[2:])
        assert result.exit_code == 0, (command, result.output)
        assert "faithfulness" in result.stdout
    assert "'8', where the source has '3'" in " ".join(result.stdout.split())
