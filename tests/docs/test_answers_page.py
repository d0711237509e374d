"""docs/answers.md: its code and its commands end as it says, and it names every check and kind."""

import json
import re
import shlex
import sys
from pathlib import Path

import pytest
from tests.docs.page_commands import section
from typer.testing import CliRunner

from assay.answers.answer_metrics import ANSWER_METRICS, OUTCOME_METRICS, POISON_METRICS
from assay.answers.checks import check_lists
from assay.answers.outcome import Outcome
from assay.answers.poison_documents import PoisonKind, PoisonOutcome
from assay.cli.app import app
from assay.cli.old_options import current_spelling

PAGE = (
    section("answers.md").partition("\n## Criteria")[0]
    + section("logs.md").partition("\n## Coming")[0]
)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delenv("RAG_EVAL_PROVIDER", raising=False)
    return tmp_path


def block(language: str, begins: str) -> str:
    (found,) = re.findall(rf"```{language}\n({re.escape(begins)}.*?)```", PAGE, flags=re.DOTALL)
    return str(found)


def test_the_page_names_every_check_outcome_kind_and_figure() -> None:
    named = set(re.findall(r"`([a-z_-]+)`", PAGE))
    checks = {check.id for checks in check_lists() for check in checks}
    figures = {*ANSWER_METRICS, *OUTCOME_METRICS, *POISON_METRICS}
    assert {*checks, *figures, *Outcome, *PoisonKind, *PoisonOutcome} <= named


def test_the_code_prints_what_its_comments_say(capsys: pytest.CaptureFixture[str]) -> None:
    exec(block("python", "import assay\n\nscored"), {})
    assert capsys.readouterr().out.splitlines() == ["0.0", "number 8 hours 3 hours"]


def test_rows_of_every_form_are_scored() -> None:
    row = {"question": "How long?", "answer": "3 minutes.", "contexts": ["Steep it 3 minutes."]}
    Path("answers.jsonl").write_text(json.dumps(row))
    Path("export.csv").write_text(
        "prompt,completion,chunks\nHow long?,3 minutes.,\"['3 minutes']\""
    )
    Path("traces.json").write_text(block("json", "{"))
    exec(block("python", "import json"), {})
    commands = re.findall(r"^assay score .*$", PAGE, flags=re.MULTILINE)
    assert len(commands) == 5
    for command in commands:
        result = CliRunner().invoke(app, shlex.split(command)[1:])
        assert result.exit_code == 0, (command, result.output)
        assert "faithfulness" in result.stdout
    assert "“8 minutes” for “3 minutes”" in " ".join(result.stdout.split())


def test_planted_documents_end_as_the_page_says(monkeypatch: pytest.MonkeyPatch) -> None:
    builtin, own = re.findall(r"^assay eval .* --poison .*$", PAGE, flags=re.MULTILINE)
    words = current_spelling(shlex.split(builtin)[1:])
    assert CliRunner().invoke(app, words).exit_code == 1
    Path("my_rag.py").write_text(block("python", "# my_rag.py"))
    monkeypatch.delitem(sys.modules, "my_rag", raising=False)
    done = CliRunner().invoke(app, current_spelling(shlex.split(own)[1:]))
    assert done.exit_code == 0, done.output
    (verdict,) = re.findall(r"`(gate passed: [^`]*)`", PAGE)
    assert verdict in done.stderr
