"""A run of a Python function, for the tests of evaluations."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

from assay.data import Dataset
from assay.evaluation.evaluation import Evaluation, Events
from assay.evaluation.run import Run
from assay.run.config import RunConfig
from assay.run.folder import RunFolder
from assay.targets import Agent, PythonAgent


def number(query: str) -> int:
    return int(query.split()[1])


def half_right(query: str, top_k: int) -> list[str]:
    """The grade-1 document first for even queries, nothing relevant for odd ones."""
    n = number(query)
    return [f"d{n + 1}", f"d{n}"][:top_k] if n % 2 == 0 else ["d0" if n > 1 else "d9"]


def resume(folder: RunFolder, dataset: Dataset, function: Callable[..., Any] = half_right) -> Run:
    evaluation = Evaluation.plan(folder.read_config(), dataset)
    return asyncio.run(evaluation.resume(PythonAgent(function, name="f"), folder))


def run(
    function: Callable[..., Any],
    dataset: Dataset,
    out: Path,
    *,
    events: Events | None = None,
    **settings: Any,
) -> Run:
    config = RunConfig(target="python:f", dataset=dataset.name, **settings)
    agent: Agent = PythonAgent(function, name="f")
    evaluation = Evaluation.plan(config, dataset)
    return asyncio.run(evaluation.start(agent, out, events))
