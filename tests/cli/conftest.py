"""The command as users start it: a process of its own, in an empty folder."""

import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
from tests import forked
from tests.system.running import environment, run
from tests.tiny_dataset import tiny_dataset

from assay.data.beir import write_beir

RunAssay = Callable[..., "subprocess.CompletedProcess[str]"]

TARGET = """
import os, threading, time

lock = threading.Lock()

def right(query, top_k):
    return [f"d{query.split()[1]}"]

def slow(query, top_k):
    with lock, open("asked.txt", "a+") as asked:
        asked.write(query + "\\n")
        asked.seek(0)
        held = len(asked.readlines()) > int(os.environ.get("HOLD_AFTER", "1000"))
    time.sleep(60 if held else float(os.environ.get("PAUSE", "0")))
    return right(query, top_k)

def broken(query, top_k):
    raise ValueError("on purpose")

def refuses(query, top_k):
    raise ConnectionRefusedError("nobody there")

def exits(query, top_k):
    raise SystemExit(0)

def prints(query, top_k):
    print("noise")
    os.system("echo more noise")
    return right(query, top_k)

number = 7
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Holds `target.py` and `tiny`, a BEIR folder of 40 queries."""
    (tmp_path / "target.py").write_text(TARGET)
    write_beir(tiny_dataset(40), tmp_path / "tiny")
    return tmp_path


@pytest.fixture
def run_assay(folder: Path) -> RunAssay:
    return partial(run, folder, NO_COLOR="1")


@contextmanager
def started(folder: Path, *arguments: str, **variables: str) -> Iterator[forked.ForkedProcess]:
    """The command until the block ends; its stderr is in a file of that name."""
    env = environment(NO_COLOR="1", **variables)
    with (
        (folder / "stderr").open("w") as stderr,
        forked.started(forked.ASSAY, *arguments, cwd=folder, env=env, stderr=stderr) as process,
    ):
        yield process


def wait_for_calls(folder: Path, number: int, runs: str = "*") -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        logs = list(folder.glob(f"runs/{runs}/calls.jsonl"))
        if logs and logs[0].read_bytes().count(b"\n") >= number:
            return
        time.sleep(0.005)
    pytest.fail(f"{number} calls were not recorded within 60 s")
