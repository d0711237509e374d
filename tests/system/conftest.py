"""The product from outside: tests drive commands, wires and files, and import nothing of ours.

def test_a_gate_fails(assay):
    result = assay("eval", "python:agent:search", "--gate", "ndcg@5>=0.9")
    assert result.returncode == 1
"""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from tests import forked
from tests.system.running import run

Completed = subprocess.CompletedProcess[str]
Assay = Callable[..., Completed]


@pytest.fixture
def assay(tmp_path: Path) -> Assay:
    """Run `assay ARGUMENTS` in `tmp_path` or `cwd`; keywords are variables of its environment."""

    def run(
        *arguments: str, timeout: float = 110, cwd: Path = tmp_path, **variables: str
    ) -> Completed:
        environment = {**os.environ, **variables}
        return forked.run(forked.ASSAY, *arguments, cwd=cwd, env=environment, timeout=timeout)

    return run


@pytest.fixture(scope="session")
def notes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bundled data set as a BEIR folder."""
    folder = tmp_path_factory.mktemp("notes")
    done = run(folder, "data", "import", "notes", "--out", "notes")
    assert done.returncode == 0, done.stderr
    return folder / "notes"
