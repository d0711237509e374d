"""docs/answers.md, criteria: its files, code and labels work, and its options exist."""

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from tests.docs.page_commands import section
from typer.testing import CliRunner

from assay.answers.criteria import read_criteria
from assay.cli.app import app

PAGE = section("answers.md", "Criteria and preferences")
CRITERIA = re.findall(r"```markdown\n(.*?)```", PAGE, flags=re.DOTALL)


def test_the_criteria_of_the_page_are_valid_files(tmp_path: Path) -> None:
    for number, written in enumerate(CRITERIA):
        (tmp_path / f"{number}.md").write_text(written)
    tone, depth = read_criteria(tmp_path)
    assert (tone.name, tone.levels) == ("tone", ("NO", "YES"))
    assert (depth.name, depth.levels) == ("depth", ("1", "2", "3", "4", "5"))


def test_the_code_rates_a_run_on_notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    code, preferring = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
    names: dict[str, Any] = {"__name__": "example"}
    exec(code, names)
    assert names["run"].gates_passed
    assert names["run"].report.answers.metrics["criterion.tone"] == 1.0
    assert next(names["run"].answers()).reasons == {"criterion.tone": "It begins with Gladly."}
    exec(preferring, names)
    assert names["compared"].preference.wins_b > names["compared"].preference.wins_a == 0


def test_the_labels_are_calibrated(tmp_path: Path) -> None:
    (lines,) = re.findall(r"```json\n(.*?)```", PAGE, flags=re.DOTALL)
    (tmp_path / "labels.jsonl").write_text(lines)
    (tmp_path / "depth.md").write_text(CRITERIA[1])
    words = [str(tmp_path / "labels.jsonl"), "--criterion", str(tmp_path / "depth.md")]
    done = CliRunner().invoke(app, ["judge", "calibrate", *words])
    assert done.exit_code == 0, done.output
    assert "weighted kappa" in done.output


def test_the_options_of_the_commands_exist() -> None:
    joined = PAGE.replace("\\\n", " ")
    for command in re.findall(r"^assay .*$", joined, flags=re.MULTILINE):
        words = shlex.split(command)
        shown = CliRunner(env={"COLUMNS": "200"}).invoke(app, [words[1], "--help"]).output
        for flag in (word for word in words if word.startswith("--")):
            assert flag in shown, (flag, command)
