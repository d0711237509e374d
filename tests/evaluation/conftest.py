"""A small town whose documents answer most questions about it."""

import pytest

from assay.data import Dataset, Document, Query
from assay.data.dataset import Fact, ReferenceAnswer


@pytest.fixture
def town() -> Dataset:
    """Two questions with an answer (the second needs two documents) and one without."""
    return Dataset(
        name="town",
        documents={
            "pool": Document("pool", "Pool", "The pool opens at 7:00."),
            "bus": Document("bus", "Bus", "Bus 4 goes to the pool."),
            "fare": Document("fare", "Fare", "A ride on bus 4 costs 2.80 euros."),
            "zoo": Document("zoo", "Zoo", "The zoo has a pool for otters."),
        },
        queries={
            "open": Query("open", "When does the pool open?"),
            "ride": Query("ride", "What does the ride to the pool cost?"),
            "mayor": Query("mayor", "Who is the mayor?"),
        },
        judgments={"test": {"open": {"pool": 2}, "ride": {"bus": 1, "fare": 2}}},
        answers={
            "open": ReferenceAnswer("open", "At 7:00.", (Fact("7:00", ("7:00",)),), ("pool",)),
            "ride": ReferenceAnswer(
                "ride", "2.80 euros by bus 4.", (Fact("2.80", ("2.80",)),), ("bus", "fare")
            ),
            "mayor": ReferenceAnswer("mayor", None),
        },
    )
