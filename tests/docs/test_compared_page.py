"""docs/start.md: the commands that show Assay's column run, with a scripted judge."""

import json
import re
import shlex
from pathlib import Path

import pytest
from tests.cli.test_judge_grade import reply as grade
from tests.docs.page_commands import section
from tests.judge_controls import control_reply
from tests.llm_providers.model_server import ModelServer
from typer.testing import CliRunner

from assay.cli.app import app

DOCS = Path(__file__).parents[2] / "docs"
COMMANDS = re.findall(
    r"\| `(assay .+)` \|$",
    section("start.md", "Compared with other evaluators"),
    flags=re.MULTILINE,
)


def judge(prompt: str) -> str:
    """Right about answers: one is right, or better, if it is the reference word for word."""
    if prompt.startswith("Grade"):
        return grade(prompt)
    said = re.findall(r"<answer \w+>\s*([^<]*)", prompt)
    if prompt.startswith("Choose"):
        reference, first, second = said
        return "FIRST" if first == reference else "SECOND" if second == reference else "TIE"
    if "TRUE or FALSE" in prompt:
        return "TRUE" if len(set(said)) < 2 else "FALSE"
    return control_reply(prompt) or "YES"


def block(page: str, language: str) -> str:
    """The first block of a page in a language."""
    text = (DOCS / page).read_text(encoding="utf-8")
    return text.split(f"```{language}\n")[1].split("```")[0]


def test_the_commands_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ASSAY_CACHE", str(tmp_path / "cache"))
    rows = [
        {
            "question": f"How long does tea {n} steep?",
            "answer": f"{n} minutes.",
            "reference": f"{n} minutes.",
            "contexts": [f"Tea {n} steeps for {n} minutes."],
        }
        for n in range(30)
    ]
    wrong = [{**row, "answer": "Until noon.", "label": False} for row in rows[:10]]
    labels = [*wrong, *({**row, "label": True} for row in rows[10:])]
    Path("answers.jsonl").write_text("\n".join(map(json.dumps, rows)))
    Path("labels.jsonl").write_text("\n".join(map(json.dumps, labels)))
    Path("tone.md").write_text(block("answers.md", "markdown"))
    Path("traces.json").write_text(block("logs.md", "json"))
    assert len(COMMANDS) > 8
    with ModelServer().running() as server:
        server.reply = judge
        monkeypatch.setenv("RAG_EVAL_OPENAI_BASE_URL", server.url)
        for command in COMMANDS:
            done = CliRunner().invoke(app, shlex.split(command)[1:])
            assert done.exit_code == 0, (command, done.output, done.exception)
