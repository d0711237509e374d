"""Calls in other processes: results in order, errors, and the end of a process."""

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from assay.errors import SearchError, UsageError
from assay.search.workers import Workers, integer_setting


@pytest.fixture(autouse=True)
def importable(monkeypatch: pytest.MonkeyPatch) -> None:
    """The functions below, in other processes."""
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))


def add(context: int, number: int) -> int:
    return context + number


def fail(_: int) -> None:
    raise UsageError("no such thing")


def die(_: int) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize("count", [0, 2])
def test_calls_return_in_order_and_errors_are_raised_here(count: int) -> None:
    with Workers(40, count) as workers:
        assert list(workers.map(add, ((number,) for number in range(9)))) == list(range(40, 49))
        with pytest.raises(UsageError, match="no such thing"):
            workers.submit(fail).result()
        assert workers.submit(add, 2).result() == 42


def test_a_process_that_is_killed_ends_the_work_with_a_message() -> None:
    with Workers(0, 1) as workers, pytest.raises(SearchError, match="memory"):
        workers.submit(die).result()


class Embedder:
    """As a user's script defines one."""


def of_script(monkeypatch: pytest.MonkeyPatch) -> object:
    monkeypatch.setattr(Embedder, "__module__", "__main__")
    monkeypatch.setattr(sys.modules["__main__"], "Embedder", Embedder, raising=False)
    return Embedder()


def process(_: object) -> int:
    return os.getpid()


@pytest.mark.parametrize("make", [of_script, lambda _: lambda: None])
def test_what_other_processes_cannot_load_is_called_in_this_one(
    make: Callable[[pytest.MonkeyPatch], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    with Workers(make(monkeypatch), 2) as workers:
        assert workers.submit(process).result() == os.getpid()


def test_a_setting_has_to_be_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    for value in ("0", "two"):
        monkeypatch.setenv("QDRANT_SHARD_NUMBER", value)
        with pytest.raises(UsageError, match="QDRANT_SHARD_NUMBER must be an integer"):
            integer_setting("QDRANT_SHARD_NUMBER")
