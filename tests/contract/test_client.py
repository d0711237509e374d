"""The client brings back a result or says exactly what was wrong."""

import asyncio
from contextlib import aclosing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from tests.contract.client_calls import REQUEST, ask, events_changed, follow, tampered
from tests.contract.conftest import Gate
from tests.contract.demo_agent import demo_service
from tests.contract.running import running
from tests.contract.tampering import CUT, OPEN, Reply, Tamper, bombed
from tests.loopback import free_port

from assay.contract.client import AgentClient
from assay.contract.envelope import AgentRunRequest
from assay.contract.responses import AgentCallError, Fault
from assay.contract.server.app import AgentService, ServingLimits, agent_app
from assay.net.client import TokenFor, open_client
from assay.serve.guards import BearerToken


@pytest.mark.parametrize("way", ["sync", "stream"])
async def test_a_good_run_brings_its_response(way: str) -> None:
    response = await ask(agent_app(demo_service()), way)
    assert (response.status, response.request_id) == ("ok", "r1")
    assert response.outputs["count"] == 2
    assert response.grounding is not None
    assert [chunk.doc_id for chunk in response.grounding.chunks] == ["d1", "d2"]


@pytest.mark.parametrize("way", ["sync", "stream"])
async def test_a_run_that_failed_is_a_response_and_no_exception(way: str) -> None:
    no_inputs = REQUEST.model_copy(update={"inputs": {}})
    async with running(agent_app(demo_service())) as url, AgentClient() as client:
        if way == "sync":
            response = await client.run_sync(url, no_inputs)
        else:
            events = [event async for event in client.run_stream(url, no_inputs)]
            assert events[-1].response is not None
            response = events[-1].response
    assert (response.status, response.ok) == ("error", False)
    assert response.error is not None
    assert response.error.code == "VALIDATION_ERROR"


async def test_progress_comes_before_the_result() -> None:
    async with running(agent_app(demo_service())) as url, AgentClient() as client:
        events = await follow(client, url)
    assert [event.name for event in events] == ["started", "progress", "progress", "final"]
    assert events[1].data["step"] == "index ready"
    assert [event.response is not None for event in events] == [False, False, False, True]


@pytest.mark.parametrize("name", ["final", "complete", "done"])
async def test_the_terminal_event_is_known_by_any_of_its_names(name: str) -> None:
    app = events_changed(lambda events: [*events[:-1], (name, events[-1][1])])
    assert (await ask(app, "stream")).outputs["count"] == 2


async def test_the_terminal_event_is_known_by_its_type_alone() -> None:
    def without_names(reply: Reply) -> Reply:
        lines = reply.body.splitlines(keepends=True)
        return reply.with_body(b"".join(line for line in lines if line[:6] != b"event:"))

    assert (await ask(tampered(without_names), "stream")).outputs["count"] == 2


@pytest.mark.parametrize(
    "dialect",
    [
        {"ok": True, "outputs": {"a": 1}},
        {"status": "success", "outputs": {"a": 1}},
        {"success": True, "data": {"a": 1}},
        {"status": "ok", "outputs": {"a": 1}, "error": None, "grounding": None},
    ],
)
@pytest.mark.parametrize("way", ["sync", "stream"])
async def test_every_accepted_dialect_is_read(way: str, dialect: dict[str, Any]) -> None:
    said = {"request_id": "r1", "task_type": "RAG_RETRIEVE", **dialect}

    def change(reply: Reply) -> Reply:
        return reply.with_json(said) if way == "sync" else reply.with_events([("final", said)])

    response = await ask(tampered(change), way)
    assert (response.status, response.outputs) == ("ok", {"a": 1})


@pytest.mark.parametrize(
    ("said", "status"),
    [
        ({"status": "degraded"}, "degraded"),
        ({"status": "degraded", "ok": True}, "degraded"),
        ({"status": "degraded", "ok": False}, "error"),
    ],
)
async def test_a_degraded_answer_stays_one_unless_it_failed(
    said: dict[str, Any], status: str
) -> None:
    app = tampered(lambda r: r.with_json({"request_id": "r1", "outputs": {}, **said}))
    assert (await ask(app, "sync")).status == status


