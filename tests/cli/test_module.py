"""`python -m assay` is the command line."""

import subprocess
import sys
from importlib.metadata import version


def test_the_package_runs_as_a_module() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "assay", "--version"], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == version("agent-assay")
