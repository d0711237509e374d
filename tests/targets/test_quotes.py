"""The agent's own words about a failure: kept, cleaned and shortened, alike in every protocol."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from tests.serve.serving import serving
from typer.testing import CliRunner

from assay.cli.app import app as command
from assay.data import Dataset
from assay.errors import AgentFailure, FailureKind
from assay.evaluation.evaluation import Evaluation
from assay.evaluation.plan import open_agent
from assay.net.redact import quote, remember_secrets
from assay.run.config import RunConfig
from assay.targets.opening import open_target
from assay.targets.remedies import remedy_for
from assay.targets.target_kinds import TARGET_KINDS, OpenContext

MakeDataset = Callable[[int], Dataset]

KEY = "sk-live-0123456789"
WORDS = f"INDEX_MISSING: no index \x1b[31mfor\u202e you; key {KEY} " + "x" * 400
QUOTED = "INDEX_MISSING: no index \ufffd[31mfor\ufffd you; key *** "


@pytest.fixture(autouse=True)
def key_in_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VENDOR_KEY", KEY)


def a2a(answer: Callable[[Any], Response]) -> ASGIApp:
    """An agent whose every call is answered by `answer`, which is given the request's id."""

    async def card(request: Request) -> Response:
        interface = {
            "url": f"http://{request.url.netloc}/",
            "protocolBinding": "JSONRPC",
            "protocolVersion": "1.0",
        }
        return JSONResponse({"name": "x", "version": "1", "supportedInterfaces": [interface]})

    async def call(request: Request) -> Response:
        return answer((await request.json())["id"])

    return Starlette(
        routes=[Route("/.well-known/agent-card.json", card), Route("/", call, methods=["POST"])]
    )


def failed_task(request_id: Any) -> Response:
    message = {"messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": WORDS}]}
    task = {"id": "t", "status": {"state": "TASK_STATE_FAILED", "message": message}}
    return JSONResponse({"jsonrpc": "2.0", "id": request_id, "result": {"task": task}})


def rpc_error(request_id: Any) -> Response:
    error = {"code": -32000, "message": WORDS}
    return JSONResponse({"jsonrpc": "2.0", "id": request_id, "error": error})


def http_error(_request_id: Any) -> Response:
    return JSONResponse({"detail": WORDS}, 500)


def overload(_request_id: Any) -> Response:
    return JSONResponse({"error": {"message": WORDS}}, 429)


def contract(status: int) -> ASGIApp:
    async def health(_request: Request) -> Response:
        return JSONResponse({"status": "ok", "service": "x"})

    async def run(request: Request) -> Response:
        asked = await request.json()
        body = {
            "request_id": asked["request_id"],
            "task_type": asked["task_type"],
            "status": "error",
            "ok": False,
            "outputs": {},
            "error": {"code": "INTERNAL", "message": WORDS},
        }
        return JSONResponse(body, status)

    return Starlette(
        routes=[Route("/health", health), Route("/agents/run/sync", run, methods=["POST"])]
    )


def search(answer: Response) -> ASGIApp:
    async def respond(_request: Request) -> Response:
        return answer

    paths = ["/search", "/v1/chat/completions"]
    return Starlette(routes=[Route(path, respond, methods=["GET", "POST"]) for path in paths])


def mcp_tool() -> ASGIApp:
    server = MCPServer("search")

    @server.tool()
    def search_documents(query: str, top_k: int = 5) -> dict[str, Any]:
        raise ToolError(WORDS)

    return server.streamable_http_app()