async def test_a_malformed_extra_is_left_out_and_named() -> None:
    app = tampered(lambda r: r.with_json({**r.json, "grounding": {"chunks": 5}, "usage": "much"}))
    response = await ask(app, "sync")
    assert response.outputs["count"] == 2
    assert response.grounding is None
    assert response.warnings == [
        "malformed and left out: grounding",
        "malformed and left out: usage",
    ]


HEARTBEATS: tuple[bytes | float, ...] = (b": hi\n\n", 0.05) * 99


DRIPS: tuple[bytes | float, ...] = (b" ", 0.05) * 99


BAD_STREAMS: list[tuple[str, Tamper, Fault]] = [
    ("ends early", lambda r: r.with_events(r.events[:-1]), Fault.TRUNCATED),
    ("is cut", lambda r: r.with_body(*r.pieces[:-1], CUT), Fault.TRUNCATED),
    ("is cut in an event", lambda r: r.with_body(r.body[:-9], CUT), Fault.TRUNCATED),
    ("does not end its event", lambda r: r.with_body(r.body.rstrip()), Fault.TRUNCATED),
    ("is empty", lambda r: r.with_body(), Fault.TRUNCATED),
    ("is not events", lambda r: r.with_body(b'{"status": "ok"}\n\n'), Fault.FRAMING),
    (
        "has two ends",
        lambda r: r.with_events([*r.events, ("complete", r.events[-1][1])]),
        Fault.SECOND_TERMINAL,
    ),
    ("goes on", lambda r: r.with_events([*r.events, ("progress", {})]), Fault.AFTER_TERMINAL),
    ("says it is JSON", lambda r: replace(r, content_type="application/json"), Fault.CONTENT_TYPE),
    ("stays open", lambda r: r.with_body(r.body, OPEN), Fault.ENDLESS),
    ("never gets to an end", lambda r: r.with_body(*HEARTBEATS), Fault.ENDLESS),
    ("falls silent", lambda r: r.with_body(r.pieces[0], OPEN), Fault.IDLE),
    ("is a gzip bomb", bombed, Fault.TOO_LARGE),
    ("drips an error", lambda r: replace(r, status=500, pieces=DRIPS), Fault.TIMEOUT),
    ("is too large", lambda r: r.with_body(b": x\n\n" * 100_000), Fault.TOO_LARGE),
    ("has one endless event", lambda r: r.with_body(b"data: x" * 100_000), Fault.TOO_LARGE),
    ("ends in no JSON", lambda r: r.with_body(b"event: final\ndata: ?\n\n"), Fault.NOT_JSON),
    ("ends without a result", lambda r: r.with_events([("final", {})]), Fault.NOT_CONTRACT),
    (
        "answers another request",
        lambda r: r.with_events([("final", {**r.events[-1][1], "request_id": "other"})]),
        Fault.NOT_CONTRACT,
    ),
    (
        "answers another task",
        lambda r: r.with_events([("final", {**r.events[-1][1], "task_type": "OTHER"})]),
        Fault.NOT_CONTRACT,
    ),
]


@pytest.mark.parametrize(
    ("tamper", "fault"), [(t, f) for _, t, f in BAD_STREAMS], ids=[name for name, *_ in BAD_STREAMS]
)
async def test_a_bad_stream_is_reported_as_what_it_is(tamper: Tamper, fault: Fault) -> None:
    limits = {"stream_s": 2.0, "idle_s": 1.0, "linger_s": 0.2, "max_bytes": 100_000}
    with pytest.raises(AgentCallError) as caught:
        await ask(tampered(tamper), "stream", **limits)
    assert caught.value.fault is fault


