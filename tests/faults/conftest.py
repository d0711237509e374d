from collections.abc import Iterator

import pytest
from tests.faults.bad_agent import BadAgent, bad_agent

SIZE = 4


@pytest.fixture(scope="session")
def serving() -> Iterator[BadAgent]:
    with bad_agent() as agent:
        yield agent


@pytest.fixture
def bad(serving: BadAgent) -> BadAgent:
    serving.asked.clear()
    serving.sent = serving.trapped = 0
    return serving
