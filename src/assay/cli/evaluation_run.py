"""One evaluation in a terminal: its progress, the end by Ctrl-C, and stdout kept for results."""

import asyncio
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from typing import TYPE_CHECKING, Any

from assay.cli.console import evaluation_events

if TYPE_CHECKING:
    from assay.data.dataset import Dataset
    from assay.evaluation.run import Run
    from assay.run.config import RunConfig


def run_in_terminal(config: "RunConfig", dataset: "Dataset", **options: Any) -> "tuple[Run, bool]":
    """Evaluate with bars and signals; whether it came to its end. Options: `run_evaluation`."""
    with _stdout_for_results_only():
        return asyncio.run(_run(config, dataset, options))


async def _run(
    config: "RunConfig", dataset: "Dataset", options: dict[str, Any]
) -> "tuple[Run, bool]":
    from assay.evaluation.driver import run_evaluation

    with evaluation_events() as events:
        _stop_on_signals(events.stop)
        run = await run_evaluation(config, dataset, events=events, **options)
    return run, not events.stop.is_set()


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