@pytest.mark.parametrize("fault", [Fault.SECOND_TERMINAL, Fault.AFTER_TERMINAL, Fault.ENDLESS])
async def test_a_breach_after_the_end_does_not_lose_the_result(fault: Fault) -> None:
    tamper = next(tamper for _, tamper, each in BAD_STREAMS if each is fault)
    with pytest.raises(AgentCallError) as caught:
        await ask(tampered(tamper), "stream", linger_s=0.2)
    assert caught.value.response is not None
    assert caught.value.response.outputs["count"] == 2


BAD_ANSWERS: list[tuple[str, Tamper, Fault]] = [
    ("not JSON", lambda r: r.with_body(b"<html>"), Fault.NOT_JSON),
    ("a list", lambda r: r.with_json([]), Fault.NOT_CONTRACT),
    ("no outputs", lambda r: r.with_json({"request_id": "r1", "ok": True}), Fault.NOT_CONTRACT),
    ("undecided", lambda r: r.with_json({**r.json, "ok": False}), Fault.NOT_CONTRACT),
    ("no id", lambda r: r.with_json({"ok": True, "outputs": {}}), Fault.NOT_CONTRACT),
    ("another id", lambda r: r.with_json({**r.json, "request_id": "x"}), Fault.NOT_CONTRACT),
    ("says HTML", lambda r: replace(r, content_type="text/html"), Fault.CONTENT_TYPE),
    ("too large", lambda r: r.with_body(b" " * 100_001), Fault.TOO_LARGE),
    ("gzip bomb", bombed, Fault.TOO_LARGE),
    (
        "unknown encoding",
        lambda r: replace(r, headers=((b"content-encoding", b"br"),)),
        Fault.CONTENT_TYPE,
    ),
    ("dripping error", lambda r: replace(r, status=500, pieces=DRIPS), Fault.TIMEOUT),
    ("cut", lambda r: r.with_body(r.body[:9], CUT), Fault.CUT_OFF),
    ("silent", lambda r: r.with_body(OPEN), Fault.TIMEOUT),
    ("dripping", lambda r: r.with_body(*DRIPS), Fault.TIMEOUT),
    ("500", lambda r: replace(r, status=500), Fault.SERVER_ERROR),
    ("redirect", lambda r: replace(r, status=307), Fault.REDIRECT),
    ("overloaded", lambda r: replace(r, status=503), Fault.OVERLOADED),
]


@pytest.mark.parametrize(
    ("tamper", "fault"), [(t, f) for _, t, f in BAD_ANSWERS], ids=[name for name, *_ in BAD_ANSWERS]
)
async def test_a_bad_answer_is_reported_as_what_it_is(tamper: Tamper, fault: Fault) -> None:
    with pytest.raises(AgentCallError) as caught:
        await ask(tampered(tamper), "sync", sync_s=1.0, max_bytes=100_000)
    assert caught.value.fault is fault


async def test_an_agent_that_is_not_there_is_unreachable() -> None:
    port = free_port()
    async with AgentClient() as client:
        with pytest.raises(AgentCallError) as caught:
            await client.run_sync(f"http://127.0.0.1:{port}", REQUEST)
    assert caught.value.fault is Fault.UNREACHABLE
    assert (caught.value.retryable, caught.value.exit_code) == (True, 3)


@pytest.mark.parametrize("way", ["sync", "stream"])
async def test_a_refusal_carries_what_the_agent_said(way: str) -> None:
    service = AgentService("other", "OTHER_TASK", demo_service().work)
    with pytest.raises(AgentCallError, match="UNSUPPORTED_TASK_TYPE") as caught:
        await ask(agent_app(service), way)
    error = caught.value
    assert (error.fault, error.status_code, error.retryable) == (Fault.REFUSED, 400, False)
    assert error.response is not None
    assert error.response.request_id == "r1"


async def test_an_overloaded_agent_says_when_to_come_back() -> None:
    app = agent_app(demo_service(ServingLimits(max_running=0)))
    with pytest.raises(AgentCallError) as caught:
        await ask(app, "sync")
    assert (caught.value.fault, caught.value.retry_after) == (Fault.OVERLOADED, 1.0)
    assert caught.value.retryable


