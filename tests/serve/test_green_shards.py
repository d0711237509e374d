"""Shards of one evaluation that the green agent was asked for, put together again."""

import asyncio
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.serve.serving import send
from tests.serve.test_green import green, order, purple, results, right

from assay.data import Dataset
from assay.evaluation.merge import merge, merged_config
from assay.run.folder import list_runs

SHARDS = 3


async def uneven(query: str, top_k: int) -> list[str]:
    """Right, half right and wrong by turns, always the same for one query."""
    number = int(query.removeprefix("word"))
    return [[*right(query)], ["d0", *right(query)], ["d0"]][number % 3]


async def test_shards_take_every_nth_query_and_merge_to_the_undivided_run(
    http: httpx.AsyncClient, tiny: Dataset, out: Path, tmp_path: Path
) -> None:
    async with (
        purple(uneven) as agent,
        green(tiny, out) as url,
        green(tiny, tmp_path / "whole") as other,
    ):
        orders = [
            order(agent, num_instances=10, num_shards=SHARDS, shard_index=index)
            for index in range(SHARDS)
        ]
        parts = await asyncio.gather(*(send(http, url, each) for each in orders))
        whole = results(await send(http, other, order(agent, num_queries=10)))[1]
    asked = [[row["query_id"] for row in rows_of(part)] for part in parts]
    undivided = [row["query_id"] for row in whole["per_query_results"]]
    assert asked == [undivided[index::SHARDS] for index in range(SHARDS)]
    runs = list(list_runs(out))
    merged = await merge(runs, merged_config(runs), tiny, tmp_path / "merged")
    assert merged.metrics == whole["metrics"]
    assert merged.folder.read_json()["statistics"] == whole["statistics"]
    sums = [results(part)[1]["summary"]["sum_ndcg_at_5"] for part in parts]
    assert sum(sums) / 10 == pytest.approx(whole["metrics"]["ndcg@5"], rel=1e-14)


def rows_of(task: Any) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = results(task)[1]["per_query_results"]
    return rows
