"""Whole runs of a service whose answers are mapped: scores, and a shape that changes on the way."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from tests.serve.serving import serving
from tests.targets.search_services import best

from assay.data import load_dataset
from assay.evaluation.evaluation import Evaluation, Events
from assay.evaluation.run import Run
from assay.run.config import RunConfig
from assay.targets.answer_reader import parse_mapping
from assay.targets.target_kinds import OpenContext, open_target

MAPPING = ("ids=hits[].id", "scores=hits[].score")


async def run_of(
    answer: Callable[[int, str], Any], out: Path, mapping: tuple[str, ...] = MAPPING
) -> tuple[Run, list[str]]:
    """A run of ten queries; `answer` gets the number of the query and its text."""
    asked = 0
    said: list[str] = []

    async def search(request: Request) -> Response:
        nonlocal asked
        asked += 1
        return JSONResponse(answer(asked, request.query_params["q"]))

    data = load_dataset("notes")
    async with serving(Starlette(routes=[Route("/search", search)])) as url:
        target = f"rest:{url}/search?q={{query}}"
        config = RunConfig(
            target=target,
            dataset="notes",
            mapping=mapping,
            num_queries=10,
            concurrency=1,
            warm_up=0,  # its call would be counted by `answer`
        )
        agent = open_target(target, OpenContext(data, mapping=parse_mapping(mapping)))
        listener = Events(message=said.append)
        run = await Evaluation.plan(config, data).start(agent, out, events=listener)
    return run, said


def hits(query: str) -> list[dict[str, Any]]:
    return [{"id": doc_id, "score": score} for doc_id, score in best(query, 5)]


def scores_in(run: Run) -> list[list[float]]:
    lines = (run.folder.path / "calls.jsonl").read_text().splitlines()
    return [json.loads(line)["scores"] for line in lines]


async def test_scores_are_kept_with_the_calls(tmp_path: Path) -> None:
    run, said = await run_of(lambda _n, query: {"hits": hits(query)}, tmp_path)
    kept = scores_in(run)
    assert len(kept) == 10
    assert all(each == sorted(each, reverse=True) and len(each) == 5 for each in kept)
    assert not any("descending" in line for line in said)


async def test_a_shape_that_changes_on_the_way_is_told_in_one_line(tmp_path: Path) -> None:
    def changing(n: int, query: str) -> Any:
        return {"hits": hits(query)} if n <= 6 else {"results": {"docs": hits(query)}}

    run, _ = await run_of(changing, tmp_path)
    assert run.report.summary.successful_queries == 6
    calls = (run.folder.path / "calls.jsonl").read_text().splitlines()
    messages = [json.loads(line)["failure"]["message"] for line in calls[6:]]
    for message in messages:
        assert "\n" not in message
        assert message.startswith("--map ids=hits[].id yields nothing")
        assert message.endswith("--map 'ids=results.docs[].id'")
