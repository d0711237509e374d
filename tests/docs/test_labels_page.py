"""docs/labels.md: its commands and its limits."""

import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from assay import evaluate
from assay.cli.app import app
from assay.data.dataset import Dataset
from assay.run import label_fit
from assay.run.label_fit import ENOUGH

PAGE = (Path(__file__).parents[2] / "docs" / "labels.md").read_text(encoding="utf-8")
FLAT = " ".join(PAGE.split())
COMMANDS = re.findall(r"^assay .*$", PAGE, flags=re.MULTILINE)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def invoke(command: str) -> str:
    result = CliRunner().invoke(app, shlex.split(command)[1:], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_the_overlap_command_runs() -> None:
    (command,) = [each for each in COMMANDS if "--overlap" in each]
    data = Dataset.from_dicts({"q1": "x"}, {"q1": ["a"]})
    runs = [evaluate(lambda q, k, found=found: found, data) for found in (["a"], ["b"])]
    named = command.replace("RUN_A", str(runs[0].folder)).replace("RUN_B", str(runs[1].folder))
    assert "Only judgments can tell" in " ".join(invoke(named).split())


def test_the_page_has_the_limits_of_the_code() -> None:
    assert f"lost more than {label_fit.LOST_FROM_CORPUS:.0%} of the judged" in FLAT
    assert f"less than {label_fit.STILL_RETURNED:.0%} come back" in FLAT
    assert f"at least {label_fit.NEW_IDS:.0%} of the ids" in FLAT
    assert f"less than {ENOUGH:.0%} of the first places are judged" in FLAT
    fit = label_fit.fit_of(
        label_fit.LabelCoverage(judged=104, in_corpus=None, returned=98),
        label_fit.LabelCoverage(judged=104, in_corpus=None, returned=0),
        1.0,
        documents_changed=False,
    )
    assert f"T{fit.words[1:]}." in FLAT
