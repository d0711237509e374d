"""docs/start.md: its commands run in a project, and what they write is used by the next ones."""

import re
import shlex
from pathlib import Path

import pytest
from tests.docs.page_commands import invoke, section
from typer.testing import CliRunner

from assay.cli.app import app

PAGE = section("start.md")
COMMANDS = re.findall(r"^assay .*$", PAGE, flags=re.MULTILINE)


def test_the_commands_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("my_search.py").write_text("def find(query, top_k):\n    return ['a', 'b'][:top_k]\n")
    Path("questions.csv").write_text("query,doc_ids\nwhat is a?,a\nwhat is b?,b\n")
    first, second, *others = COMMANDS
    # The service of the second command is not here: what it writes is looked at, not asked.
    for command in (second, f"{first} --force", *others):
        words = shlex.split(command)[1:]
        result = invoke(words)
        assert result.exit_code == 0, (command, result.output)
        if command == second:
            assert "rest:http://localhost:9200" in Path("assay.toml").read_text()
            assert Path(".gitlab-ci.yml").exists()
    assert 'target = "python:my_search:find"' in Path("assay.toml").read_text()
    assert len(list(Path("runs").iterdir())) == 1


def test_the_message_is_the_one_that_is_printed() -> None:
    result = CliRunner().invoke(app, ["eval", "builtn:bm25", "--dataset", "notes"])
    (shown,) = re.findall(r"^error: (.*) … (.*)$", PAGE, flags=re.MULTILINE)
    assert str(result.exception).startswith(shown[0])
    assert str(result.exception).endswith(shown[1])
