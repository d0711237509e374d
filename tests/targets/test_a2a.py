"""The client against agents that a test writes in a few lines, each on a real port."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from tests.targets.every_kind import ask

from assay.errors import AgentFailure, FailureKind

Answer = Callable[[dict[str, Any]], Response]
IDS = {"doc_ids": ["d1"]}


def done(call: dict[str, Any], state: str = "TASK_STATE_COMPLETED") -> dict[str, Any]:
    task = {"id": "t7", "status": {"state": state}, "artifacts": [{"parts": [{"data": IDS}]}]}
    return {"jsonrpc": "2.0", "id": call["id"], "result": {"task": task}}


def agent_app(answer: Answer, card_path: str = "/.well-known/agent-card.json") -> Starlette:
    async def rpc(request: Request) -> Response:
        return answer(await request.json())

    async def card(request: Request) -> Response:
        url = str(request.base_url)
        interface = {"protocolBinding": "JSONRPC", "protocolVersion": "1.0", "url": url}
        return JSONResponse({"name": "test", "supportedInterfaces": [interface]})

    return Starlette(
        routes=[Route(card_path, card, methods=["GET"]), Route("/", rpc, methods=["POST"])]
    )


async def asked(answer: Answer, *, streaming: bool = False) -> list[str]:
    target = "a2a:{url}#stream" if streaming else "a2a:{url}"
    return list((await ask(agent_app(answer), target)).doc_ids)


async def failure(answer: Answer, *, streaming: bool = False) -> AgentFailure:
    with pytest.raises(AgentFailure) as caught:
        await asked(answer, streaming=streaming)
    return caught.value


@pytest.mark.parametrize(
    ("path", "address"),
    [
        ("/.well-known/agent.json", ""),
        ("/", ""),
        ("/purple/.well-known/agent-card.json", "/purple/"),
        ("/purple/.well-known/agent-card.json", "/purple/.well-known/agent.json"),
        ("/.well-known/agent-card.json", "/purple"),
    ],
)
async def test_a_card_is_found_where_agents_put_it(path: str, address: str) -> None:
    app = agent_app(lambda call: JSONResponse(done(call)), path)
    assert (await ask(app, f"a2a:{{url}}{address}")).doc_ids == ("d1",)


async def test_a_task_that_is_answered_for_too_early_is_asked_after() -> None:
    methods = []

    def answer(call: dict[str, Any]) -> Response:
        methods.append(call["method"])
        if call["method"] == "SendMessage":
            return JSONResponse(done(call, "TASK_STATE_WORKING"))
        assert call["params"] == {"id": "t7"}
        ready = methods.count("GetTask") == 2
        result = done(call, "TASK_STATE_COMPLETED" if ready else "TASK_STATE_WORKING")
        return JSONResponse({**result, "result": result["result"]["task"]})

    assert await asked(answer) == ["d1"]
    assert methods == ["SendMessage", "GetTask", "GetTask"]


async def test_a_task_that_cannot_be_asked_after_is_not_asked_for_again() -> None:
    methods = []

    def answer(call: dict[str, Any]) -> Response:
        methods.append(call["method"])
        if call["method"] == "GetTask":
            return JSONResponse({"id": call["id"], "error": {"code": -32601, "message": "no"}})
        return JSONResponse(done(call, "TASK_STATE_SUBMITTED"))

    assert "later does not recognize" in str(await failure(answer))
    assert methods == ["SendMessage", "GetTask"]


async def test_an_agent_that_knows_no_version_is_told_so() -> None:
    error = {"code": -32601, "message": "no"}
    broken = await failure(lambda call: JSONResponse({"id": call["id"], "error": error}))
    assert broken.kind is FailureKind.PROTOCOL
    assert "neither A2A 1.0 over JSON-RPC nor A2A 0.3" in str(broken)


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (-32602, FailureKind.PROTOCOL),
        (-32603, FailureKind.AGENT_ERROR),
        ("E7", FailureKind.AGENT_ERROR),
    ],
)
@pytest.mark.parametrize("streaming", [True, False])
async def test_an_error_is_told_by_its_code_alone(
    code: object, kind: FailureKind, streaming: bool
) -> None:
    def answer(call: dict[str, Any]) -> Response:
        error = {"code": code, "message": "while answering 'coffee'", "data": ["trace"]}
        body = json.dumps({"jsonrpc": "2.0", "id": call["id"], "error": error})
        events = f"event: error\ndata: {body}\n\n"
        return Response(events, media_type="text/event-stream") if streaming else Response(body)

    broken = await failure(answer, streaming=streaming)
    assert broken.kind is kind
    assert "coffee" not in str(broken)


def stream(*results: dict[str, Any]) -> Answer:

    def answer(call: dict[str, Any]) -> Response:
        envelopes = [{"jsonrpc": "2.0", "id": call["id"], "result": each} for each in results]
        events = [f": ping\r\n\r\nid: 1\r\ndata: {json.dumps(each)}\r\n\r\n" for each in envelopes]
        return Response("".join(events), media_type="text/event-stream")

    return answer


@pytest.mark.parametrize("streaming", [True, False])
async def test_a_stream_is_read_whether_or_not_it_was_asked_for(streaming: bool) -> None:
    working = {"statusUpdate": {"taskId": "t", "status": {"state": "TASK_STATE_WORKING"}}}
    artifact = {"artifactUpdate": {"taskId": "t", "artifact": {"parts": [{"data": IDS}]}}}
    complete = {"statusUpdate": {"taskId": "t", "status": {"state": "TASK_STATE_COMPLETED"}}}
    assert await asked(stream(working, artifact, complete), streaming=streaming) == ["d1"]
