"""Shards that are merged give the undivided run, digit for digit; anything else is refused."""

import errno
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.tiny_dataset import tiny_dataset

from assay.data import Dataset
from assay.errors import AgentFailure, FailureKind, RunError
from assay.evaluation.evaluation import Evaluation
from assay.evaluation.merge import merge, merged_config, submission_of
from assay.evaluation.run import Run
from assay.run.config import RunConfig
from assay.run.folder import RunFolder
from assay.targets import PythonAgent

CONFIG = RunConfig(target="python:agent", dataset="tiny", num_queries=101, seed=7, top_k=3)


async def agent(query: str, top_k: int) -> list[str]:
    """Right, half right, wrong and failing by turns, always the same for one query."""
    number = int(query.removeprefix("query "))
    if number % 11 == 0:
        raise AgentFailure(FailureKind.INVALID_ANSWER, "on purpose")
    ids = [f"d{number + 1}", f"d{number}"] if number % 3 else [f"d{number}", "d0"]
    return ids if number % 7 else ["d0", "d0"]


async def run(config: RunConfig, dataset: Dataset, out: Path) -> Run:
    return await Evaluation.plan(config, dataset).start(
        PythonAgent(agent, name="python:agent"), out
    )


async def shards(count: int, dataset: Dataset, out: Path) -> list[RunFolder]:
    configs = [replace(CONFIG, num_shards=count, shard_index=i) for i in range(count)]
    return [(await run(config, dataset, out)).folder for config in configs]


def figures(report: dict[str, Any]) -> dict[str, Any]:
    """What does not depend on how fast the agent happened to be."""
    summary = {
        key: value
        for key, value in report["summary"].items()
        if not key.startswith(("latency", "total_time", "queries_per"))
    }
    rows = [
        {key: value for key, value in row.items() if key not in ("at", "latency_ms")}
        for row in report["per_query_results"]
    ]
    kept = ("state", "metrics", "statistics", "failures", "violations", "planned_queries")
    return {key: report[key] for key in kept} | {"summary": summary, "rows": rows}


@pytest.mark.parametrize("count", [1, 2, 5])
async def test_merged_figures_are_those_of_the_undivided_run(tmp_path: Path, count: int) -> None:
    dataset = tiny_dataset(120)
    whole = await run(CONFIG, dataset, tmp_path / "whole")
    parts = await shards(count, dataset, tmp_path / "parts")
    given = parts[::-1]
    merged = await merge(given, merged_config(given), dataset, tmp_path / "merged")
    assert figures(merged.folder.read_json()) == figures(whole.folder.read_json())
    header, first = merged.folder.read_header(), parts[0].read_header()
    assert (header.config, header.git) == (CONFIG, first.git)
    assert header.merged_from == [part.name for part in parts]


async def test_a_merge_that_fails_leaves_no_run_and_says_to_merge_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset = tiny_dataset(120)
    parts = await shards(2, dataset, tmp_path / "parts")

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("assay.evaluation.evaluation.write_report", full)
    with pytest.raises(RunError, match=r"No space left on device; .* merge again") as failure:
        await merge(parts, merged_config(parts), dataset, tmp_path / "merged")
    assert "--resume" not in str(failure.value)
    assert list((tmp_path / "merged").iterdir()) == []


async def test_only_the_shards_of_one_evaluation_are_merged(tmp_path: Path) -> None:
    dataset = tiny_dataset(120)
    first, second, third = parts = await shards(3, dataset, tmp_path)

    async def like_second(data: Dataset = dataset, **changes: Any) -> RunFolder:
        config = replace(CONFIG, num_shards=3, shard_index=1, **changes)
        return (await run(config, data, tmp_path)).folder

    other_seed, other_data = await like_second(seed=8), await like_second(tiny_dataset(121))
    for given, message in (
        ([first, third], r"1 to 3 once, got 1, 3; .*--shard I/3"),
        ([*parts, second], r"1 to 3 once, got 1, 2, 3"),
        ([first, other_seed, third], r"has seed 8, .* not shards of one evaluation"),
        ([first, other_data, third], rf"{first.name}.*{other_data.name}.* different data"),
    ):
        with pytest.raises(RunError, match=message):
            merged_config(given)
    moved = [first, await like_second(target="a2a:http://agent:2"), third]
    with pytest.raises(RunError, match="--target NAME"):
        merged_config(moved)
    assert merged_config(moved, "my agent").target == "my agent"
    with pytest.raises(RunError, match="made on a different version"):
        await merge(parts, merged_config(parts), tiny_dataset(130), tmp_path)
    second.report_file.unlink()
    with pytest.raises(RunError, match="is unfinished; finish it with"):
        merged_config(parts)


async def test_a_submission_has_the_shape_of_the_platform(tmp_path: Path) -> None:
    parts = await shards(2, tiny_dataset(120), tmp_path)
    document = submission_of(parts[::-1], "0b1e-uuid")
    assert list(document) == ["status", "participants", "results"]
    assert document["status"] == "completed"
    assert document["participants"] == {"retrieval_agent": "0b1e-uuid"}
    assert [each["run"] for each in document["results"]] == [part.name for part in parts]
    report = parts[0].report_file.read_text()
    parts[0].report_file.write_text(report.replace('"state": "complete"', '"state": "target lost"'))
    partial = submission_of(parts)
    assert partial["status"] == "partial"
    assert partial["participants"] == {"retrieval_agent": "python:agent"}
