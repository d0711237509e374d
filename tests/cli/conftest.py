"""The command as users start it: a process of its own, in an empty folder."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests import forked
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
def environment() -> dict[str, str]:
    kept = {key: value for key, value in os.environ.items() if not key.startswith("ASSAY_")}
    return {**kept, "NO_COLOR": "1"}


@pytest.fixture
def command() -> list[str]:
    return [str(Path(sys.executable).with_name("assay"))]


@pytest.fixture
def run_assay(folder: Path, environment: dict[str, str]) -> RunAssay:
    def run(*arguments: str, **variables: str) -> "subprocess.CompletedProcess[str]":
        env = {**environment, **variables}
        return forked.run(forked.ASSAY, *arguments, cwd=folder, env=env)

    return run
