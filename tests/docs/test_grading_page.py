"""docs/labels.md: its commands run against a model server, and its code prints what it says."""

import contextlib
import io
import re
import shlex
from pathlib import Path

import pytest
from tests.cli.test_judge_grade import reply
from tests.docs.page_commands import section
from tests.llm_providers.model_server import ModelServer
from typer.testing import CliRunner

from assay.cli.app import app

PAGE = section("labels.md", "Grading")
MODEL = PAGE.split("## Grades of people")[0]  # the rest is in test_pool_section.py
COMMANDS = re.findall(r"^assay .*$", MODEL, flags=re.MULTILINE)


def test_the_commands_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ASSAY_CACHE", str(tmp_path / "cache"))
    with ModelServer().running() as server:
        server.reply = reply
        monkeypatch.setenv("RAG_EVAL_OPENAI_BASE_URL", server.url)
        results = [CliRunner().invoke(app, shlex.split(each)[1:]) for each in COMMANDS]
    assert [each.exit_code for each in results] == [0, 0, 0], results
    text = re.findall(r"```text\n(.*?)```", PAGE, flags=re.DOTALL)[0]
    assert " ".join(text.split()) in " ".join(results[1].stdout.split())
    assert "model-made judgments" in results[2].stdout


def test_the_code_prints_what_the_page_says() -> None:
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
    text = re.findall(r"```text\n(.*?)```", PAGE, flags=re.DOTALL)[1]
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(code, {"__name__": "example"})
    assert printed.getvalue() == text
