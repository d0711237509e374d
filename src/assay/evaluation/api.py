"""`assay.evaluate`: the same runs and folders as the command line's, from Python."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from assay.data import Dataset, load_dataset
from assay.errors import SanityWarning, UsageError, suggests_keywords
from assay.evaluation.driver import run_evaluation
from assay.evaluation.evaluation import Events
from assay.evaluation.listeners import RunListener
from assay.evaluation.plan import baseline_track, open_agent, refuse_unused_settings
from assay.evaluation.run import Run, no_answers, run_folder
from assay.net.gather import run_coroutine
from assay.privacy import private_mode
from assay.run.config import RunConfig
from assay.run.settings import settings
from assay.targets.protocol import Agent, Asked
from assay.targets.python_call import as_agent, python_name
from assay.targets.retrievers import InvokableRetriever, NodeRetriever

if TYPE_CHECKING:
    from assay.llm.providers.provider import LLMProvider


_WARNING = "warning: "

TargetLike = str | Asked | Callable[..., Any] | InvokableRetriever | NodeRetriever


@suggests_keywords(
    archive="pass assay.load_dataset('nfcorpus', archive=FILE) as the data set",
    engine="only the command line divides a run: assay eval --engine ray",
    html="the page is run.folder / 'report.html'",
    json="the report is run.report.to_json()",
    junit="only the command line writes it: assay eval --junit FILE",
    markdown="only the command line writes it: assay eval --markdown FILE",
    shard="only the command line divides a run: assay eval --shard I/N",
    shards="only the command line divides a run: assay eval --engine ray --shards N",
    target="the agent is the first argument",
)
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
    warm_up: float = 300.0,
    gates: str | Sequence[str] = (),
    track: str = "undeclared",
    baseline: TargetLike | None = None,
    mapping: str | Sequence[str] = (),
    request: str | Mapping[str, Any] = "",
    method: str = "",
    headers: Sequence[str] = (),
    preset: str = "",
    index: str = "",
    chunk_separator: str = "",
    embedder: str = "",
    device: str = "auto",
    reranker: str = "",
    bm25: Mapping[str, Any] | str | Sequence[str] = (),
    private: bool = False,
    label: str | None = None,
    tags: Mapping[str, str] | Sequence[str] = (),
    compare_to: str | PathLike[str] | Run = "",
    allow_first_run: bool = False,
    fail_on_regression: bool = False,
    note: str = "",
    answers: bool = False,
    judge: "str | LLMProvider | None" = "",
    judge_votes: int = 2,
    judge_controls: int = 5,
    judge_timeout: float | None = None,
    judge_concurrency: int | None = None,
    max_cost: float | None = None,
    no_cache: bool = False,
    criteria: str | Path | None = "",
    counterfactuals: bool = False,
    poison: bool | str | Sequence[str] = (),
    references: str | Path | Sequence[str | Path] = (),
    faithfulness: str = "",
    listeners: str | RunListener | Sequence[str | RunListener] = (),
    judge_calibration: str | Path | None = "",
    require_calibrated: bool = False,
    resume: str | PathLike[str] | Run | None = None,
    out: str | Path = "runs",
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
        warm_up: seconds to wait until an agent that runs elsewhere is ready; 0 for no warm-up.
        gates: one condition such as `ndcg@5>=0.30`, or several; see `Run.gates_passed`.
        track: how the agent may have learned: zero-shot, trained or undeclared.
        baseline: a second target of any kind, run on the same queries; see `Run.comparison`.
        mapping: where the answer's ids, scores and texts are, each `KEY=EXPR`, such as
            `ids=hits[].id`; for MCP also `query=NAME`, `top_k=NAME` and `arg.NAME=VALUE`.
        request: the JSON body for a `rest:` target, as a dictionary, as text or as `@FILE`, with
            `"{query}"` and `"{top_k}"` in it.
        method: the HTTP method of a `rest:` target; POST with a body, else GET, by default.
        headers: `Name: value` each; `$NAME` is read from the environment and never stored.
        preset: how to ask a known search engine: `elasticsearch`, `opensearch`, `solr`, `vespa`,
            `qdrant`.
        index: the index that the preset searches.
        chunk_separator: what separates a document's id from its chunk's number, or `re:PATTERN`
            for what to remove at the end of an id.
        embedder: which embedder builtin targets use: `onnx:DIR`, `st:NAME|DIR`
            (sentence-transformers), `openai:MODEL[@URL]`, `ollama:MODEL[@URL]` or `tei:URL`; the
            built-in one by default.
        device: where the embedder runs: `auto`, `cpu`, `cuda`, `cuda:N` or `mps`.
        reranker: a cross-encoder that orders the first 50 documents of builtin targets anew:
            `st:NAME|DIR` or `tei:URL`.
        bm25: parameters of BM25 for builtin targets, `{"k1": 0.9, "b": 0.4}`: also delta (BM25+),
            title_weight (BM25F), language and stop_words.
        private: write nothing of queries, documents and answers; see SECURITY.md.
        label: a name for what is tried, to find the run by.
        tags: facts to keep with the run, as a dictionary or each as `KEY=VALUE`.
        compare_to: an earlier run on the same data to compare with, as a `Run`, or by its folder,
            label, git branch or name; gates may name it, such as `ndcg@5>=main-0.01`. See
            `Run.comparison`.
        allow_first_run: if there is no such run yet, go on without it and without the gates that
            name it, with a warning.
        fail_on_regression: fail a gate if a compared metric is significantly worse than in the run
            that it is compared with.
        note: a sentence to keep with the run.
        answers: evaluate the answers too.
        judge: the model that judges answers, as the command line names it, or any object that can
            generate text. Key facts decide by default.
        judge_votes: how many votes decide about an answer, half of them with the reference first;
            an odd number is raised by one.
        judge_controls: how many references are put before the judge against themselves, and as many
            against another question's: a judge that fails these is not believed. 0 for none.
        judge_timeout: seconds for one call to the judge.
        judge_concurrency: how many calls to the judge are in flight at once.
        max_cost: stop before the judge has spent this many US dollars.
        no_cache: ask the judge again for replies that are cached.
        criteria: a file or a folder of files with criteria of your own, which the judge rates by;
            each is a metric, `criterion.NAME`.
        counterfactuals: ask questions again in other contexts, to tell retrieval errors from
            generation errors.
        poison: ask questions again with planted documents, and report how often answers follow
            them; turns `answers` on. True for every attack, or some of `override`, `false_fact`,
            `fake_citation`, `exfiltration`.
        references: a file of reference answers, in place of the data set's own, or of facts that
            the answers should state; or one of each.
        faithfulness: a three-class NLI cross-encoder, `onnx:DIR` or `st:NAME`, that measures which
            sentences of the answers are supported by what was shown.
        listeners: what follows the run, one or several: `"mlflow"`, another name or `module:Class`,
            or an object with `on_start(folder)` and `on_finish(run)`. What one raises is a warning.
        judge_calibration: the file of `assay judge calibrate --out`: gates on judged figures say
            whether the judge was calibrated on this data.
        require_calibrated: refuse such a gate where it was not.
        resume: a run to finish, by its folder, its name or `latest`; its own settings are used.
        out: where run folders go.

    Raises:
        UsageError: an argument is wrong, or has no meaning without another one.
        TargetError: the agent cannot be reached.
    """
    # Every keyword that is a setting of a run is called as the setting is.
    given = {name: value for name, value in locals().items() if name in settings()}
    if isinstance(dataset, Dataset) and columns:
        raise UsageError(
            "columns= is for a table in a file, and a Dataset was passed; leave it out"
        )
    names = _pairs(columns)
    _refuse_swapped(agent, dataset)
    if not isinstance(out, str | PathLike):
        raise UsageError(f"out must be the path of a folder, got {out!r}")
    earlier = compare_to.folder if isinstance(compare_to, Run) else compare_to
    with private_mode(private):
        data = dataset if isinstance(dataset, Dataset) else load_dataset(dataset, columns=names)
    config = RunConfig(
        **{
            **given,
            "target": _name(agent),
            "dataset": data.name if isinstance(dataset, Dataset) else str(dataset),
            "columns": names,
            "gates": _as_tuple(gates),
            "baseline": "" if baseline is None else _name(baseline),
            "mapping": _as_tuple(mapping),
            "request": request if isinstance(request, str) else orjson.dumps(request).decode(),
            "headers": _as_tuple(headers),
            "label": label or "",
            "tags": _pairs(tags),
            "bm25": _pairs(bm25),
            "compare_to": fspath(earlier) if isinstance(earlier, PathLike) else earlier,
            "judge": judge_name(judge),
            "criteria": str(criteria or ""),
            "poison": ("all",) * poison if isinstance(poison, bool) else _as_tuple(poison),
            "references": _texts(references),
            "judge_calibration": str(judge_calibration or ""),
        }
    )
    unfinished = None if resume is None else run_folder(resume, Path(out))
    if unfinished is not None:
        config = unfinished.read_config()
    refuse_unused_settings(config, given=settings(), resumed=unfinished is not None)
    opened = _open(agent, config, data)
    other = None
    if baseline is not None:
        second = replace(config, track=baseline_track(config, config.baseline))
        other = _open(baseline, second, data)
    if isinstance(listeners, str) or not isinstance(listeners, Sequence):
        listeners = [listeners]
    heard: list[str] = []
    run = run_coroutine(
        run_evaluation(
            config,
            data,
            out=Path(out),
            agent=opened,
            baseline=other,
            resume=unfinished,
            accept_other_agent=True,  # it is named in this very call
            provider=None if judge is None or isinstance(judge, str) else judge,
            listeners=listeners,
            events=Events(message=heard.append),
        )
    )
    for message in heard:  # they may come from another thread, whose warnings nobody sees
        if message.startswith(_WARNING):
            warnings.warn(message.removeprefix(_WARNING), stacklevel=3)
    for words in filter(None, (no_answers(run), *run.report.warnings)):
        warnings.warn(words, SanityWarning, stacklevel=3)
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


def _pairs(given: Mapping[str, str] | Any) -> Any:
    """`{"query": "prompt"}` as the option has it, `("query=prompt",)`."""
    if isinstance(given, Mapping):
        return tuple(f"{key}={value}" for key, value in given.items())
    return _as_tuple(given)


def _texts(paths: str | Path | Sequence[str | Path]) -> tuple[str, ...]:
    given = (paths,) if isinstance(paths, str | Path) else paths
    return tuple(str(each) for each in given if str(each))


def _as_tuple(texts: Any) -> Any:
    """A single string as a list; `RunConfig` refuses anything but a list of strings."""
    return tuple(filter(None, (texts,))) if isinstance(texts, str) else texts


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


def _refuse_swapped(agent: object, dataset: object) -> None:
    """Notice `evaluate(dataset, agent)`."""
    if isinstance(agent, Dataset) or callable(dataset):
        raise UsageError(
            f"evaluate takes the agent first, then the data set, got {type(agent).__name__} and "
            f"{type(dataset).__name__}; are the two swapped?"
        )


def _name(target: object) -> str:
    """What a run is called after."""
    return target if isinstance(target, str) else python_name(target)
