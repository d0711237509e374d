"""Figures that say something else than they seem to: whoever reads them is told."""

import asyncio
import random
import warnings
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.evaluation.evaluating import number

import assay
from assay.data import Dataset
from assay.data.dataset import Document, Query
from assay.evaluation.evaluation import Evaluation
from assay.run.config import RunConfig
from assay.targets import AgentAnswer, AgentInfo

COUNT = 60
Find = Callable[[str, int], list[str]]


@pytest.fixture(scope="module")
def dataset() -> Dataset:
    """One relevant document for each query, and as many that are not."""
    documents = {f"d{n}": Document(f"d{n}", "", f"text {n}") for n in range(2 * COUNT)}
    queries = {f"q{n}": Query(f"q{n}", f"query {n}") for n in range(COUNT)}
    judgments = {f"q{n}": {f"d{n}": 1} for n in range(COUNT)}
    return Dataset("tiny", documents, queries, {"test": judgments})


def told(find: Find, dataset: Dataset, out: Path, **settings: Any) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assay.evaluate(find, dataset, out=out, **{"top_k": 2, **settings})
    assert {each.category for each in caught} <= {assay.SanityWarning}
    return [str(each.message) for each in caught]


def right(query: str, top_k: int) -> list[str]:
    return [f"d{number(query)}", f"d{number(query) + COUNT}"]


def of_topic(query: str, top_k: int) -> list[str]:
    """The right document second, where queries of one topic are neighbors."""
    return [f"d{(number(query) + 1) % COUNT}", f"d{number(query)}"]


def chance(query: str, top_k: int) -> list[str]:
    drawn = random.Random(number(query))
    return [f"d{each}" for each in drawn.sample(range(COUNT), 2)]


def swapped(query: str, top_k: int) -> list[str]:
    n = number(query) + (random.Random(number(query)).random() < 0.3)
    return [f"d{n}", f"d{number(query) + COUNT}"]


@pytest.mark.parametrize(
    "find", [right, chance, of_topic, lambda query, top_k: right(query, top_k)[::-1]]
)
def test_a_good_or_bad_agent_gets_no_warning(find: Find, dataset: Dataset, tmp_path: Path) -> None:
    assert told(find, dataset, tmp_path) == []


def test_all_documents_of_a_small_data_set_are_no_sign(dataset: Dataset, tmp_path: Path) -> None:
    few = {name: dataset.documents[name] for name in ("d1", "d2")}
    judgments = {f"q{n}": {"d1": 1} for n in range(COUNT)}
    small = Dataset("small", few, dataset.queries, {"test": judgments})
    assert told(lambda query, top_k: ["d1", "d2"], small, tmp_path) == []


@pytest.mark.parametrize(
    ("find", "words"),
    [
        (lambda query, top_k: [], "no answer holds a document id"),
        (swapped, "answers match a neighboring query and not their own"),
        (lambda query, top_k: ["d1", "d2"], "all 60 answers are the same list of documents: "),
        (lambda query, top_k: [f"x{number(query)}"] * 2, "all returned ids are unknown to 'tiny'"),
        (
            lambda query, top_k: right(query, top_k)[:1],
            "every answer has exactly 1 document, top_k is 2: ",
        ),
    ],
)
def test_what_the_command_line_says_is_a_warning_in_python(
    find: Find, words: str, dataset: Dataset, tmp_path: Path
) -> None:
    (said,) = told(find, dataset, tmp_path, concurrency=1)
    assert words in said


@pytest.mark.parametrize(
    ("place", "scores", "words"),
    [
        (0, (0.9, 0.4, 0.1), []),
        (0, (0.1, 0.4, 0.9), []),  # distances
        (2, (0.1, 0.4, 0.9), ["is the list upside down?"]),
        (1, (0.1, 0.9, 0.4), ["contradict the order of their documents"]),
    ],
)
def test_scores_that_contradict_the_order_are_told(
    place: int, scores: tuple[float, ...], words: list[str], dataset: Dataset, tmp_path: Path
) -> None:
    async def nothing() -> None: ...

    async def ask(query: str, top_k: int) -> AgentAnswer:
        ids = [f"d{COUNT + (number(query) + each) % COUNT}" for each in range(3)]
        ids[place] = f"d{number(query)}"
        return AgentAnswer(tuple(ids), scores=scores)

    info = AgentInfo("scored", "test")
    agent: Any = SimpleNamespace(info=info, open=nothing, ask=ask, close=nothing)
    plan = Evaluation.plan(RunConfig("scored", top_k=3), dataset)
    said = asyncio.run(plan.start(agent, tmp_path)).report.warnings
    assert len(said) == len(words)
    assert all(each in line for each, line in zip(words, said, strict=True))


def test_remarks_can_be_ignored_where_warnings_are_errors(dataset: Dataset, tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", assay.SanityWarning)
        run = assay.evaluate(lambda query, top_k: ["d1", "d2"], dataset, out=tmp_path, top_k=2)
    assert run.exit_code == 0
