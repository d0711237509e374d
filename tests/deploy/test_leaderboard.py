"""The queries of docs/leaderboard.md, run as they stand on results of real evaluations."""

import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.serve.serving import finds, send, serving
from tests.tiny_dataset import tiny_dataset

from assay.data import Dataset
from assay.net.outbound import UNRESTRICTED
from assay.progress import Progress
from assay.run.folder import list_runs
from assay.serve.green.agent import green_app
from assay.serve.purple import PROFILE, purple_app

PAGE = Path(__file__).parents[2] / "docs" / "leaderboard.md"
SIZE = 21


def database(**config: str) -> Any:
    import duckdb  # takes a second: not while tests are collected

    return duckdb.connect(config={**config})


@pytest.fixture
def tiny() -> Dataset:
    return tiny_dataset(SIZE, document="word{}", query="word{}")


def queries() -> list[str]:
    return re.findall(r"```sql\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)


@asynccontextmanager
async def agent(every: int) -> AsyncIterator[str]:
    """Right on every `every`-th query and wrong on the others."""

    async def find(query: str) -> list[str]:
        number = int(query.removeprefix("word"))
        return [f"d{number}" if number % every == 0 else "d0"]

    async with serving(purple_app(finds(find))) as url:
        yield url


async def evaluate(http: httpx.AsyncClient, green: str, url: str, shards: int, count: int) -> Any:
    """The `results` of a submission, collected as the platform does: every data part."""
    found = []
    for index in range(shards):
        config = {"num_queries": count, "num_shards": shards, "shard_index": index}
        order = {"participants": {"retrieval_agent": url}, "config": config}
        task = await send(http, green, order)
        parts = [part for artifact in task["artifacts"] for part in artifact["parts"]]
        found += [part["data"] for part in parts if "data" in part]
    return found


@asynccontextmanager
async def evaluator(tiny: Dataset, out: Path) -> AsyncIterator[str]:
    async def load(_progress: Progress) -> Dataset:
        return tiny

    async with serving(green_app(load, source="tiny", out=out, policy=UNRESTRICTED)) as url:
        yield url


def write_submission(folder: Path, name: str, results: Any, status: str | None = None) -> None:
    """As the platform writes it, or without a status, as the tutorial's client does."""
    document: dict[str, Any] = {"participants": {"retrieval_agent": name}, "results": results}
    if status is not None:
        document["status"] = status
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.json").write_text(json.dumps(document, indent=2))


def board(query: str) -> Any:
    return query.replace(">= 100", f">= {SIZE}")


async def test_the_leaderboard_query_puts_shards_together_and_ranks_agents(
    tiny: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "results"
    async with (
        evaluator(tiny, tmp_path / "runs") as green,
        agent(2) as good,
        agent(7) as poor,
        httpx.AsyncClient(timeout=60, trust_env=False) as http,
    ):
        undivided = await evaluate(http, green, good, 1, SIZE)
        sharded = await evaluate(http, green, good, 4, SIZE)
        poor_results = await evaluate(http, green, poor, 1, SIZE)
        small = await evaluate(http, green, good, 1, 2)
    write_submission(folder, "good", sharded, "completed")
    write_submission(folder, "poor", poor_results)
    write_submission(folder, "lucky", small, "completed")
    write_submission(folder, "broken", undivided, "failed")
    monkeypatch.chdir(tmp_path)
    connection = database()
    connection.execute("CREATE VIEW results AS FROM read_json_auto('results/*.json')")
    rows = connection.execute(board(queries()[0])).fetchall()
    assert [row[0] for row in rows] == ["good", "poor"]
    assert rows[0][1] == round(undivided[0]["summary"]["mean_ndcg_at_5"], 4)
    assert rows[0][4] == SIZE
    assert rows[0][5] == 0


async def test_the_query_over_run_folders_reads_them_as_they_are(
    tiny: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with (
        evaluator(tiny, tmp_path / "runs") as green,
        agent(2) as good,
        agent(7) as poor,
        httpx.AsyncClient(timeout=60, trust_env=False) as http,
    ):
        for url in (poor, good):
            await evaluate(http, green, url, 1, SIZE)
    monkeypatch.chdir(tmp_path)
    _add_older_and_larger_run(tmp_path / "runs")
    connection = database(memory_limit="1GB")
    rows = connection.execute(queries()[1]).fetchall()
    assert [row[1] for row in rows] == [f"a2a:{good}", "older", f"a2a:{poor}"]
    assert [row[0].split()[0] for row in rows] == ["NFCorpus", "older", "NFCorpus"]
    assert all(low <= mean <= high for _, _, _, mean, low, high, _ in rows)


async def test_an_agent_is_named_by_its_card_beside_its_address(
    tiny: Dataset, tmp_path: Path
) -> None:
    async with (
        evaluator(tiny, tmp_path / "runs") as green,
        agent(2) as good,
        httpx.AsyncClient(timeout=60, trust_env=False) as http,
    ):
        await evaluate(http, green, good, 1, SIZE)
    (run,) = list_runs(tmp_path / "runs")
    card = f"{PROFILE.name} {version('agent-assay')}"
    assert run.read_header().target.agent == run.read_report().target.agent == card
    assert run.summary_file.read_text().startswith(f"{card} on tiny test")
    assert card in (run.path / "report.html").read_text()


def _add_older_and_larger_run(runs: Path) -> None:
    """Without what later versions wrote, and with 40 MB of rows."""
    path = next(runs.glob("*/report.json"))
    report = json.loads(path.read_text())
    report["target"] = {"name": "older"}
    report["summary"] |= {f"{key}_ndcg_at_5": 0.3 for key in ("mean", "low", "high")}
    report["per_query_results"] = [{"query_text": "x" * 1000}] * 40_000
    (runs / "older").mkdir()
    (runs / "older" / "report.json").write_text(json.dumps(report))