async def test_a_date_in_retry_after_is_read() -> None:
    when = format_datetime(datetime.now(UTC) + timedelta(seconds=90), usegmt=True).encode()
    app = tampered(lambda r: replace(r, status=503, headers=((b"retry-after", when),)))
    with pytest.raises(AgentCallError) as caught:
        await ask(app, "sync")
    assert caught.value.retry_after == pytest.approx(90, abs=5)


@pytest.mark.parametrize("leave", ["break", "cancel"])
async def test_leaving_a_stream_stops_the_work(gate: Gate, leave: str) -> None:
    service = AgentService("gate", "RAG_RETRIEVE", gate.work)
    async with running(agent_app(service)) as url, AgentClient() as client:
        if leave == "break":
            async with aclosing(client.run_stream(url, REQUEST)) as events:
                async for event in events:
                    if event.name == "progress":
                        break
        else:
            following = asyncio.create_task(follow(client, url))
            await gate.entered.wait()
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)
        await asyncio.wait_for(gate.left.wait(), 5)
    assert gate.cancelled == 1


async def test_the_request_id_is_sent_as_a_header_too() -> None:
    seen: list[Any] = []

    async def record(request: Request) -> Response:
        seen.append((request.headers["x-request-id"], await request.json()))
        said = {"request_id": "r\u00e9", "status": "ok", "outputs": {}}
        return JSONResponse(said)

    app = Starlette(routes=[Route("/agents/run/sync", record, methods=["POST"])])
    request = AgentRunRequest(request_id="r\u00e9", task_type="T")
    async with running(app) as url, AgentClient() as client:
        await client.run_sync(url, request)
    assert seen[0][0] == "r\\xe9"
    assert seen[0][1]["request_id"] == "r\u00e9"
    assert None not in seen[0][1].values()


async def test_a_client_that_was_given_is_shared_and_left_open() -> None:
    async with running(agent_app(demo_service())) as url, open_client() as http:
        async with AgentClient(http=http, endpoints={"demo": url}) as client:
            assert (await client.run_sync("demo", REQUEST)).ok
        assert not http.is_closed


@pytest.mark.parametrize("way", ["sync", "stream"])
@pytest.mark.parametrize("depth", [150, 900])
async def test_an_answer_that_is_nested_too_deeply_is_called_that(way: str, depth: int) -> None:
    said = b'{"request_id": "r1", "status": "ok", "outputs": {"a": %s}}' % (
        b"[" * depth + b"]" * depth
    )
    event = b"event: final\ndata: " + said + b"\n\n"
    app = tampered(lambda reply: reply.with_body(said if way == "sync" else event))
    with pytest.raises(AgentCallError, match="nested too deeply") as caught:
        await ask(app, way)
    assert caught.value.fault is Fault.NOT_CONTRACT


@pytest.mark.parametrize("way", ["sync", "stream"])
async def test_a_token_is_sent_to_agents_that_ask_for_one(way: str) -> None:
    app = BearerToken(agent_app(demo_service()), "t0ken")
    async with (
        running(app) as url,
        AgentClient(auth=TokenFor(url, "t0ken")) as client,
        AgentClient() as stranger,
    ):
        if way == "sync":
            assert (await client.run_sync(url, REQUEST)).ok
        else:
            assert (await follow(client, url))[-1].response is not None
        with pytest.raises(AgentCallError, match="HTTP 401"):
            await stranger.run_sync(url, REQUEST)


async def test_a_password_in_an_address_is_not_in_an_error() -> None:
    port = free_port()
    async with AgentClient() as client:
        said = rf"no connection to http://127.0.0.1:{port} \(connection refused\)"
        with pytest.raises(AgentCallError, match=said) as no:
            await client.run_sync(f"http://me:s3cret@127.0.0.1:{port}", REQUEST)
    assert "s3cret" not in str(no.value)
