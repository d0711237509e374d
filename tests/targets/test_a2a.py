"""The client against agents that a test writes in a few lines, each on a real port."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from tests.targets.every_kind import answering, ask

from assay.errors import AgentFailure, FailureKind

Answer = Callable[[dict[str, Any]], Response]
IDS = {"doc_ids": ["d1"]}
WAYS = ["", "#stream"]


def done(call: dict[str, Any], state: str = "TASK_STATE_COMPLETED") -> dict[str, Any]:
    task = {"id": "t7", "status": {"state": state}, "artifacts": [{"parts": [{"data": IDS}]}]}
    return {"jsonrpc": "2.0", "id": call["id"], "result": {"task": task}}


def agent_app(answer: Answer, card_path: str = "/.well-known/agent-card.json") -> Starlette:
    def endpoint(call: Any, request: Request) -> Response:
        if request.method == "POST":
            return answer(call)
        interface = {"protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
        card = {
            "name": "test",
            "supportedInterfaces": [{**interface, "url": str(request.base_url)}],
        }
        return JSONResponse(card, 200 if request.url.path == card_path else 404)

    return answering(endpoint)


async def asked(answer: Answer, way: str = "") -> list[str]:
    return list((await ask(agent_app(answer), f"a2a:{{url}}{way}")).doc_ids)


async def failure(answer: Answer, way: str = "") -> AgentFailure:
    with pytest.raises(AgentFailure) as caught:
        await asked(answer, way)
    return caught.value


@pytest.mark.parametrize(
    ("path", "address"),
    [
        ("/.well-known/agent.json", ""),
        ("/", ""),
        ("/purple/.well-known/agent-card.json", "/purple/"),
        ("/purple/.well-known/agent-card.json", "/purple/.well-known/agent.json"),
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


@pytest.mark.parametrize(
    ("unknown", "said"),
    [(("GetTask",), "later does not recognize"), (("GetTask", "SendMessage"), "neither A2A 1.0")],
)
async def test_a_method_that_the_agent_does_not_know(unknown: tuple[str, ...], said: str) -> None:
    def answer(call: dict[str, Any]) -> Response:
        error = {"id": call["id"], "error": {"code": -32601, "message": "no"}}
        known = call["method"] == "SendMessage" and "SendMessage" not in unknown
        return JSONResponse(done(call, "TASK_STATE_SUBMITTED") if known else error)

    broken = await failure(answer)
    assert broken.kind is FailureKind.PROTOCOL
    assert said in str(broken)


@pytest.mark.parametrize(
    ("code", "kind"), [(-32602, FailureKind.PROTOCOL), ("E7", FailureKind.AGENT_ERROR)]
)
@pytest.mark.parametrize("way", WAYS)
async def test_an_error_is_told_by_its_code(code: object, kind: FailureKind, way: str) -> None:
    def answer(call: dict[str, Any]) -> Response:
        error = {"code": code, "message": "while answering 'coffee'", "data": ["trace"]}
        body = json.dumps({"jsonrpc": "2.0", "id": call["id"], "error": error})
        events = f"event: error\ndata: {body}\n\n"
        return Response(events, media_type="text/event-stream") if way else Response(body)

    broken = await failure(answer, way)
    assert broken.kind is kind
    assert "coffee" not in str(broken)


@pytest.mark.parametrize("way", WAYS)
async def test_a_stream_is_read_whether_or_not_it_was_asked_for(way: str) -> None:
    working = {"statusUpdate": {"taskId": "t", "status": {"state": "TASK_STATE_WORKING"}}}
    artifact = {"artifactUpdate": {"taskId": "t", "artifact": {"parts": [{"data": IDS}]}}}
    complete = {"statusUpdate": {"taskId": "t", "status": {"state": "TASK_STATE_COMPLETED"}}}

    def answer(call: dict[str, Any]) -> Response:
        results = (working, artifact, complete)
        envelopes = [{"jsonrpc": "2.0", "id": call["id"], "result": each} for each in results]
        events = [f": ping\r\n\r\nid: 1\r\ndata: {json.dumps(each)}\r\n\r\n" for each in envelopes]
        return Response("".join(events), media_type="text/event-stream")

    assert await asked(answer, way) == ["d1"]
