"""docs/findings.md: its example ends as it says, and it names every kind of finding."""

import re
import sys
from pathlib import Path

import pytest

from assay.answers.findings import FINDING_KINDS
from assay.evaluation.api import evaluate

PAGE = (Path(__file__).parents[2] / "docs" / "findings.md").read_text(encoding="utf-8")


def test_the_example_ends_with_the_sentence_of_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (code,) = re.findall(r"```python\n# my_rag.py\n(.*?)```", PAGE, flags=re.DOTALL)
    (sentence,) = re.findall(r"```text\n(.*?)\n```", PAGE, flags=re.DOTALL)
    (tmp_path / "my_rag.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "my_rag", raising=False)
    run = evaluate("python:my_rag:answer", "notes", out=tmp_path / "runs", answers=True)
    assert run.report.answers is not None
    assert run.report.answers.diagnosis is not None
    assert run.report.answers.diagnosis.sentence == sentence


def test_every_kind_of_finding_is_on_the_page() -> None:
    listed = set(re.findall(r"`([a-z ]+)`", PAGE))
    assert set(FINDING_KINDS) <= listed
