import functools
import json
from collections.abc import Callable, Iterator

import pytest
from tests import forked
from tests.once import once

SECONDS = 240.0
"""For the whole catalogue in one protocol; what it guards against never ends."""

Outcomes = dict[str, dict[str, object]]


@pytest.fixture(scope="session")
def hostile_url() -> Iterator[str]:
    with forked.started("tests.hostile.server:main") as server:
        yield server.stdout.readline().strip()


def drive(way: str, base: str, *names: str) -> Outcomes:
    done = forked.run("tests.hostile.driver:main", way, base, *names, timeout=SECONDS)
    assert done.returncode == 0, done.stderr[-2000:]
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    outcomes = {line["name"]: line for line in lines if "name" in line}
    return {**outcomes, "memory": lines[-1]}


@pytest.fixture(scope="session")
def outcomes(
    hostile_url: str, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], Outcomes]:

    @functools.cache
    def of(way: str) -> Outcomes:
        made: Outcomes = once(tmp_path_factory, f"hostile-{way}", lambda: drive(way, hostile_url))
        return made

    return of
