"""One evaluation in a terminal: its progress, the end by Ctrl-C, and stdout kept for results."""

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from assay.cli.console import evaluation_progress

if TYPE_CHECKING:
    from assay.evaluation.evaluation import Evaluation
    from assay.evaluation.run import Run
    from assay.run.folder import RunFolder


def run_evaluation(
    evaluation: "Evaluation",
    out: Path,
    folder: "RunFolder | None",
    opened: "Callable[[RunFolder], None]" = lambda _folder: None,
) -> "Run":
    """Start a run, or finish the one in `folder`; `opened` gets the folder as it begins."""
    with _stdout_for_results_only():
        return asyncio.run(_run(evaluation, out, folder, opened))


async def _run(
    evaluation: "Evaluation",
    out: Path,
    folder: "RunFolder | None",
    opened: "Callable[[RunFolder], None]",
) -> "Run":
    from assay.evaluation.plan import open_agent

    stop = asyncio.Event()
    _stop_on_signals(stop)
    with evaluation_progress(evaluation.config.target) as (listener, progress):
        agent = open_agent(evaluation.config, evaluation.dataset, progress)
        if folder is None:
            listener = replace(listener, opened=opened)
            return await evaluation.start(agent, out, callbacks=listener, stop=stop)
        opened(folder)
        return await evaluation.resume(agent, folder, callbacks=listener, stop=stop)


def _stop_on_signals(stop: asyncio.Event) -> None:
    loop = asyncio.get_running_loop()

    def end() -> None:
        if stop.is_set():  # a second Ctrl-C: stop at once
            os._exit(130)
        stop.set()

    numbers = [signal.SIGINT, signal.SIGTERM]
    hang_up = getattr(signal, "SIGHUP", None)  # the terminal was closed; Windows has none
    if hang_up is not None and signal.getsignal(hang_up) is not signal.SIG_IGN:  # nohup ignores it
        numbers.append(hang_up)
    for number in numbers:
        try:
            loop.add_signal_handler(number, end)
        except NotImplementedError:  # Windows: Ctrl-C arrives as KeyboardInterrupt
            signal.signal(number, lambda _number, _frame: loop.call_soon_threadsafe(end))


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
