"""`assay run-agent`: one request, its progress on stderr and its result on stdout."""

import asyncio
import json
from pathlib import Path

import pytest
import typer
from tests.contract.conftest import Gate
from tests.contract.demo_agent import demo_service
from tests.contract.running import running
from typer.testing import CliRunner, Result

from assay.cli.contract import run_agent
from assay.contract.envelope import AgentRunRequest, AgentRunResponse, ErrorCode, TaskError
from assay.contract.responses import AgentCallError, Fault
from assay.contract.server.app import AgentService, agent_app
from assay.contract.server.runs import ReportProgress
from assay.errors import UsageError
from assay.serve.guards import BearerToken

QUERY = '{"query": "blood pressure"}'


async def invoke(*arguments: str) -> Result:
    app = typer.Typer()
    app.command()(run_agent)
    return await asyncio.to_thread(CliRunner().invoke, app, list(arguments))


async def test_the_outputs_are_the_result() -> None:
    async with running(agent_app(demo_service())) as url:
        result = await invoke(url, "RAG_RETRIEVE", "--inputs", QUERY)
    assert result.exit_code == 0
    assert json.loads(result.stdout)["count"] == 2
    assert result.stderr.startswith("ok  request_id=assay-")


async def test_a_stream_tells_its_progress_and_the_same_result() -> None:
    async with running(agent_app(demo_service())) as url:
        result = await invoke(url, "RAG_RETRIEVE", "--inputs", QUERY, "--stream")
    assert json.loads(result.stdout)["count"] == 2
    assert result.stderr.splitlines()[:3] == [
        "started",
        "progress index ready documents=3 percent=10",
        "progress ranked candidates=2 percent=90",
    ]


async def test_json_is_the_whole_response() -> None:
    async with running(agent_app(demo_service())) as url:
        result = await invoke(
            url, "RAG_RETRIEVE", "--inputs", QUERY, "--json", "--request-id", "r5"
        )
    response = json.loads(result.stdout)
    assert (response["status"], response["request_id"]) == ("ok", "r5")


async def test_a_name_is_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(agent_app(demo_service())) as url:
        monkeypatch.setenv("AGENT_ENDPOINTS_JSON", json.dumps({"rag": url}))
        result = await invoke("rag", "RAG_RETRIEVE", "--inputs", QUERY)
    assert result.exit_code == 0


async def test_the_response_can_be_kept(tmp_path: Path) -> None:
    file = tmp_path / "response.json"
    async with running(agent_app(demo_service())) as url:
        await invoke(url, "RAG_RETRIEVE", "--inputs", QUERY, "--stream", "--out", str(file))
    assert json.loads(file.read_bytes())["outputs"]["count"] == 2


async def test_a_failed_run_exits_1_and_says_why() -> None:
    async with running(agent_app(demo_service())) as url:
        result = await invoke(url, "RAG_RETRIEVE")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "error: VALIDATION_ERROR: inputs.query is missing" in result.stderr


async def test_the_agent_is_told_of_the_timeout(gate: Gate) -> None:
    async with running(agent_app(AgentService("gate", "T", gate.work))) as url:
        result = await invoke(url, "T", "--timeout", "0.05")
    assert result.exit_code == 1
    assert "error: BUDGET_EXCEEDED" in result.stderr


async def test_a_refusal_is_an_error_with_exit_code_1() -> None:
    async with running(agent_app(demo_service())) as url:
        result = await invoke(url, "OTHER")
    assert isinstance(result.exception, AgentCallError)
    assert (result.exception.fault, result.exception.exit_code) == (Fault.REFUSED, 1)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["rga", "T"], "unknown agent 'rga'"),
        (["http://h", "T", "--inputs", "{"], "--inputs is not JSON"),
        (["http://h", ""], "task_type is too short"),
        (["http://h", "T", "--request-id", "a\nb"], "request_id contains characters"),
    ],
)
async def test_a_mistake_is_told_in_words(arguments: list[str], said: str) -> None:
    result = await invoke(*arguments)
    assert isinstance(result.exception, UsageError)
    assert said in str(result.exception)


async def test_what_an_agent_says_does_not_drive_the_terminal() -> None:
    async def coloured(request: AgentRunRequest, report: ReportProgress) -> AgentRunResponse:
        report("\x1b[2Jbegun")
        raise TaskError(ErrorCode.TASK_FAILED, "\x1b[31mred\x07\nand more")

    async with running(agent_app(AgentService("x", "X", coloured))) as url:
        result = await invoke(url, "X", "--stream")
    assert result.exit_code == 1
    assert "\x1b" not in result.stderr
    assert "error: TASK_FAILED: \ufffd[31mred\ufffd and more" in result.stderr


async def test_a_token_of_the_environment_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(BearerToken(agent_app(demo_service()), "t0ken")) as url:
        monkeypatch.setenv("AGENT_TOKEN", "t0ken")
        result = await invoke(url, "RAG_RETRIEVE", "--inputs", QUERY)
    assert result.exit_code == 0
