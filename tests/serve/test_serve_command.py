"""The commands as users start them: processes of their own."""

import json
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from tests import forked
from tests.system.running import environment


@contextmanager
def started(
    *arguments: str, folder: Path, **variables: str
) -> Iterator[tuple[forked.ForkedProcess, str]]:
    """`assay serve` and its address; the file `log` has its stderr."""
    command, env = (forked.ASSAY, "serve", *arguments), environment(**variables)
    with (
        (folder / "log").open("w") as log,
        forked.started(*command, cwd=folder, env=env, stderr=log) as process,
    ):
        yield process, process.stdout.readline().strip()


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
        arguments = ("serve", "green", "--port", port, "--dataset", "notes")
        second = forked.run(forked.ASSAY, *arguments)
    assert f"port {port} on 127.0.0.1 is already in use" in second.stderr


def test_whoever_follows_an_evaluation_hears_of_its_end_on_sigterm(tmp_path: Path) -> None:
    mute = socket.create_server(("127.0.0.1", 0))
    with (
        mute,
        started("green", "--port", "0", "--dataset", "notes", folder=tmp_path) as (process, url),
        httpx.Client(trust_env=False, timeout=60) as http,
    ):
        agent = f"http://127.0.0.1:{mute.getsockname()[1]}"
        task = http.post(f"{url}/tasks", json={"participants": {"retrieval_agent": agent}})
        with http.stream("GET", url + task.headers["location"] + "/events") as events:
            lines = events.iter_lines()
            assert next(lines) == "event: status"
            process.send_signal(signal.SIGTERM)
            rest = [line for line in lines if line]
        assert rest[-2] == "event: final"
        assert json.loads(rest[-1].removeprefix("data: "))["state"] == "canceled"
        assert process.wait(timeout=30) in (0, -signal.SIGTERM)


@pytest.mark.parametrize("command", ["purple", "green", "mcp", "agent RAG_RETRIEVE", "ui"])
def test_no_server_listens_beyond_this_machine_without_a_token(command: str) -> None:
    arguments = ("serve", *command.split(), "--host", "0.0.0.0", "--port", "0")
    done = forked.run(forked.ASSAY, *arguments, env=environment())
    assert done.returncode == 2, done.stderr
    assert "error: --host 0.0.0.0" in done.stderr
    assert "set ASSAY_TOKEN" in done.stderr
