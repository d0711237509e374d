"""Evaluation from Python: the same runs and folders as the command line's."""

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from assay.agents.protocol import Agent
from assay.agents.targets import as_agent, open_target
from assay.data import Dataset, load_dataset
from assay.errors import UsageError
from assay.evaluation.comparison import Comparison, compare_reports
from assay.evaluation.evaluation import Evaluation, Outcome
from assay.evaluation.plan import RunConfig
from assay.evaluation.run_folder import RunFolder

if TYPE_CHECKING:
    from assay.answer.providers.provider import LLMProvider


def evaluate_agent(
    target: str | Callable[..., Any] | Agent,
    dataset: str | Path | Dataset = "nfcorpus",
    *,
    out: str | Path = "runs",
    judge: "str | LLMProvider" = "",
    **settings: Any,
) -> Outcome:
    """Evaluate a target, a function `f(query, top_k) -> ids` or an object with the methods of
    `Agent`, and keep the run under `out`.

    `settings` are the fields of RunConfig: split, num_queries, seed, top_k, concurrency, timeout,
    retries, gates, track; with `answers=True` also counterfactuals and judge_votes, and `judge` as
    the command line names one, or any object that can generate text. It also works where an event
    loop is running, as in a notebook.
    """
    data = dataset if isinstance(dataset, Dataset) else load_dataset(dataset)
    where = data.name if isinstance(dataset, Dataset) else str(dataset)
    settings["judge"] = judge if isinstance(judge, str) else judge.name
    agent: Agent | None = None
    if not isinstance(target, str):
        agent = as_agent(target, track=settings.get("track", "undeclared"))
    config = _config(str(target) if agent is None else agent.info.name, where, settings)
    evaluation = Evaluation.plan(config, data)
    if not isinstance(judge, str):
        evaluation = replace(evaluation, provider=judge)
    if agent is None:
        agent = open_target(config.target, data, track=config.track, answers=config.answers)
    return _run(evaluation.start(agent, Path(out)))


def _config(target: str, dataset: str, settings: dict[str, Any]) -> RunConfig:
    known = {field.name for field in fields(RunConfig)} - {"target", "dataset"}
    for name in settings:
        if name not in known:
            raise UsageError(f"there is no setting {name!r}; there is: {', '.join(sorted(known))}")
    return RunConfig(target=target, dataset=dataset, **settings)


def _run(evaluation: Coroutine[Any, Any, Outcome]) -> Outcome:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(evaluation)
    with ThreadPoolExecutor(1) as beside:  # a loop cannot be entered twice in one thread
        return beside.submit(asyncio.run, evaluation).result()


def compare_runs(run_a: str | Path | Outcome, run_b: str | Path | Outcome) -> Comparison:
    """Compare run B with run A: what `evaluate_agent` returned, or the paths of their folders."""
    return compare_reports(_folder(run_a).read_report(), _folder(run_b).read_report())


def _folder(run: str | Path | Outcome) -> RunFolder:
    return run.folder if isinstance(run, Outcome) else RunFolder(Path(run))
