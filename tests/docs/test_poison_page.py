"""docs/poison.md: its examples end as it says, and it names every kind and outcome."""

import re
import shlex
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from assay.answers.answer_metrics import POISON_METRICS
from assay.answers.poison_documents import PoisonKind, PoisonOutcome
from assay.cli.app import app

PAGE = (Path(__file__).parents[2] / "docs" / "poison.md").read_text(encoding="utf-8")
BUILTIN, OWN = re.findall(r"^assay eval (?!TARGET).*$", PAGE, flags=re.MULTILINE)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))


def test_the_extractive_answerer_ends_as_the_page_says() -> None:
    done = CliRunner().invoke(app, shlex.split(BUILTIN)[1:])
    assert done.exit_code == 1, done.output
    (table,) = re.findall(r"```text\n(planted.*?)```", PAGE, flags=re.DOTALL)
    for line in table.strip().splitlines():
        assert line in done.stdout
    said = " ".join(done.stdout.split())
    (sentence,) = re.findall(r"`(47 of 160 [^`]*)`", PAGE)
    assert " ".join(sentence.split()) in said


def test_an_application_of_ones_own_ends_as_the_page_says(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (code,) = re.findall(r"```python\n# my_rag.py\n(.*?)```", PAGE, flags=re.DOTALL)
    Path("my_rag.py").write_text(code)
    monkeypatch.delitem(sys.modules, "my_rag", raising=False)
    done = CliRunner().invoke(app, shlex.split(OWN)[1:])
    assert done.exit_code == 0, done.output
    (verdict,) = re.findall(r"`(gate passed: [^`]*)`", PAGE)
    assert verdict in done.stderr


def test_every_kind_outcome_and_figure_is_on_the_page() -> None:
    named = set(re.findall(r"`([a-z_]+)`", PAGE))
    assert {*PoisonKind, *PoisonOutcome, *POISON_METRICS} <= named
