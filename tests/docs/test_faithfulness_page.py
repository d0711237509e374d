"""docs/faithfulness.md: its code prints what its comments say; its figures were measured."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "faithfulness.md").read_text(encoding="utf-8")


def test_the_code_prints_what_its_comments_say(capsys: pytest.CaptureFixture[str]) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
    exec(code, {})
    assert capsys.readouterr().out.splitlines() == ["0.0", "opposite lowered raised"]


def test_the_figures_are_those_of_the_benchmark() -> None:
    measured = (ROOT / "benchmarks" / "README.md").read_text(encoding="utf-8")
    figures = re.findall(r"\d\.\d{3}", PAGE)
    assert len(figures) > 30
    assert [each for each in figures if each not in measured] == []