def mcp_refusing(make: Callable[[Any], Response]) -> ASGIApp:
    """An MCP server of which every call of a tool is answered by `make`."""
    inner = mcp_tool()

    async def outer(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "POST":
            await inner(scope, receive, send)
            return
        body = await Request(scope, receive).body()
        if b"tools/call" in body:
            await make(json.loads(body)["id"])(scope, receive, send)
            return

        given = [{"type": "http.request", "body": body, "more_body": False}]

        async def replay() -> Message:
            return given.pop() if given else await receive()

        await inner(scope, replay, send)

    return outer


CASES: dict[str, tuple[Callable[[], ASGIApp], str]] = {
    "a2a status": (lambda: a2a(failed_task), "a2a:{url}"),
    "a2a JSON-RPC": (lambda: a2a(rpc_error), "a2a:{url}"),
    "a2a HTTP 500": (lambda: a2a(http_error), "a2a:{url}"),
    "a2a HTTP 429": (lambda: a2a(overload), "a2a:{url}"),
    "contract run": (lambda: contract(200), "http:{url}=RAG_RETRIEVE"),
    "contract HTTP": (lambda: contract(422), "http:{url}=RAG_RETRIEVE"),
    "rest": (
        lambda: search(JSONResponse({"message": WORDS}, 400)),
        "rest:{url}/search?q={{query}}",
    ),
    "openai": (lambda: search(JSONResponse({"error": {"message": WORDS}})), "openai:{url}/v1#m"),
    "openai HTTP": (lambda: search(Response(WORDS, 500)), "openai:{url}/v1#m"),
    "mcp tool": (mcp_tool, "mcp:{url}"),
    "mcp JSON-RPC": (lambda: mcp_refusing(rpc_error), "mcp:{url}"),
    "mcp HTTP 500": (lambda: mcp_refusing(http_error), "mcp:{url}"),
}


@pytest.mark.parametrize("case", CASES)
async def test_the_words_are_kept_in_every_protocol(make_dataset: MakeDataset, case: str) -> None:
    make, target = CASES[case]
    async with serving(make()) as url:
        agent = open_target(target.format(url=url), OpenContext(make_dataset(1)))
        await agent.open()
        try:
            with pytest.raises(AgentFailure) as failure:
                await agent.ask("query 0", 5)
        finally:
            await agent.close()
    assert QUOTED in failure.value.said
    assert len(failure.value.said) == 300
    assert "xxx" not in str(failure.value)


async def test_the_words_are_in_the_log_the_report_and_the_page(
    make_dataset: MakeDataset, tmp_path: Path
) -> None:
    data = make_dataset(2)
    async with serving(a2a(failed_task)) as url:
        config = RunConfig(target=f"a2a:{url}", warm_up=0)
        run = await Evaluation.plan(config, data).start(open_agent(config, data), tmp_path)
    calls = [json.loads(line) for line in run.folder.calls_file.read_text().splitlines()]
    assert [call["failure"]["said"][:13] for call in calls] == ["INDEX_MISSING"] * 2
    assert [row.said[:13] for row in run.rows()] == ["INDEX_MISSING"] * 2
    assert "it said: INDEX_MISSING: no index" in run.report.failure_examples["agent error"]
    page = run.folder.page_file.read_text()
    assert "it said: INDEX_MISSING: no index" in page
    for text in (page, run.folder.calls_file.read_text(), run.folder.report_file.read_text()):
        assert "sk-live" not in text
        assert "\x1b" not in text


async def test_doctor_quotes_the_agent() -> None:
    async with serving(a2a(overload)) as url:
        result = await asyncio.to_thread(
            CliRunner().invoke, command, ["doctor", f"a2a:{url}", "--json"]
        )
    (problem,) = [each for each in json.loads(result.stdout)["problems"] if each["grave"]]
    assert "HTTP 429; it said: INDEX_MISSING: no index" in problem["what"]
    assert problem["remedy"] == "the agent is at its limit: lower --concurrency, or raise the limit"


@pytest.mark.parametrize(
    ("text", "quoted"),
    [
        (b'{"error": {"code": 3, "message": "no such index"}}', "no such index"),
        (b'{"error": {"type": "parsing", "reason": "bad field"}}', "bad field"),
        (b'{"detail": [{"msg": "x"}]}', '{"detail": [{"msg": "x"}]}'),
        (b"<!doctype html><title>502 Bad Gateway</title><p>nginx", "502 Bad Gateway"),
        (b"<html><body><h1>Down</h1></body>", "Down"),
        ("two\n  lines\tand \x00 more", "two lines and \ufffd more"),
        (b"\xff\xfe", "\ufffd\ufffd"),
        ("", ""),
    ],
)
def test_what_is_quoted(text: str | bytes, quoted: str) -> None:
    assert quote(text) == quoted


def test_nothing_is_quoted_in_a_private_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASSAY_PRIVATE", "1")
    assert quote("the patient Jane Roe was not found") == ""


def test_a_secret_that_an_agent_repeats_is_masked() -> None:
    remember_secrets("hunter2")
    assert quote("wrong key hunter2") == "wrong key ***"


@pytest.mark.parametrize(
    ("status", "target", "remedy"),
    [
        (401, "a2a", "AGENT_TOKEN"),
        (401, "mcp", "MCP_SERVER_TOKEN"),
        (None, "python", "fix the function"),
        (403, "rest", "--header"),
        (429, "http", "--concurrency"),
        (503, "a2a", "loading"),
        (404, "rest", "check the URL"),
        (422, "rest", "compare the request with what the service expects"),
        (None, "a2a", "log"),
    ],
)
def test_the_remedy_fits_the_case(status: int | None, target: str, remedy: str) -> None:
    assert remedy in remedy_for(FailureKind.AGENT_ERROR, status, TARGET_KINDS[target].remedies)
