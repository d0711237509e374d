import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SECONDS = 240.0
"""For the whole catalogue in one protocol; what it guards against never ends."""

Outcomes = dict[str, dict[str, object]]


@pytest.fixture(scope="session")
def hostile_url() -> Iterator[str]:
    """The server that ships, started as a user starts it."""
    command = [sys.executable, "-m", "assay.cli.serve", "hostile", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            yield server.stdout.readline().strip()
        finally:
            server.terminate()


def drive(way: str, base: str, *names: str) -> Outcomes:
    """The outcomes by misbehavior, met in a process of its own with limited memory."""
    command = [sys.executable, "-m", "tests.hostile.driver", way, base, *names]
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": path},
    )
    assert done.returncode == 0, done.stderr[-2000:]
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    outcomes = {line["name"]: line for line in lines if "name" in line}
    return {**outcomes, "memory": lines[-1]}


@pytest.fixture(scope="session")
def outcomes(hostile_url: str) -> Callable[[str], Outcomes]:
    """The whole catalogue in one protocol; it is met once for each."""
    known: dict[str, Outcomes] = {}

    def of(way: str) -> Outcomes:
        if way not in known:
            known[way] = drive(way, hostile_url)
        return known[way]

    return of
