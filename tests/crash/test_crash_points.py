"""A command that is broken off at any step, and run again, ends as if nothing had happened.

All points with `make crash`; here a third of those of an evaluation, and a share of the others.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.crash.scenarios import SCENARIOS

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="forks, and reads /proc")

# One of so many points in a run of the tests; a prime, so that the ways to fail take turns.
EVERY = {"eval": 3, "resume": 7, "baseline": 23, "answers": 47, "index": 47, "ingest": 47}
EVERY |= {"tune": 23, "judge": 23, "merge": 23, "import": 7, "sample": 7}
ROOT = Path(__file__).parents[2]


@pytest.mark.slow
@pytest.mark.timeout(600)  # a busy machine; each takes seconds of processor time
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_it_can_be_broken_off_anywhere(scenario: str) -> None:
    every = "1" if os.environ.get("ASSAY_CRASH") == "all" else str(EVERY[scenario])
    command = [sys.executable, "-m", "tests.crash.points", scenario, "--every", every, "--json"]
    path = os.pathsep.join([str(ROOT), *sys.path])
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True
    )
    assert done.stdout, done.stderr
    result = json.loads(done.stdout)
    print(f"{scenario}: {len(result['steps'])} steps, {result['points']} points")
    assert result["problems"] == []
    assert result["points"] > 5
