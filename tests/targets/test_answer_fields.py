"""The plain form of an answer, and its steps and usage in the answers of every kind of target."""

from typing import Any

import pytest
from tests.targets.every_kind import KINDS, Service, ask

from assay.errors import AgentFailure
from assay.steps import MAX_STEPS, AnswerUsage, SearchStep
from assay.targets.answer_reader import MAX_STEP_IDS, MAX_STEP_QUERY, find_steps, find_usage
from assay.targets.chunks import ChunkResolver
from assay.targets.protocol import AgentAnswer
from assay.targets.python_call import PythonAgent

STEPS = [
    {"tool": "find", "query": "coffee", "doc_ids": ["d1", "d2"], "scores": [2, 1.5], "ms": 12},
    {"query": "sleep", "doc_ids": ["d3"]},
]
READ = (
    SearchStep("find", "coffee", ("d1", "d2"), (2.0, 1.5), 12.0),
    SearchStep("search", "sleep", ("d3",)),
)
USAGE = {"input_tokens": 120.0, "output_tokens": 7, "cost_usd": 0.002}


@pytest.mark.parametrize("kind", KINDS)
async def test_steps_and_usage_of_every_kind(kind: str) -> None:
    service = Service({"doc_ids": ["d1"], "answer": "Yes.", "steps": STEPS, "usage": USAGE})
    answer = await ask(service, kind)
    assert answer.doc_ids == ("d1",)
    assert answer.steps == READ
    assert answer.usage is not None
    assert (answer.usage.input_tokens, answer.usage.output_tokens) == (120, 7)


@pytest.mark.parametrize(
    "value",
    [
        {"doc_ids": ["d1"], "steps": STEPS, "usage": USAGE},
        AgentAnswer(("d1",), steps=READ, usage=AnswerUsage(120, 7, 0.002)),
    ],
)
async def test_steps_and_usage_of_a_function(value: Any) -> None:
    answer = await PythonAgent(lambda _query, _top_k: value, name="f").ask("q", 5)
    assert (answer.steps, answer.usage) == (READ, AnswerUsage(120, 7, 0.002))
    assert answer.unknown_keys == ()


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        ({"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7}, AnswerUsage(5, 2)),
        ({"input_tokens": 0}, AnswerUsage(0)),
        ({"input_tokens": -1, "output_tokens": "9", "cost_usd": True}, None),
    ],
)
def test_usage(usage: Any, expected: AnswerUsage | None) -> None:
    assert find_usage({"usage": usage}) == expected


def test_a_step_without_ids_that_can_be_read_is_refused() -> None:
    with pytest.raises(AgentFailure, match=r"'steps', position 0: 'doc_ids', position 0: .* float"):
        find_steps({"steps": [{"doc_ids": [1.5]}]})


def test_steps_are_bounded() -> None:
    long = {"tool": "t" * 10**6, "query": "q" * 10**6}
    long |= {"doc_ids": ["d"] * 5000, "scores": [1] * 5000}  # type: ignore[dict-item]
    steps = find_steps({"steps": [long] * 2000})
    assert len(steps) == MAX_STEPS
    assert len(steps[0].doc_ids) == len(steps[0].scores) == MAX_STEP_IDS
    assert (len(steps[0].query), len(steps[0].tool)) == (MAX_STEP_QUERY, 200)


def test_chunks_in_steps_are_documents() -> None:
    step = SearchStep("find", "q", ("a#1", "a#2", "b#1"), (3.0, 2.0, 1.0))
    answer = ChunkResolver("#", {}).resolve(AgentAnswer((), steps=(step,)))
    assert answer.steps == (SearchStep("find", "q", ("a", "b")),)
