"""`assay.evaluate`: the same runs and folders as the command line's, from Python."""

import inspect
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from assay.data import Dataset, load_dataset
from assay.errors import SanityWarning, UsageError, did_you_mean
from assay.evaluation.evaluation import Events, run_evaluation
from assay.evaluation.listeners import RunListener
from assay.evaluation.plan import open_agent, require_used_settings
from assay.evaluation.run import Run, no_answers, run_folder
from assay.net.gather import run_coroutine
from assay.privacy import private_mode
from assay.run.config import RunConfig, settings
from assay.targets.protocol import Agent
from assay.targets.python_call import as_agent, python_name

if TYPE_CHECKING:
    from assay.llm.providers.provider import LLMProvider


_WARNING = "warning: "

# A target by name, a function, or an object with a method `ask`, `invoke` or `retrieve`.
TargetLike = str | Callable[..., Any] | object


def evaluate(
    agent: TargetLike,
    dataset: str | Path | Dataset = "nfcorpus",
    *,
    columns: Mapping[str, str] | str | Sequence[str] = (),
    split: str = "test",
    num_queries: int | None = None,
    seed: int = 42,
    top_k: int = 5,
    concurrency: int = 8,
    timeout: float = 60.0,
    retries: int = 3,
    gates: str | Sequence[str] = (),
    baseline: TargetLike | None = None,
    compare_to: str | PathLike[str] | Run = "",
    mapping: str | Sequence[str] = (),
    request: str | Mapping[str, Any] = "",
    headers: str | Sequence[str] = (),
    search: str = "",
    repeat: int = 1,
    answers: bool = False,
    judge: "str | LLMProvider | None" = "",
    judge_set: Mapping[str, Any] | str = "",
    references: str | Path | Sequence[str | Path] = (),
    label: str | None = None,
    tags: Mapping[str, str] | Sequence[str] = (),
    private: bool = False,
    listeners: str | RunListener | Sequence[str | RunListener] = (),
    resume: str | PathLike[str] | Run | None = None,
    out: str | Path = "runs",
    **options: Any,
) -> Run:
    """Send a data set's queries to an agent and measure what it returns.

    It also works where an event loop is running, as in a notebook.

    Parameters:
        agent: a target as the command line names it (`builtin:bm25`, `a2a:URL`, ...), a function
            `f(query, top_k)` that returns document ids, best first, a retriever of LangChain or
            LlamaIndex, or any object with a method `ask(query, top_k)`, and `open()` and `close()`
            if it needs them. All may be async. The answer may also be
            `{"doc_ids": [...], "answer": "...", "citations": [...]}`, or have `contexts` with
            the chunks that it was written from.
        dataset: `nfcorpus`, `notes`, the path of a BEIR folder or zip or of a table of questions
            (`.csv`, `.tsv`, `.jsonl`, `.parquet`), or a `Dataset`.
        columns: which column of the table holds what, `{"query": "prompt", "ids": "docs"}`.
        split: which judgments to use.
        num_queries: how many queries to draw; all by default.
        seed: decides which queries are drawn.
        top_k: how many documents to ask for.
        concurrency: how many queries are in flight at once.
        timeout: seconds for one attempt at a query.
        retries: how often to ask again after a temporary failure.
        gates: one condition such as `ndcg@5>=0.30`, or several; see `Run.gates_passed`.
        baseline: a second target of any kind, run on the same queries; see `Run.comparison`.
        compare_to: an earlier run on the same data to compare with, as a `Run`, or by its folder,
            label, git branch or name; gates may name it, such as `ndcg@5>=main-0.01`.
        mapping: where the answer's ids, scores and texts are, each `KEY=EXPR`, such as
            `ids=hits[].id`; for MCP also `query=NAME`, `top_k=NAME` and `arg.NAME=VALUE`.
        request: the JSON body for a `rest:` target, as a dictionary, as text or as `@FILE`, with
            `"{query}"` and `"{top_k}"` in it.
        headers: `Name: value` each; `$NAME` is read from the environment and never stored.
        search: the search tool that the agent uses through Assay, a target such as
            `builtin:hybrid`: its searches are recorded, see `Report.search`. A function gets it as
            keyword `search`.
        repeat: how many times to ask every question; see `Report.trials`.
        answers: evaluate the answers too.
        judge: the model that judges answers, as the command line names it, or any object that can
            generate text. Key facts decide by default.
        judge_set: how the judge is asked, `{"votes": 4, "timeout": 600}`; the keys are those of
            `--judge-set`.
        references: a file of reference answers, in place of the data set's own, or of facts that
            the answers should state; or one of each.
        label: a name for what is tried, to find the run by.
        tags: facts to keep with the run, as a dictionary or each as `KEY=VALUE`.
        private: write nothing of queries, documents and answers; see SECURITY.md.
        listeners: what follows the run, one or several: `"otel"`, another name or `module:Class`,
            or an object with `on_start(folder)` and `on_finish(run)`. What one raises is a warning.
        resume: a run to finish, by its folder, its name or `latest`; its own settings are used.
        out: where run folders go.
        options: any other option of `assay eval --help-all`, by its name:
            `warm_up=0`, `preset="solr:docs"`, `bm25={"k1": 0.9}`, `counterfactuals=True`.

    Raises:
        UsageError: an argument is wrong, or has no meaning without another one.
        TargetError: the agent cannot be reached.
    """
    # Every keyword that is a setting of a run is called as the setting is.
    given = {name: value for name, value in locals().items() if name in settings()}
    for name in options:
        if name not in settings():
            known = [*inspect.signature(evaluate).parameters, *settings()]
            raise TypeError(f"evaluate() has no parameter {name!r}{did_you_mean(name, known)}")
    given |= options
    if isinstance(dataset, Dataset) and columns:
        raise UsageError(
            "columns= is for a table in a file, and a Dataset was passed; leave it out"
        )
    given["compare_to"] = compare_to.folder.path if isinstance(compare_to, Run) else compare_to
    given["judge"] = judge_name(judge)
    given["baseline"] = "" if baseline is None else _name(baseline)
    with private_mode(private):
        data = (
            dataset
            if isinstance(dataset, Dataset)
            else load_dataset(dataset, columns=settings()["columns"].read(columns))
        )
    given["dataset"] = data.name if isinstance(dataset, Dataset) else str(dataset)
    config = RunConfig(target=_name(agent), **given)
    unfinished = None if resume is None else run_folder(resume, Path(out))
    if unfinished is not None:
        config = unfinished.read_config()
    require_used_settings(config, given=settings(), resumed=unfinished is not None)
    opened = _open(agent, config, data)
    own_baseline = baseline is not None and not isinstance(baseline, str)
    if isinstance(listeners, str) or not isinstance(listeners, Sequence):
        listeners = [listeners]
    heard: list[str] = []
    run = run_coroutine(
        run_evaluation(
            config,
            data,
            out=Path(out),
            agent=opened,
            baseline=_open(baseline, config, data) if own_baseline else None,
            resume=unfinished,
            accept_other_agent=True,  # it is named in this very call
            provider=None if judge is None or isinstance(judge, str) else judge,
            listeners=listeners,
            events=Events(message=heard.append),
        )
    )
    for message in heard:  # they may come from another thread, whose warnings nobody sees
        if message.startswith(_WARNING):
            warnings.warn(message.removeprefix(_WARNING), stacklevel=2)
    for words in filter(None, (no_answers(run), *run.report.warnings)):
        warnings.warn(words, SanityWarning, stacklevel=2)
    return run


def evaluate_agent(
    target: TargetLike, dataset: str | Path | Dataset = "nfcorpus", **settings: Any
) -> Run:
    """The earlier name of `evaluate`, whose first parameter was called `target`."""
    return evaluate(target, dataset, **settings)


def _open(target: TargetLike, config: RunConfig, dataset: Dataset) -> Agent:
    if isinstance(target, str):
        return open_agent(replace(config, target=target), dataset)
    return as_agent(target, name=_name(target), track=config.track, known=dataset.known_ids)


def judge_name(judge: object) -> str:
    """What a report calls a judge; `UsageError` for what cannot judge, empty for none."""
    if judge is None or isinstance(judge, str):
        return judge or ""
    name = getattr(judge, "name", None)
    if not isinstance(name, str) or not callable(getattr(judge, "generate", None)):
        raise UsageError(
            "a judge is a string such as 'ollama', or an object with a name and a method generate, "
            f"got {type(judge).__name__}"
        )
    return name


def _name(target: object) -> str:
    """What a run is called after."""
    return target if isinstance(target, str) else python_name(target)
