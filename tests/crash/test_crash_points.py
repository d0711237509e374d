"""A command that is broken off at any step, and run again, ends as if nothing had happened.

All points with `make crash`; here some, and every way to fail at the last step.
"""

import json
import os
import sys
from pathlib import Path

import pytest
from tests import forked
from tests.crash.scenarios import SCENARIOS

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="forks, and reads /proc")

# One of so many points in a run of the tests; a prime, so that the ways to fail take turns.
EVERY = {"eval": 13, "resume": 13, "answers": 101, "index": 9, "ingest": 1}
EVERY |= {"tune": 17, "judge": 41, "merge": 23, "import": 11}
ROOT = Path(__file__).parents[2]


@pytest.mark.slow
@pytest.mark.timeout(600)  # a busy machine; each takes seconds of processor time
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_it_can_be_broken_off_anywhere(scenario: str) -> None:
    every = "1" if os.environ.get("ASSAY_CRASH") == "all" else str(EVERY[scenario])
    arguments = (scenario, "--every", every, "--json")
    done = forked.run("tests.crash.points:main", *arguments, cwd=ROOT, timeout=600)
    assert done.stdout, done.stderr
    result = json.loads(done.stdout)
    print(f"{scenario}: {len(result['steps'])} steps, {result['points']} points")
    assert result["problems"] == []
    assert result["points"] > 3
