"""Planting into the index of an agent of the HTTP contract: real server, real index."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from tests.contract.running import running
from tests.contract_agents.sample_agents import make_resources
from tests.poison.applications import TEA
from tests.serve.serving import serving

from assay.contract.envelope import (
    AgentRunRequest,
    AgentRunResponse,
    ErrorCode,
    error_response,
    succeeded,
)
from assay.contract.server.app import AgentService, agent_app
from assay.contract.server.runs import ReportProgress
from assay.errors import UsageError
from assay.evaluation.evaluation import Evaluation, Events
from assay.evaluation.plan import open_agent
from assay.evaluation.run import Run
from assay.run.config import RunConfig
from assay.serve.contract_agents.apps import TASKS, agents_app


def planted_in(folder: Path) -> set[str]:
    """The ids in all knowledge bases that are not documents of the data set."""
    files = (folder / "knowledge").glob("*.jsonl")
    ids = {json.loads(line)["_id"] for file in files for line in file.read_text().splitlines()}
    return {each.partition("__chunk_")[0] for each in ids} - TEA.documents.keys()


async def evaluated(url: str, out: Path, stop: asyncio.Event | None = None, **more: Any) -> Run:
    config = RunConfig(
        target=f"http:{url}=RAG_ANSWER",
        dataset="tea",
        poison=True,
        poison_into="index",
        warm_up=0.0,
        concurrency=1,
        **more,
    )
    plan = Evaluation.plan(config, TEA)
    return await plan.start(
        open_agent(config, TEA), out, events=Events(stop=stop or asyncio.Event())
    )


async def test_documents_are_found_followed_and_removed(tmp_path: Path) -> None:
    app = agents_app(
        TASKS, make_resources(tmp_path / "kb", documents=tuple(TEA.documents.values()))
    )
    async with serving(app) as url:
        run = await evaluated(f"{url}/rag-answer", tmp_path / "runs", poison_kinds=("false_fact",))
    assert run.report.answers is not None
    poison = run.report.answers.poison
    assert poison is not None
    assert poison.total.retrieved == poison.total.answered == len(TEA.queries)
    assert poison.total.followed > 0
    (base,) = (path.name for path in (tmp_path / "kb").iterdir() if path.name.startswith("kb-"))
    assert base.startswith("kb-assay-planted-")
    assert planted_in(tmp_path / "kb") == set()


async def test_ctrl_c_leaves_no_planted_document_behind(tmp_path: Path) -> None:
    stop = asyncio.Event()
    app = agents_app(
        TASKS, make_resources(tmp_path / "kb", documents=tuple(TEA.documents.values()))
    )
    seen: list[set[str]] = []

    async def watched(scope: Any, receive: Any, send: Any) -> None:
        planted = scope["type"] == "http" and scope["path"].startswith("/rag-answer/agents")
        if planted and (tmp_path / "kb").exists() and planted_in(tmp_path / "kb"):
            seen.append(planted_in(tmp_path / "kb"))
            stop.set()
        await app(scope, receive, send)

    async with serving(watched) as url:
        run = await evaluated(f"{url}/rag-answer", tmp_path / "runs", stop)
    assert run.state == "interrupted"
    assert seen
    assert planted_in(tmp_path / "kb") == set()


async def ingest_only(request: AgentRunRequest, report: ReportProgress) -> AgentRunResponse:
    """An agent by the letter of the contract, which knows no `remove`."""
    return succeeded(request, {"ingestedCount": len(request.inputs["documents"])})


@pytest.mark.parametrize(
    ("task", "message"),
    [
        ("RAG_ANSWER", r"RAG_INGEST at .* failed .*use a builtin"),
        ("RAG_INGEST", "does not remove documents"),
    ],
)
async def test_an_agent_that_cannot_remove_is_refused_before_anything_is_asked(
    task: str, message: str, tmp_path: Path
) -> None:
    async with running(agent_app(AgentService("plain", task, ingest_only))) as url:
        with pytest.raises(UsageError, match=message):
            await evaluated(url, tmp_path / "runs")
    assert not (tmp_path / "runs").exists()


async def test_an_ingestion_that_fails_is_told_with_what_the_agent_said(tmp_path: Path) -> None:
    async def failing(request: AgentRunRequest, report: ReportProgress) -> AgentRunResponse:
        return error_response(
            ErrorCode.TASK_FAILED, "the disk is full", request_id=request.request_id
        )

    app = agent_app(AgentService("broken", "RAG_INGEST", failing))
    expected = r"an error \(TASK_FAILED\), see the log of the agent; it said: the disk is full"
    async with running(app) as url:
        with pytest.raises(UsageError, match=expected):
            await evaluated(url, tmp_path / "runs")
