"""docs/questions.md: its commands run as they stand there, and its gate ends as it says."""

import re
import shlex
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from assay.cli.app import app
from assay.evaluation.run import load_run
from assay.labels.questions.made_questions import QuestionKind

PAGE = (Path(__file__).parents[2] / "docs" / "questions.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^assay (?:data|eval) .*$", PAGE, flags=re.MULTILINE)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("ASSAY_CACHE", str(tmp_path / "cache"))
    (code,) = re.findall(r"```python\n# search_service.py.*?\n(.*?)```", PAGE, flags=re.DOTALL)
    Path("search_service.py").write_text(code)
    monkeypatch.delitem(sys.modules, "search_service", raising=False)


def run(command: str) -> str:
    done = CliRunner().invoke(app, shlex.split(command)[1:])
    assert done.exit_code == 0, done.output
    return done.stderr


def test_questions_are_made_and_evaluated() -> None:
    make, evaluate, *_ = COMMANDS
    run(make)
    run(evaluate)
    report = load_run("latest").report
    assert report.dataset.name == "made"
    assert report.metrics["hit@5"] > 0.8


def test_the_gate_ends_as_the_page_says_and_notices_a_broken_index() -> None:
    *_, make, evaluate = COMMANDS
    run(make)
    (verdict,) = re.findall(r"```text\n(.*?)\n```", PAGE, flags=re.DOTALL)
    assert verdict in run(evaluate)
    whole = Path("search_service.py").read_text()
    half = re.sub(r"Bm25Index\((.*)\)\n", r"Bm25Index(list(\1)[::2])\n", whole)
    assert half != whole
    Path("broken_service.py").write_text(half)
    command = evaluate.replace("search_service", "broken_service")
    assert CliRunner().invoke(app, shlex.split(command)[1:]).exit_code == 1


def test_every_kind_is_on_the_page() -> None:
    assert set(QuestionKind) <= set(re.findall(r"^\| `([a-z-]+)`", PAGE, flags=re.MULTILINE))
