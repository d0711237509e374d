"""docs/runs.md: its listener is told, and without MLflow the message names the extra."""

import re
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from tests.docs.page_commands import invoke, section

PAGE = section("runs.md", "Listeners")
MLFLOW, TEAM = re.findall(r"^assay (eval .*)$", PAGE, flags=re.MULTILINE)


def test_the_listener_of_the_page_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "tell", raising=False)
    (code,) = re.findall(r'```python title="tell.py"\n(.*?)```', PAGE, flags=re.DOTALL)
    (tmp_path / "tell.py").write_text(code)
    result = invoke(TEAM.split())
    assert result.exit_code == 0, result.output
    said = result.output + "".join(capfd.readouterr())
    assert re.search(r"started \d{8}-\d{6}-builtin-bm25", said)
    assert "ended complete 0." in said


def test_without_mlflow_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert find_spec("mlflow") is None, "MLflow has an environment of its own"
    result = invoke(MLFLOW.split())
    assert "pip install 'agent-assay[mlflow]'" in str(result.exception)
    assert not Path("runs").exists()
