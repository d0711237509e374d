"""The commands as users start them: processes of their own."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

COMMAND = [sys.executable, "-m", "assay.cli.serve"]


@contextmanager
def started(*arguments: str, folder: Path) -> Iterator[tuple["subprocess.Popen[str]", str]]:
    kept = {key: value for key, value in os.environ.items() if not key.startswith("ASSAY_")}
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(
            [*COMMAND, *arguments],
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            env=kept,
        )
    try:
        assert process.stdout is not None
        yield process, process.stdout.readline().strip()
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("kind", ["purple", "green"])
def test_a_server_says_where_it_listens_and_ends_on_sigterm(kind: str, tmp_path: Path) -> None:
    with started(kind, folder=tmp_path) as (process, url):
        assert url.startswith("http://127.0.0.1:")
        assert httpx.get(f"{url}/health", trust_env=False).json()["service"] == kind
        card = httpx.get(url, trust_env=False).json()
        assert card["url"] == f"{url}/"
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=20) in (0, -signal.SIGTERM)
    lines = (tmp_path / "log").read_text().splitlines()
    assert f"{kind} agent on {url}" in lines[0]
    assert all(json.loads(line) for line in lines[1:])


def test_a_taken_port_is_told_in_words(tmp_path: Path) -> None:
    with started("purple", folder=tmp_path) as (_, url):
        port = url.rpartition(":")[2]
        second = subprocess.run(
            [*COMMAND, "green", "--port", port, "--dataset", "notes"],
            capture_output=True,
            text=True,
        )
    assert f"port {port} of 127.0.0.1 is taken" in second.stderr


def test_a_full_evaluation_between_two_processes(tmp_path: Path) -> None:
    started_at = time.monotonic()
    with (
        started(
            "purple", "--port", "0", "--dataset", "notes", "--mode", "bm25", folder=tmp_path
        ) as (_, agent),
        started(
            "green", "--port", "0", "--dataset", "notes", "--out", "results", folder=tmp_path
        ) as (_, url),
        httpx.Client(trust_env=False, timeout=60) as http,
    ):
        order = {"participants": {"retrieval_agent": agent}, "config": {"num_queries": 5}}
        task = http.post(f"{url}/tasks", json=order)
        assert task.status_code == 202
        with http.stream("GET", url + task.headers["location"] + "/events") as events:
            last = [line for line in events.iter_lines() if line.startswith("data: ")][-1]
    report = json.loads(last.removeprefix("data: "))["report"]
    assert report["summary"]["successful_queries"] == 5
    assert report["summary"]["total_time_seconds"] < time.monotonic() - started_at
    (run,) = (tmp_path / "results").iterdir()
    assert json.loads((run / "report.json").read_text())["metrics"] == report["metrics"]
