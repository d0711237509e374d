"""The recorder of searches from outside: the example agent, the A2A evaluator, a killed run."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.loopback import free_port
from tests.system.running import environment, evaluate, run, serving

ROOT = Path(__file__).parents[2]
SAMPLE = ("--dataset", "notes", "--num-queries", "8")
SEARCH = ("--search", "builtin:bm25")
ANY_PORT = "http://127.0.0.1:0"


@pytest.fixture(scope="module")
def example() -> Iterator[str]:
    """`examples/multi_search_agent.py`, as the documentation starts it."""
    port = free_port()
    command = [sys.executable, str(ROOT / "examples" / "multi_search_agent.py"), str(port)]
    with subprocess.Popen(command, env=environment()) as process:
        url = f"http://localhost:{port}"
        for _ in range(300):
            try:
                httpx.get(f"{url}/.well-known/agent-card.json", trust_env=False)
                break
            except httpx.ConnectError:
                time.sleep(0.1)
        yield url
        process.terminate()


def test_the_evaluator_reports_searches_as_the_command_does(example: str, tmp_path: Path) -> None:
    gates = ("evidence_recall>=0.2", "loop_gain>-1", "calls.p95<=10", "evidence_recall>=0.99")
    options = [word for gate in gates for word in ("--gate", gate)]
    target = (f"a2a:{example}", *SAMPLE, *SEARCH, "--repeat", "2", *options)
    done = run(tmp_path, "eval", *target, ASSAY_RECORDER=ANY_PORT)
    assert done.returncode == 1, done.stderr
    (written,) = (tmp_path / "runs").glob("*/report.json")
    report = json.loads(written.read_text())
    assert [gate["passed"] for gate in report["gates"]] == [True, True, True, False]
    found = report["search"]
    assert (found["attribution"], found["questions"], found["calls"]["mean"]) == ("token", 16, 2)
    shown = [line.split()[0] for line in done.stdout.splitlines() if line.strip()]
    assert {"searches", "evidence", "loss", "loop", "effort", "missing"} <= set(shown)

    with serving("green", "--dataset", "notes", folder=tmp_path, ASSAY_RECORDER=ANY_PORT) as url:
        skills = httpx.get(f"{url}/.well-known/agent-card.json").json()["skills"]
        end = evaluate(url, example, num_queries=8, search="bm25", num_trials=2)
    assert "agentic_search" in {skill["id"] for skill in skills}
    evaluated = end["report"]
    assert evaluated["trials"] == report["trials"]
    for part in ("figures", "curve", "blame", "calls"):
        assert evaluated["search"][part] == found[part]


DYING = """
import os, pathlib, signal

def find(query, top_k, search):
    first = search(query, top_k=3)
    asked = pathlib.Path("asked")
    with asked.open("a") as log:
        log.write("x")
    if os.environ.get("DIES") and asked.stat().st_size == 7:
        os.kill(os.getpid(), signal.SIGKILL)
    return [hit["doc_id"] for hit in [*first, *search("xyzzy " + query, top_k=3)]]
"""


@pytest.mark.parametrize("private", [False, True])
def test_a_killed_run_is_resumed_to_the_same_figures(private: bool, tmp_path: Path) -> None:
    target = ("python:dying:find", *SAMPLE, *SEARCH, "--repeat", "2", "--concurrency", "1")
    options = (*target, *(["--private"] if private else []))
    found: list[dict[str, Any]] = []
    for dies in ("", "1"):
        folder = tmp_path / f"dies{dies}"
        folder.mkdir()
        (folder / "dying.py").write_text(DYING)
        done = run(folder, "eval", *options, "--json", DIES=dies, PYTHONPATH=str(folder))
        if dies:
            assert done.returncode == -9
            with next(folder.glob("runs/*/steps.jsonl")).open("a") as torn:
                torn.write('{"query_id": "q-001", "trial": 1, "t": 1, "sour')
            resume = ("eval", "--resume", "latest", "--json")
            done = run(folder, *resume, PYTHONPATH=str(folder))
            # Each process rehearses one question, and five answers were recorded before the kill.
            assert (folder / "asked").stat().st_size == 7 + 1 + (16 - 5)
        assert done.returncode == 0, done.stderr
        found.append(json.loads(done.stdout))
        (steps,) = folder.glob("runs/*/steps.jsonl")
        assert len(steps.read_bytes().splitlines()) == 2 * 16
        written = b"".join(path.read_bytes() for path in steps.parent.iterdir())
        assert (b"xyzzy" in written) is not private
    whole, resumed = found
    assert resumed["metrics"] == whole["metrics"]
    assert resumed["trials"] == whole["trials"]
    assert resumed["search"]["figures"] == whole["search"]["figures"]
    blame = [each["search"]["blame"]["counts"] for each in found]
    if private:  # without the queries of the first process, some reasons cannot be found
        assert blame[1].pop("not known") > 0
        assert all(count <= blame[0][reason] for reason, count in blame[1].items())
    else:
        assert blame[0] == blame[1]


LOOPING = """
def find(query, top_k, search):
    ids = [hit["doc_id"] for hit in search(query, top_k)]
    return {"doc_ids": ids, "steps": [{"query": query, "doc_ids": ids}]}

def reports(query, top_k):
    ids = ["note-001", "note-002"]
    return {"doc_ids": ids, "steps": [{"query": query, "doc_ids": ids}]}
"""


def test_searches_that_were_recorded_and_reported_are_not_compared(tmp_path: Path) -> None:
    (tmp_path / "looping.py").write_text(LOOPING)
    for function, search in (("find", SEARCH), ("reports", ())):
        done = run(tmp_path, "eval", f"python:looping:{function}", *SAMPLE, *search)
        assert done.returncode == 0, done.stderr
    names = sorted(path.name for path in (tmp_path / "runs").iterdir())
    compared = run(tmp_path, "compare", *names, "--json")
    found = json.loads(compared.stdout)
    assert any("recorded in one run and reported" in warning for warning in found["warnings"])
    assert not any(name.startswith("evidence") for name in found["metrics"])
