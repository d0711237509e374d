from collections.abc import Iterator

import pytest
from tests.faults.bad_agent import BadAgent, bad_agent

from assay.data import Dataset, Document, Query

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


def tiny(size: int) -> Dataset:
    """Query i has documents d{i} (grade 2) and d{i+1} (grade 1) of size + 1."""
    return Dataset(
        name="tiny",
        documents={f"d{i}": Document(f"d{i}", "", f"text {i}") for i in range(size + 1)},
        queries={f"q{i}": Query(f"q{i}", f"query {i}") for i in range(size)},
        judgments={"test": {f"q{i}": {f"d{i}": 2, f"d{i + 1}": 1} for i in range(size)}},
    )
