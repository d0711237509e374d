"""Our two servers, called by other people's clients: the old Python library, JavaScript, curl."""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.interop.old_library import old_python
from tests.loopback import own_address

HERE = Path(__file__).parent
JAVASCRIPT = "ASSAY_A2A_JS"

# So that the servers can have the ports that the commands below name.
MCP_HOST, GREEN_HOST, PURPLE_HOST = (own_address(number) for number in (1, 2, 3))

# Docker's name for the machine it runs on, resolved here as Docker would.
WITH_DOCKERS_NAME = f"""
import socket
plain = socket.getaddrinfo
def resolve(host, *arguments, **options):
    docker = host in ("host.docker.internal", b"host.docker.internal")
    return plain("{PURPLE_HOST}" if docker else host, *arguments, **options)
socket.getaddrinfo = resolve
from assay.cli.app import serve_verbs
serve_verbs()
"""

SEED_CURL = """
curl -X POST http://localhost:9009/tasks \\
  -H "Content-Type: application/json" \\
  -d '{
    "participants": {
      "retrieval_agent": "http://host.docker.internal:9010"
    },
    "config": {
      "num_queries": 10,
      "top_k": 5,
      "random_seed": 42
    }
  }'
"""

SEED_CURL_MCP = """
curl -X POST http://localhost:8000/search_nfcorpus \\
  -H "Content-Type: application/json" \\
  -d '{"query": "calcium and bone health", "top_k": 5}'
"""

Servers = tuple[str, str, str]
Client = Callable[[str, str, str], list[Any]]


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    folder = tmp_path_factory.mktemp("servers")
    common = ["--dataset", "notes", "--host"]
    mcp = ["mcp", "--mode", "bm25", "--port", "8000", *common, MCP_HOST]
    purple = ["purple", "--port", "9010", *common, PURPLE_HOST]
    purple += ["--mcp-server-url", f"http://{MCP_HOST}:8000"]
    green = ["green", "--out", "runs", "--port", "9009", *common, GREEN_HOST]
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", WITH_DOCKERS_NAME, *arguments],
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        for arguments in (purple, green, mcp)
    ]
    try:
        yield tuple(process.stdout.readline().strip() for process in processes)  # type: ignore[misc, union-attr]
    finally:
        for process in processes:
            process.kill()
            process.communicate()


def _old_python(url: str, way: str, text: str) -> list[Any]:
    return _run([old_python(), str(HERE / "client03.py"), url, way, text])


def _javascript(url: str, way: str, text: str) -> list[Any]:
    if not os.environ.get(JAVASCRIPT):
        pytest.skip(f"set {JAVASCRIPT} to the folder that scripts/get-a2a-js.sh fills")
    folder = os.environ[JAVASCRIPT]
    return _run(["node", str(HERE / "client_js.mjs"), folder, url, way, text])


def _run(command: list[str]) -> list[Any]:
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    events: list[Any] = json.loads(done.stdout)
    return events


each_client = pytest.mark.parametrize(
    "client", [_old_python, _javascript], ids=["a2a-sdk 0.3.26", "@a2a-js/sdk"]
)


def objects_in(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        yield value
        value = list(value.values())
    for each in value if isinstance(value, list) else ():
        yield from objects_in(each)


def data_parts(events: list[Any]) -> list[Any]:
    artifacts = [each for each in objects_in(events) if "artifactId" in each]
    found = {
        artifact["artifactId"]: part["data"]
        for artifact in artifacts
        for part in artifact["parts"]
        if part.get("data") is not None
    }
    return list(found.values())


def last_state(events: list[Any]) -> str:
    statuses = [each.get("status") for each in objects_in(events)]
    states = [status["state"] for status in statuses if isinstance(status, dict)]
    return str(states[-1]).removeprefix("TASK_STATE_").lower()


@each_client
@pytest.mark.parametrize("way", ["block", "stream"])
def test_the_purple_agent_answers_them(servers: Servers, client: Client, way: str) -> None:
    events = client(servers[0], way, json.dumps({"query": "budget meeting", "top_k": 3}))
    assert last_state(events) == "completed"
    (answer,) = data_parts(events)
    assert len(answer["doc_ids"]) == 3
    refused = client(servers[0], way, json.dumps({"query": "budget", "top_k": 0}))
    assert last_state(refused) == "failed"
    assert "top_k: " in json.dumps(refused)


@each_client
@pytest.mark.parametrize("way", ["block", "stream"])
def test_the_green_agent_evaluates_for_them(servers: Servers, client: Client, way: str) -> None:
    order = {"participants": {"retrieval_agent": servers[0]}, "config": {"num_queries": 4}}
    events = client(servers[1], way, json.dumps(order))
    assert last_state(events) == "completed"
    (report,) = data_parts(events)
    assert report["summary"]["successful_queries"] == 4
    assert 0 < report["metrics"]["ndcg@5"] <= 1


def test_the_seeds_curl_starts_an_evaluation_word_for_word(servers: Servers) -> None:
    assert servers[1] == f"http://{GREEN_HOST}:9009"
    started = _curl(SEED_CURL, f"localhost:9009:{GREEN_HOST}")
    report = _wait_for(f"{servers[1]}/tasks/{started['id']}")["report"]
    assert report["summary"]["total_queries"] == 10
    assert report["random_seed_used"] == 42
    assert report["target"]["name"] == "a2a:http://host.docker.internal:9010"


def test_the_seeds_curl_searches_word_for_word(servers: Servers) -> None:
    assert servers[2] == f"http://{MCP_HOST}:8000"
    found = _curl(SEED_CURL_MCP, f"localhost:8000:{MCP_HOST}")["results"]
    assert 0 < len(found) <= 5
    assert all(set(hit) >= {"doc_id", "score", "title", "text"} for hit in found)


def _curl(command: str, leads_to: str) -> Any:
    if shutil.which("curl") is None:
        pytest.skip("curl is not installed")
    where = f"curl --silent --show-error --noproxy '*' --resolve {leads_to}"
    command = command.replace("curl ", f"{where} ", 1)
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def _wait_for(place: str) -> Any:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        task = httpx.get(place, trust_env=False).json()
        if task["state"] not in ("submitted", "working"):
            assert task["state"] == "completed", task
            return task
        time.sleep(0.05)
    pytest.fail("the evaluation did not end within 60 s")
