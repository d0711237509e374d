"""A command that is broken off at any step, and run again, ends as if nothing had happened.

All points with `make crash`; here a fifth of those of an evaluation, and a share of the others.
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
EVERY = {"eval": 5, "resume": 7, "baseline": 23, "answers": 47, "index": 47, "ingest": 47}
EVERY |= {"tune": 23, "judge": 23, "merge": 23, "import": 7, "sample": 7, "questions": 29}
EVERY |= {"poison": 43, "rekey": 11, "nuggets": 7, "init": 5}
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
    assert result["points"] > 5
