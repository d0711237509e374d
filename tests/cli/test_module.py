"""`python -m assay` is the command line."""

import subprocess
import sys
from importlib.metadata import version
from unittest.mock import Mock

import pytest

from assay.cli.app import main


def test_the_package_runs_as_a_module() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "assay", "--version"], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == version("agent-assay")


def test_too_little_memory_is_a_message(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("assay.cli.app.app", Mock(side_effect=MemoryError))
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 2
    assert "error: not enough memory" in capsys.readouterr().err
