"""One evaluation with everything that a terminal adds: data, progress, Ctrl-C."""

import asyncio
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING

from assay.cli.console import print_json, say, warn
from assay.cli.live_progress import evaluation_progress, progress_bar
from assay.errors import DownloadError

if TYPE_CHECKING:
    from assay.data.dataset import Dataset
    from assay.evaluation.evaluation import Evaluation, Outcome
    from assay.evaluation.run_folder import RunFolder

_DEFAULT = "nfcorpus"
_FALLBACK = "notes"


def choose_dataset(name: str | None, archive: Path | None) -> "Dataset":
    """What was asked for; where nothing was, NFCorpus, or the bundled set in its stead, loudly."""
    from assay.data import load_dataset

    try:
        with progress_bar() as progress:
            dataset = load_dataset(name or _DEFAULT, archive=archive, progress=progress)
    except DownloadError as error:
        if name is not None:
            raise
        say("")
        warn(f"NFCorpus cannot be had: {error}")
        warn(f"evaluating on the bundled set {_FALLBACK!r} instead; its scores are not NFCorpus's")
        say("")
        dataset = load_dataset(_FALLBACK)
    for warning in dataset.warnings:
        warn(warning)
    return dataset


def run_evaluation(evaluation: "Evaluation", out: Path, folder: "RunFolder | None") -> "Outcome":
    """Start a run, or finish the one in `folder`."""
    with _stdout_for_results_only():
        return asyncio.run(_run(evaluation, out, folder))


def print_report(folder: "RunFolder") -> None:
    """As it stands in its file; on a terminal without what could command it."""
    if sys.stdout.isatty():
        print_json(folder.read_report())
    else:
        folder.copy_report(sys.stdout.buffer)


@contextmanager
def _stdout_for_results_only() -> Iterator[None]:
    """What an agent, its libraries or its children print goes to stderr: `--json` stays JSON."""
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)


def judge_spec(given: str | None, max_cost: float | None = None) -> str:
    """What `--judge` or `RAG_EVAL_PROVIDER` names; empty where no model is to judge."""
    from assay.answer.extractive import EXTRACTIVE
    from assay.answer.providers.opening import configured_spec, open_provider

    spec = given or configured_spec() or ""
    if spec in ("", EXTRACTIVE):
        return ""
    # A wrong name, or a price that nobody knows, is to be told before the run, not after it.
    open_provider(spec, max_cost=max_cost)
    return spec


def _mapping(text: str) -> dict[str, str] | None:
    if not text:
        return None
    from assay.agents.mcp.mapping import parse_mapping  # imports the MCP library: half a second

    return parse_mapping(text)


async def _run(evaluation: "Evaluation", out: Path, folder: "RunFolder | None") -> "Outcome":
    from assay.agents import open_target

    config = evaluation.config
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()

    def end() -> None:
        if stop.is_set():  # asked a second time: nothing is worth waiting for
            os._exit(130)
        stop.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, end)
    with evaluation_progress(config.target) as (listener, progress):
        agent = open_target(
            config.target,
            evaluation.dataset,
            track=config.track,
            mapping=_mapping(config.mapping),
            answers=config.answers,
            progress=progress,
        )
        if folder is None:
            return await evaluation.start(agent, out, listener=listener, stop=stop)
        return await evaluation.resume(agent, folder, listener=listener, stop=stop)
