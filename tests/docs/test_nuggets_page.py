"""docs/answers.md, nuggets: its commands and its code run, and print what the page says."""

import contextlib
import io
import re
import shlex
from pathlib import Path

import pytest
from tests.docs.page_commands import section
from tests.llm_providers.model_server import ModelServer
from typer.testing import CliRunner

from assay.answers.references import read_references
from assay.cli.app import app

PAGE = section("answers.md", "Nuggets")
COMMANDS = re.findall(r"^assay (?:ground-truth|eval) .*$", PAGE, flags=re.MULTILINE)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RAG_EVAL_PROVIDER", raising=False)


def test_the_commands_run() -> None:
    assert len(COMMANDS) == 2
    drawn, evaluated = (CliRunner().invoke(app, shlex.split(command)[1:]) for command in COMMANDS)
    assert "nobody decided which are vital" in drawn.stderr
    assert evaluated.exit_code == 0, evaluated.output
    assert "extracted without a model" in " ".join(evaluated.stdout.split())
    assert drawn.exit_code == 0, drawn.output
    assert len(read_references(Path("nuggets.jsonl"))) == 20


def test_labels_of_the_page_calibrate_the_rules_and_a_judge(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ASSAY_CACHE", str(tmp_path / "cache"))
    lines = re.findall(r'^\{"question".*$', PAGE, flags=re.MULTILINE)
    Path("labels.jsonl").write_text("\n".join(lines))
    rules, judge = re.findall(r"^assay judge .*$", PAGE, flags=re.MULTILINE)
    result = CliRunner().invoke(app, shlex.split(rules)[1:])
    assert "same label 1.0000" in " ".join(result.stdout.split()), result.output
    with ModelServer().running() as server:
        server.reply = lambda prompt: '["support"]' if "opens at 7:00" in prompt else '["none"]'
        monkeypatch.setenv("RAG_EVAL_OPENAI_BASE_URL", server.url)
        result = CliRunner().invoke(app, shlex.split(judge)[1:])
    assert "same label 1.0000" in " ".join(result.stdout.split()), result.output
    assert Path("calibration.jsonl").exists()


def test_the_code_prints_what_the_page_says() -> None:
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
    (text,) = re.findall(r"```text\n(.*?)```", PAGE, flags=re.DOTALL)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(code, {})
    assert printed.getvalue() == text
