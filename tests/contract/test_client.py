"""The client reads any accepted dialect and resolves names; its failures are in tests/targets."""

from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from tests.contract.demo_agent import demo_service
from tests.contract.running import running
from tests.contract.tampering import CUT, OPEN, Reply, Tampered

from assay.contract.client import read_endpoints, resolve_agent, run_stream, run_sync
from assay.contract.envelope import AgentRunRequest, AgentRunResponse
from assay.contract.server import agent_app
from assay.errors import UsageError
from assay.net.client import open_client

INPUTS = {"query": "vitamin blood pressure"}
REQUEST = AgentRunRequest(request_id="r1", task_type="RAG_RETRIEVE", inputs=INPUTS)
DEMO = agent_app(demo_service())
both_ways = pytest.mark.parametrize("way", ["sync", "stream"])


async def ask(app: Any, way: str, request: AgentRunRequest = REQUEST) -> AgentRunResponse:
    async with running(app) as url, open_client() as http:
        run = run_sync if way == "sync" else run_stream
        return await run(http, url, request)


@both_ways
async def test_a_good_run_brings_its_response(way: str) -> None:
    response = await ask(DEMO, way)
    assert (response.status, response.outputs["count"]) == ("ok", 2)
    assert response.grounding is not None
    assert [chunk.doc_id for chunk in response.grounding.chunks] == ["d1", "d2"]


@both_ways
async def test_a_run_that_failed_is_a_response(way: str) -> None:
    response = await ask(DEMO, way, REQUEST.model_copy(update={"inputs": {}}))
    assert response.error is not None
    assert (response.ok, response.error.code) == (False, "VALIDATION_ERROR")


@pytest.mark.parametrize("after", [CUT, OPEN, b"event: done\ndata: {}\n\n"])
async def test_what_follows_the_terminal_event_is_not_read(after: Any) -> None:
    app = Tampered(DEMO, lambda reply: reply.with_body(*reply.pieces, after))
    assert (await ask(app, "stream")).outputs["count"] == 2


@pytest.mark.parametrize(
    ("said", "status"),
    [
        ({"ok": True, "outputs": {"a": 1}}, "ok"),
        ({"status": "success", "outputs": {"a": 1}}, "ok"),
        ({"success": True, "data": {"a": 1}}, "ok"),
        ({"status": "degraded", "outputs": {"a": 1}}, "degraded"),
        ({"status": "degraded", "ok": False, "outputs": {"a": 1}}, "error"),
    ],
)
@both_ways
async def test_every_accepted_dialect_is_read(way: str, said: dict[str, Any], status: str) -> None:
    body = {"request_id": "r1", "task_type": "RAG_RETRIEVE", **said}

    def change(reply: Reply) -> Reply:
        return reply.with_json(body) if way == "sync" else reply.with_events([("final", body)])

    response = await ask(Tampered(DEMO, change), way)
    assert (response.status, response.outputs) == (status, {"a": 1})


async def test_the_request_id_is_sent_as_a_header_too() -> None:
    async def answer(request: Request) -> Response:
        assert request.headers["x-request-id"] == "r\\xe9"
        assert None not in (await request.json()).values()
        return JSONResponse({"request_id": "r\u00e9", "status": "ok", "outputs": {}})

    app = Starlette(routes=[Route("/agents/run/sync", answer, methods=["POST"])])
    request = AgentRunRequest(request_id="r\u00e9", task_type="T")
    assert (await ask(app, "sync", request)).request_id == "r\u00e9"


def test_names_come_from_the_environment() -> None:
    text = '{"rag": "http://rag:8000/", "lit": "https://lit/agents"}'
    found = read_endpoints({"AGENT_ENDPOINTS_JSON": text})
    assert found == {"rag": "http://rag:8000", "lit": "https://lit/agents"}
    assert read_endpoints({}) == {}
    assert resolve_agent("rag", found) == "http://rag:8000"
    assert resolve_agent("http://host:1/x/", found) == "http://host:1/x"
    with pytest.raises(UsageError, match=r"'rga'.*has: lit, rag"):
        resolve_agent("rga", found)


@pytest.mark.parametrize(
    ("text", "said"),
    [("[]", "is not a JSON object"), ('{"rag": "rag:8000"}', "'rag': 'rag:8000' is not an http")],
)
def test_a_variable_that_cannot_be_read_says_why(text: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        read_endpoints({"AGENT_ENDPOINTS_JSON": text})


@pytest.mark.parametrize("address", ["http://me:s3cret@host:port", "http://h/?a=b", "ftp://host"])
def test_what_is_not_an_address_is_refused(address: str) -> None:
    with pytest.raises(UsageError, match=r"^agent: 'http|^agent: 'ftp") as caught:
        resolve_agent(address, {})
    assert "s3cret" not in str(caught.value)
