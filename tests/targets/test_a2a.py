"""The client against agents that a test writes in a few lines, each on a real port."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from tests.contract.running import running

from assay.errors import AgentFailure, FailureKind
from assay.targets.a2a import A2AAgent

Answer = Callable[[dict[str, Any]], Response]
IDS = {"doc_ids": ["d1"]}


def done(call: dict[str, Any], state: str = "TASK_STATE_COMPLETED") -> dict[str, Any]:
    task = {"id": "t7", "status": {"state": state}, "artifacts": [{"parts": [{"data": IDS}]}]}
    return {"jsonrpc": "2.0", "id": call["id"], "result": {"task": task}}


def agent_app(
    answer: Answer, card_path: str = "/.well-known/agent-card.json", version: str = "1.0"
) -> Starlette:
    async def rpc(request: Request) -> Response:
        return answer(await request.json())

    async def card(request: Request) -> Response:
        url = str(request.base_url)
        interface = {"protocolBinding": "JSONRPC", "protocolVersion": version, "url": url}
        return JSONResponse({"name": "test", "supportedInterfaces": [interface]})

    return Starlette(
        routes=[Route(card_path, card, methods=["GET"]), Route("/", rpc, methods=["POST"])]
    )


async def asked(answer: Answer, **options: Any) -> list[str]:
    async with running(agent_app(answer)) as url:
        agent = A2AAgent(url, **options)
        try:
            await agent.open()
            return list((await agent.ask("secret question", 3)).doc_ids)
        finally:
            await agent.close()


async def failure(answer: Answer, **options: Any) -> AgentFailure:
    with pytest.raises(AgentFailure) as caught:
        await asked(answer, **options)
    return caught.value


@pytest.mark.parametrize("path", ["/.well-known/agent.json", "/"])
async def test_a_card_is_found_where_older_agents_put_it(path: str) -> None:
    async with running(agent_app(lambda call: JSONResponse(done(call)), path)) as url:
        agent = A2AAgent(url)
        await agent.open()
        answer = await agent.ask("q", 1)
        await agent.close()
    assert answer.doc_ids == ("d1",)


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
        (-32700, FailureKind.PROTOCOL),
        (-32602, FailureKind.PROTOCOL),
        (-32603, FailureKind.AGENT_ERROR),
        (-32001, FailureKind.AGENT_ERROR),
        ("E7", FailureKind.AGENT_ERROR),
    ],
)
async def test_an_error_is_told_by_its_code_alone(code: object, kind: FailureKind) -> None:
    error = {"code": code, "message": "while answering 'secret question'", "data": ["trace"]}
    broken = await failure(lambda call: JSONResponse({"id": call["id"], "error": error}))
    assert broken.kind is kind
    assert "secret" not in str(broken)


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


async def test_an_error_may_come_in_the_middle_of_a_stream() -> None:
    def answer(call: dict[str, Any]) -> Response:
        error = {"jsonrpc": "2.0", "id": call["id"], "error": {"code": -32603, "message": "x"}}
        content = f"event: error\ndata: {json.dumps(error)}\n\n"
        return Response(content, media_type="text/event-stream")

    assert str(await failure(answer, streaming=True)) == "error -32603"
