"""Evaluation from Python: the same runs and folders as the command line's."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

from assay.agents import Agent, PythonAgent, open_target
from assay.data import Dataset, load_dataset
from assay.evaluate.comparison import Comparison, compare_reports
from assay.evaluate.evaluation import Evaluation, Outcome
from assay.evaluate.plan import RunConfig
from assay.evaluate.run_folder import RunFolder


def evaluate_agent(
    target: str | Callable[..., Any],
    dataset: str | Path | Dataset = "nfcorpus",
    *,
    out: str | Path = "runs",
    **settings: Any,
) -> Outcome:
    """Evaluate a target, or a function `f(query, top_k) -> ids`, and keep the run under `out`.

    `settings` are the fields of RunConfig: split, num_queries, seed, top_k, concurrency, timeout,
    retries, gates, track. Inside a running event loop, await `Evaluation.start` instead.
    """
    data = dataset if isinstance(dataset, Dataset) else load_dataset(dataset)
    where = data.name if isinstance(dataset, Dataset) else str(dataset)
    config = RunConfig(target=_name(target), dataset=where, **settings)
    evaluation = Evaluation.plan(config, data)
    agent: Agent
    if callable(target):
        agent = PythonAgent(target, name=config.target, track=config.track)
    else:
        agent = open_target(target, data, track=config.track)
    return asyncio.run(evaluation.start(agent, Path(out)))


def compare_runs(run_a: str | Path | Outcome, run_b: str | Path | Outcome) -> Comparison:
    """Compare run B with run A: what `evaluate_agent` returned, or the paths of their folders."""
    return compare_reports(_folder(run_a).read_report(), _folder(run_b).read_report())


def _folder(run: str | Path | Outcome) -> RunFolder:
    return run.folder if isinstance(run, Outcome) else RunFolder(Path(run))


def _name(target: str | Callable[..., Any]) -> str:
    if isinstance(target, str):
        return target
    name = getattr(target, "__qualname__", type(target).__qualname__)
    return f"python:{getattr(target, '__module__', '?')}:{name}"
