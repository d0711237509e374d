"""What a Python function may return: frames, series, scores, pairs; and what is swapped."""

import asyncio
from typing import Any

import numpy as np
import pandas as pd
import pytest

from assay.errors import AgentFailure, UsageError
from assay.targets.python_call import PythonAgent


def ids(value: Any) -> tuple[str, ...]:
    agent = PythonAgent(lambda query, top_k: value, name="x")

    async def ask() -> tuple[str, ...]:
        try:
            return (await agent.ask("q", 5)).doc_ids
        finally:
            await agent.close()

    return asyncio.run(ask())


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ([("a", 0.9), ("b", 0.5)], ("a", "b")),
        ([(7, 0.9), (3, 0.5)], ("7", "3")),
        ([7, np.int64(3)], ("7", "3")),
        (np.array([7, 3]), ("7", "3")),
        ({"a": 0.1, "b": 0.9}, ("b", "a")),
        ({7: 1, 3: 2}, ("3", "7")),
        ([], ()),
        ([np.str_("a")], ("a",)),
    ],
    ids=str,
)
def test_it_is_understood(value: Any, expected: tuple[str, ...]) -> None:
    assert ids(value) == expected
    assert {type(each) for each in ids(value)} <= {str}


@pytest.mark.parametrize(
    ("value", "remedy"),
    [
        (pd.DataFrame({"doc_id": ["a"]}), "is a DataFrame, not a list of document ids"),
        ([(0.9, "a")], r"pairs are \(id, score\)"),
        ([1.0, 2.0], r"is a float, not a string"),
        ([{"name": "a"}], r"is a dict, not a string"),
        ({"a": "b"}, r"a dictionary without 'doc_ids'"),
        ("a", r"is a str, not a list of document ids"),
        (None, r"return \[\] if nothing is found"),
        ({"a", "b"}, r"is a set, not a list"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_it_is_refused_with_the_remedy(value: Any, remedy: str) -> None:
    with pytest.raises(AgentFailure, match=remedy):
        ids(value)


def test_a_function_that_cannot_be_called_is_refused_before_the_run() -> None:
    with pytest.raises(UsageError, match=r"f\(query, top_k\), and <lambda>\(query\) cannot be"):
        PythonAgent(lambda query: ["a"], name="one")
    with pytest.raises(UsageError, match="missing a required argument: 'user'"):
        PythonAgent(lambda query, top_k, user: ["a"], name="three")
    PythonAgent(lambda query, top_k=5, **more: ["a"], name="two")
