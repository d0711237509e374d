"""`assay doctor` through the same parser as users reach it, with agents on real ports."""

import asyncio
import json
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from starlette.types import ASGIApp
from tests.bad_agent import bad_agent
from tests.contract.running import running
from tests.interop.server10 import agent_app

from assay.cli.app import app
from assay.extras import PACKAGES

RunAssay = Callable[..., "subprocess.CompletedProcess[str]"]


def run(*arguments: str, variables: dict[str, str] | None = None, **more: Any) -> Result:
    return CliRunner().invoke(app, ["doctor", *arguments], env=variables, **more)


@contextmanager
def serving(application: ASGIApp) -> Iterator[str]:
    """In a thread of its own: the command has an event loop for itself."""
    address: list[str] = []
    ready, stop = threading.Event(), threading.Event()

    async def serve() -> None:
        async with running(application) as url:
            address.append(url)
            ready.set()
            await asyncio.to_thread(stop.wait)

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    ready.wait(10)
    try:
        yield address[0]
    finally:
        stop.set()
        thread.join(10)


def test_an_agent_is_shown_with_its_card_transport_and_calls() -> None:
    with serving(agent_app(("1.0",))) as url:
        done = run(url, "--query", "data x", "--top-k", "2")
    assert done.exit_code == 0, done.output
    for words in ("new agent 1.3", "A2A 1.0 over JSON-RPC", "blocking call"):
        assert words in done.output
    assert "2 ids in" in done.output
    # Its card names port 1, where nobody listens.
    assert "cannot be reached" in done.output
    assert "--card-url" in done.output


def test_json_has_it_all() -> None:
    with serving(agent_app(("1.0",))) as url:
        done = run(f"a2a:{url}", "--query", "text x", "--json")
    found = json.loads(done.stdout)
    assert (found["reached"], found["healthy"], found["protocol"]) == (True, True, "a2a")
    assert [call["way"] for call in found["calls"]] == ["blocking"]
    assert found["card"]["name"] == "new agent"
    assert found["problems"][0]["grave"] is False


@pytest.mark.parametrize(
    ("mode", "words"),
    [
        ("error_500", "agent error: HTTP 500"),
        ("wrong_shape", "invalid answer: the answer has no JSON object with"),
        ("garbage", "protocol: the agent sent something that is not a JSON-RPC response"),
    ],
)
def test_a_failing_agent_exits_1_with_a_remedy(mode: str, words: str) -> None:
    with bad_agent() as agent:
        done = run(f"{agent.url}/{mode}", "--query", "query 1")
    assert done.exit_code == 1
    assert words in " ".join(done.output.split())
    assert "remedy" in done.output


@pytest.mark.parametrize(
    ("mode", "words"),
    [("duplicates", "duplicate ids"), ("too_many", "the answer has 502 ids, top_k is 5")],
)
def test_ids_that_earn_nothing_are_pointed_out(mode: str, words: str) -> None:
    with bad_agent() as agent:
        done = run(f"{agent.url}/{mode}", "--query", "query 1")
    assert done.exit_code == 0
    assert words in done.output


def settings(done: Result, verb: str = "eval") -> dict[str, tuple[str, str]]:
    listed = json.loads(done.stdout)["settings"]
    return {
        each["option"]: (each["value"], each["source"]) for each in listed if each["verb"] == verb
    }


def test_settings_are_shown_with_the_source_that_won(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "assay.toml").write_text("[eval]\ntop_k = 3\nseed = 9\n")
    variables = {"ASSAY_TOP_K": "7", "ASSAY_CACHE": str(tmp_path), "ASSAY_TOPK": "8"}
    done = run("--json", variables=variables)
    assert done.exit_code == 0
    found = settings(done)
    assert found["top_k"] == ("7", "ASSAY_TOP_K")
    assert found["seed"] == ("9", "assay.toml")
    assert found["split"] == ("test", "default")
    assert "ASSAY_TOPK" in json.loads(done.stdout)["unread_variables"]


def test_the_installation_is_shown_with_its_extras(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(PACKAGES, "absent_package", "rare")
    done = run(variables={"ASSAY_CACHE": str(tmp_path)})
    assert done.exit_code == 0
    for words in ("serve installed", "pip install 'agent-assay[rare]'", "default"):
        assert words in " ".join(done.output.split())


def test_a_cache_that_cannot_be_written_is_a_problem(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    done = run("--json", variables={"ASSAY_CACHE": str(file)})
    assert done.exit_code == 1
    assert "ASSAY_CACHE" in json.loads(done.stdout)["problems"][0]


@pytest.mark.parametrize(
    ("url", "problem"),
    [("http://127.0.0.1:9", "does not respond"), ("elsewhere", "QDRANT_URL must be an http")],
)
def test_a_server_of_indexes_that_cannot_be_used_is_a_problem(
    tmp_path: Path, url: str, problem: str
) -> None:
    variables = {"ASSAY_CACHE": str(tmp_path)}
    found = json.loads(run("--json", variables=variables).stdout)
    assert (found["index"], found["problems"]) == (str(tmp_path / "index"), [])
    done = run("--json", variables=variables | {"QDRANT_URL": url})
    assert done.exit_code == 1
    assert problem in json.loads(done.stdout)["problems"][0]


def test_another_package_called_assay_is_a_problem(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "assay_it-1.0.dist-info"
    other.mkdir()
    (other / "METADATA").write_text("Metadata-Version: 2.1\nName: assay-it\nVersion: 1.0\n")
    (other / "top_level.txt").write_text("assay\n")
    monkeypatch.syspath_prepend(tmp_path)
    done = run("--json", variables={"ASSAY_CACHE": str(tmp_path)})
    assert done.exit_code == 1
    (problem,) = json.loads(done.stdout)["problems"]
    assert problem.startswith("assay-it also installs the package 'assay': pip uninstall assay-it")


@pytest.mark.parametrize(
    ("target", "remedy"),
    [
        ("python:target:number_of", "return a list of document ids, best first"),
        ("python:target:broken", "fix the function at the line in the message"),
        ("builtin:bm25", "it searches a data set, and none is loaded"),
    ],
)
def test_the_remedy_is_for_the_kind_of_target(
    run_assay: RunAssay, folder: Path, target: str, remedy: str
) -> None:
    with (folder / "target.py").open("a") as module:
        module.write("\ndef number_of(query, top_k):\n    return 7\n")
    done = run_assay("doctor", target, "--json")
    assert remedy in json.loads(done.stdout)["problems"][0]["remedy"]
