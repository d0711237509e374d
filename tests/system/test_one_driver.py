"""One evaluation gives one report, whoever drives it.

The drivers are the command line, Python, the A2A evaluator, `bench`, `merge` and Ray; finishing an
interrupted run is the seventh way. What they share: figures, warnings, gates against an earlier
run, privacy. A private run is not sent to Ray (`tests/phi`).
"""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.system.running import A2AAgent, environment, evaluate, run, serving

NOTES = ("--dataset", "notes", "--num-queries", "30", "--seed", "7", "--top-k", "3")
REGRESSION = ("--compare-to", "main", "--gate", "ndcg@3>=main-0.01", "--fail-on-regression")
SETTINGS = {"compare_to": "main", "gates": ["ndcg@3>=main-0.01"], "fail_on_regression": True}


def same_for_all() -> A2AAgent:
    """Answers every query with the same two documents: a run must warn of it."""
    return A2AAgent(lambda _query, _top_k: {"doc_ids": ["note-001", "note-002"]})


@pytest.fixture(scope="module")
def agent() -> Iterator[str]:
    with same_for_all().running() as server:
        yield server.url


def command(folder: Path, *arguments: str, code: int = 0) -> dict[str, Any]:
    done = run(folder, *arguments, "--json")
    assert done.returncode == code, done.stderr
    return dict(json.loads(done.stdout))


def by_command(agent: str, folder: Path, *options: str, code: int = 0) -> dict[str, Any]:
    return command(folder, "eval", f"a2a:{agent}", *NOTES, *options, code=code)


def by_python(agent: str, folder: Path, *options: str, code: int = 0) -> dict[str, Any]:
    keywords: dict[str, Any] = {"num_queries": 30, "seed": 7, "top_k": 3}
    keywords |= SETTINGS if REGRESSION[0] in options else {}
    keywords |= {"private": True} if "--private" in options else {}
    script = (
        "import assay, sys\n"
        f"run = assay.evaluate('a2a:{agent}', 'notes', **{keywords!r})\n"
        "run.folder.copy_report(sys.stdout.buffer)\n"
        "sys.exit(run.exit_code)"
    )
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script],
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code, done.stderr
    return dict(json.loads(done.stdout))


def by_evaluator(agent: str, folder: Path, *options: str, code: int = 0) -> dict[str, Any]:
    config: dict[str, Any] = {"num_queries": 30, "random_seed": 7, "top_k": 3}
    config |= SETTINGS if REGRESSION[0] in options else {}
    private = {"ASSAY_PRIVATE": "1"} if "--private" in options else {}
    with serving("green", "--dataset", "notes", folder=folder, **private) as url:
        ended = evaluate(url, agent, **config)
    assert ended["state"] == "completed", ended
    return dict(ended["report"])


def by_bench(agent: str, folder: Path, *options: str, code: int = 0) -> dict[str, Any]:
    settings = "private = true\n" if "--private" in options else ""
    if REGRESSION[0] in options:
        settings += 'compare-to = "main"\ngate = ["ndcg@3>=main-0.01"]\nfail-on-regression = true\n'
    (folder / "suite.toml").write_text(
        f'[options]\ntop_k = 3\nseed = 7\n{settings}[targets]\nmine = "a2a:{agent}"\n'
        '[datasets]\nnotes = { dataset = "notes", num_queries = 30 }\n'
    )
    command(folder, "bench", "suite.toml", code=code)
    return command(folder, "report", "latest")


def by_merge(agent: str, folder: Path, *options: str, code: int = 0) -> dict[str, Any]:
    before = set(folder.glob("runs/2*"))
    for shard in ("1/2", "2/2"):  # the gates of half a run say little, so any code will do
        done = run(folder, "eval", f"a2a:{agent}", *NOTES, *options, "--shard", shard)
        assert done.returncode in (0, 1), done.stderr
    shards = sorted(path.name for path in set(folder.glob("runs/2*")) - before)
    return command(folder, "merge", *shards, code=code)


def by_ray(agent: str, folder: Path, *options: str, code: int = 0) -> dict[str, Any]:
    return by_command(agent, folder, *options, "--engine", "ray", "--shard", "2", code=code)


def by_resuming(agent: str, folder: Path, *options: str, code: int = 0) -> dict[str, Any]:
    by_command(agent, folder, *options, code=code)
    (ended,) = (path for path in folder.glob("runs/2*") if "main" not in path.name)
    calls = ended / "calls.jsonl"
    calls.write_bytes(b"".join(calls.read_bytes().splitlines(keepends=True)[:11]))
    (ended / "report.json").unlink()
    return command(folder, "eval", "--resume", ended.name, code=code)


Driver = Callable[..., dict[str, Any]]
RAY = pytest.param(by_ray, marks=pytest.mark.slow)


def what_it_says(report: dict[str, Any]) -> dict[str, Any]:
    """The figures, rows, warnings and gates of a report, without times."""
    rows = report["per_query_results"]
    kept = ("query_id", "retrieved_docs", "ndcg_at_3", "recall_at_3", "status")
    parts = ("metrics", "statistics", "violations", "warnings", "gates")
    found = {part: report[part] for part in parts}
    return found | {"rows": [{key: row[key] for key in kept} for row in rows]}


@pytest.fixture(scope="module")
def expected(agent: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    found = what_it_says(by_command(agent, tmp_path_factory.mktemp("cli")))
    assert found["warnings"], "the agent must be worth a warning"
    return found


@pytest.mark.parametrize("drive", [by_python, by_evaluator, by_bench, by_merge, RAY, by_resuming])
def test_reports_and_warnings(
    drive: Driver, agent: str, expected: dict[str, Any], tmp_path: Path
) -> None:
    assert what_it_says(drive(agent, tmp_path)) == expected


@pytest.mark.parametrize(
    "drive", [by_command, by_python, by_evaluator, by_bench, by_merge, RAY, by_resuming]
)
def test_a_regression_fails_the_run(drive: Driver, agent: str, tmp_path: Path) -> None:
    better = run(tmp_path, "eval", "builtin:bm25", *NOTES, "--label", "main")
    assert better.returncode == 0, better.stderr
    report = drive(agent, tmp_path, *REGRESSION, code=1)
    (gate,) = report["gates"]
    assert (gate["gate"], gate["passed"]) == (REGRESSION[3], False)
    regression = report["comparison"]["gate"]
    assert (regression["gate"], regression["passed"]) == ("no regression", False)
    assert report["comparison"]["metrics"]["ndcg@3"]["n"] == 30


@pytest.mark.parametrize(
    "drive", [by_command, by_python, by_evaluator, by_bench, by_merge, by_resuming]
)
def test_a_private_run_has_the_same_figures_and_no_text(
    drive: Driver, agent: str, expected: dict[str, Any], tmp_path: Path
) -> None:
    found = drive(agent, tmp_path, "--private")
    texts = [row.pop("query_text") for row in found["per_query_results"]]
    assert set(texts) == {""}
    assert what_it_says(found) == expected
    written = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert b"Ettersheim" not in written


def test_a_run_is_not_finished_by_another_version_of_its_agent(tmp_path: Path) -> None:
    """One figure of two agents would be neither's; to name the target again accepts it."""
    with same_for_all().running() as server:
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
