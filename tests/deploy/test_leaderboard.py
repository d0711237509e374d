"""The queries of docs/leaderboard.md, run as they stand on results of real evaluations."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from tests.tiny_dataset import tiny_dataset

from assay import Run, evaluate
from assay.evaluation.merge import submission_of

PAGE = Path(__file__).parents[2] / "docs" / "leaderboard.md"
QUERIES = re.findall(r"```sql\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)
SIZE = 21
TINY = tiny_dataset(SIZE, document="word{}", query="word{}")


def good(query: str, top_k: int = 5) -> list[str]:
    """Right on every second query."""
    number = int(query.removeprefix("word"))
    return [f"d{number}" if number % 2 == 0 else "d0"]


def poor(query: str, top_k: int = 5) -> list[str]:
    return good(query) if int(query.removeprefix("word")) % 7 == 0 else ["d0"]


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def rows_of(query: str, view: str = "") -> Any:
    import duckdb  # takes a second: not while tests are collected

    connection = duckdb.connect(config={"memory_limit": "1GB"})
    if view:
        connection.execute(view)
    return connection.execute(query).fetchall()


def submit(name: str, agent: Any, count: int = SIZE, shards: int = 1, **changes: Any) -> Run:
    """The result file of an evaluation, as the platform keeps it."""
    runs = [
        evaluate(agent, TINY, num_queries=count, num_shards=shards, shard_index=n)
        for n in range(shards)
    ]
    document = submission_of([run.folder for run in runs], name) | changes
    Path("results").mkdir(exist_ok=True)
    kept = {key: value for key, value in document.items() if value is not None}
    Path("results", f"{name}.json").write_text(json.dumps(kept))
    return runs[0]


def test_the_leaderboard_query_puts_shards_together_and_ranks_agents() -> None:
    submit("good", good, shards=4)
    submit("poor", poor, status=None)  # as the tutorial's client writes it
    submit("lucky", good, count=2)
    undivided = submit("broken", good, status="failed")
    view = "CREATE VIEW results AS FROM read_json_auto('results/*.json')"
    rows = rows_of(QUERIES[0].replace(">= 100", f">= {SIZE}"), view)
    assert [row[0] for row in rows] == ["good", "poor"]
    assert rows[0][1] == round(undivided.report.metrics["ndcg@5"], 4)
    assert (rows[0][4], rows[0][5]) == (SIZE, 0)


def test_the_query_over_run_folders_reads_them_as_they_are() -> None:
    """One of them without what later versions wrote, and with 40 MB of rows."""
    for agent in (poor, good):
        evaluate(agent, TINY)
    report = json.loads(next(Path("runs").glob("*/report.json")).read_text())
    report["target"] = {"name": "older"}
    report["summary"] |= {f"{key}_ndcg_at_5": 0.3 for key in ("mean", "low", "high")}
    report["per_query_results"] = [{"query_text": "x" * 1000}] * 40_000
    Path("runs", "older").mkdir()
    Path("runs", "older", "report.json").write_text(json.dumps(report))
    rows = rows_of(QUERIES[1])
    assert [row[0].rpartition(":")[2] for row in rows] == ["good", "older", "poor"]
    assert all(low <= mean <= high for _, _, _, mean, low, high, _ in rows)
