"""The queries of docs/leaderboard.md, run as they stand on results of real evaluations."""

import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import duckdb
import httpx
import pytest
from tests.serve.serving import send, serving

from assay.data import Dataset, Document, Query
from assay.net.outbound import UNRESTRICTED
from assay.progress import Progress
from assay.serve.green.agent import green_app
from assay.serve.purple.agent import Find, purple_app

PAGE = Path(__file__).parents[2] / "docs" / "leaderboard.md"
SIZE = 21


@pytest.fixture
def tiny() -> Dataset:
    return Dataset(
        name="tiny",
        documents={f"d{i}": Document(f"d{i}", "", f"word{i}") for i in range(SIZE + 1)},
        queries={f"q{i}": Query(f"q{i}", f"word{i}") for i in range(SIZE)},
        judgments={"test": {f"q{i}": {f"d{i}": 2, f"d{i + 1}": 1} for i in range(SIZE)}},
    )


def queries() -> list[str]:
    return re.findall(r"```sql\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)


@asynccontextmanager
async def agent(every: int) -> AsyncIterator[str]:
    """Right on every `every`-th query and wrong on the others."""

    async def find(query: str, top_k: int) -> list[str]:
        number = int(query.removeprefix("word"))
        return [f"d{number}" if number % every == 0 else "d0"]

    async def load(_progress: Progress) -> Find:
        return find

    async with serving(purple_app(load)) as url:
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


async def test_the_leaderboard_query_puts_shards_together_and_ranks_agents(
    tiny: Dataset, tmp_path: Path
) -> None:
    folder = tmp_path / "results"
    folder.mkdir()
    async with (
        evaluator(tiny, tmp_path / "runs") as green,
        agent(2) as good,
        agent(7) as poor,
        httpx.AsyncClient(timeout=60, trust_env=False) as http,
    ):
        undivided = await evaluate(http, green, good, 1, SIZE)
        submissions = [
            ("good", await evaluate(http, green, good, 4, SIZE), "completed"),
            ("poor", await evaluate(http, green, poor, 1, SIZE), "completed"),
            ("lucky", await evaluate(http, green, good, 1, 2), "completed"),
            ("broken", undivided, "failed"),
        ]
    for name, results, status in submissions:
        document = {
            "status": status,
            "participants": {"retrieval_agent": name},
            "results": results,
        }
        (folder / f"{name}.json").write_text(json.dumps(document))
    connection = duckdb.connect()
    connection.execute(f"CREATE VIEW results AS FROM read_json_auto('{folder}/*.json')")
    query = queries()[0].replace("= 323", f"= {SIZE}")
    rows = connection.execute(query).fetchall()
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
    rows = duckdb.connect().execute(queries()[1]).fetchall()
    assert [row[0] for row in rows] == [f"a2a:{good}", f"a2a:{poor}"]
    assert all(low <= mean <= high for _, _, mean, low, high, _ in rows)
