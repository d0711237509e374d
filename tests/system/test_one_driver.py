"""One evaluation gives one report, whoever drives it: command line, Python, green, bench, merge.

Ray is the sixth; `tests/scale/test_ray.py` compares its report with that of the command line.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.json_server import Answer, JsonRequest, JsonServer
from tests.system.running import environment, run, serving

NOTES = ("--dataset", "notes", "--num-queries", "30", "--seed", "7", "--top-k", "3")


class SameForAll(JsonServer):
    """An A2A agent that answers every query with the same two documents: a run must warn of it."""

    version = "1.0"

    def answer(self, request: JsonRequest) -> Answer:
        if request.method == "GET":
            if not request.path.endswith((".json", "/")):
                return 404, {}, {}
            card: dict[str, Any] = {
                "name": "Same",
                "description": "",
                "version": self.version,
                "url": f"{self.url}/",
            }
            card |= {"protocolVersion": "0.3.0", "capabilities": {}, "skills": []}
            modes = {"defaultInputModes": ["text"], "defaultOutputModes": ["text"]}
            return 200, {}, card | modes
        part = {"kind": "data", "data": {"doc_ids": ["note-001", "note-002"]}}
        task: dict[str, Any] = {"kind": "task", "id": "t", "contextId": "c"}
        task["status"] = {"state": "completed"}
        task["artifacts"] = [{"artifactId": "a", "name": "retrieval_results", "parts": [part]}]
        return 200, {}, {"jsonrpc": "2.0", "id": request.body["id"], "result": task}


@pytest.fixture(scope="module")
def agent() -> Iterator[str]:
    with SameForAll().running() as server:
        yield server.url


def what_it_says(report: dict[str, Any]) -> dict[str, Any]:
    """The figures, rows and warnings of a report, without times."""
    rows = report["per_query_results"]
    kept = ("query_id", "retrieved_docs", "ndcg_at_3", "recall_at_3", "status")
    return {
        "metrics": report["metrics"],
        "statistics": report["statistics"],
        "violations": report["violations"],
        "warnings": report["warnings"],
        "rows": [{key: row[key] for key in kept} for row in rows],
    }


@pytest.fixture(scope="module")
def expected(agent: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """By the command line."""
    done = run(tmp_path_factory.mktemp("cli"), "eval", f"a2a:{agent}", *NOTES, "--json")
    assert done.returncode == 0, done.stderr
    found = what_it_says(json.loads(done.stdout))
    assert found["warnings"], "the agent must be worth a warning"
    return found


def test_python(agent: str, expected: dict[str, Any], tmp_path: Path) -> None:
    code = (
        "import assay, json, sys\n"
        f"run = assay.evaluate('a2a:{agent}', 'notes', num_queries=30, seed=7, top_k=3)\n"
        "print((run.folder.path / 'report.json').read_text())"
    )
    command = [sys.executable, "-W", "ignore", "-c", code]
    done = subprocess.run(
        command, cwd=tmp_path, env=environment(), capture_output=True, text=True, check=True
    )
    assert what_it_says(json.loads(done.stdout)) == expected


def test_green(agent: str, expected: dict[str, Any], tmp_path: Path) -> None:
    config = {"num_queries": 30, "random_seed": 7, "top_k": 3}
    order = {"participants": {"retrieval_agent": agent}, "config": config}
    with (
        serving("green", "--dataset", "notes", folder=tmp_path) as url,
        httpx.Client(trust_env=False, timeout=60) as http,
    ):
        where = url + http.post(f"{url}/tasks", json=order).headers["location"]
        with http.stream("GET", f"{where}/events") as events:
            lines = [line for line in events.iter_lines() if line.startswith("data: ")]
    report = json.loads(lines[-1].removeprefix("data: "))["report"]
    assert what_it_says(report) == expected


def test_bench(agent: str, expected: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "suite.toml").write_text(
        f'[options]\ntop_k = 3\nseed = 7\n[targets]\nmine = "a2a:{agent}"\n'
        '[datasets]\nnotes = { dataset = "notes", num_queries = 30 }\n'
    )
    done = run(tmp_path, "bench", "suite.toml", "--json")
    assert done.returncode == 0, done.stderr
    (report,) = (tmp_path / "runs").glob("*/report.json")
    assert what_it_says(json.loads(report.read_text())) == expected


def test_merge(agent: str, expected: dict[str, Any], tmp_path: Path) -> None:
    for shard in ("1/2", "2/2"):
        assert run(tmp_path, "eval", f"a2a:{agent}", *NOTES, "--shard", shard).returncode == 0
    shards = sorted(path.name for path in (tmp_path / "runs").iterdir() if path.is_dir())
    done = run(tmp_path, "merge", *shards, "--json")
    assert done.returncode == 0, done.stderr
    assert what_it_says(json.loads(done.stdout)) == expected


def test_resume(agent: str, expected: dict[str, Any], tmp_path: Path) -> None:
    assert run(tmp_path, "eval", f"a2a:{agent}", *NOTES).returncode == 0
    (calls,) = (tmp_path / "runs").glob("*/calls.jsonl")
    calls.write_bytes(b"".join(calls.read_bytes().splitlines(keepends=True)[:11]))
    (calls.parent / "report.json").unlink()
    done = run(tmp_path, "eval", "--resume", "latest", "--json")
    assert done.returncode == 0, done.stderr
    assert what_it_says(json.loads(done.stdout)) == expected


def test_a_run_is_not_finished_by_another_version_of_its_agent(tmp_path: Path) -> None:
    """One figure of two agents would be neither's; to name the target again accepts it."""
    with SameForAll().running() as server:
        assert run(tmp_path, "eval", f"a2a:{server.url}", *NOTES).returncode == 0
        (calls,) = (tmp_path / "runs").glob("*/calls.jsonl")
        calls.write_bytes(b"".join(calls.read_bytes().splitlines(keepends=True)[:11]))
        (calls.parent / "report.json").unlink()
        server.version = "2.0"
        refused = run(tmp_path, "eval", "--resume", "latest")
        assert refused.returncode == 2
        assert "1.0" in refused.stderr
        assert "2.0" in refused.stderr
        told = run(tmp_path, "eval", f"a2a:{server.url}", "--resume", "latest")
        assert told.returncode == 0, told.stderr
