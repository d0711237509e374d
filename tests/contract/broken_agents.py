"""Good agents with one fault each: how it is planted, and the rules that must name it."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

from tests.contract.demo_agent import demo_service
from tests.contract.tampering import CUT, OPEN, Reply, Tamper, Tampered

from assay.contract.probes import UNKNOWN_TASK, CheckLimits
from assay.contract.server import agent_app

Body = dict[str, Any]
Events = list[tuple[str, Body]]


class Broken(NamedTuple):
    """`rules` are all that the checker may report, no more and no less."""

    rules: str
    tamper: Tamper
    limits: CheckLimits = CheckLimits()


# Which answers are spoiled


def on_run(way: str, change: Tamper) -> Tamper:
    """Successful answers to the valid request, in one of the two ways."""

    def tamper(reply: Reply) -> Reply:
        good = reply.way == way and reply.status == 200 and reply.terminal.get("ok") is True
        return change(reply) if good else reply

    return tamper


def sync(change: Callable[[Body], Any]) -> Tamper:
    def changed_body(reply: Reply) -> Reply:
        body = reply.json
        change(body)
        return reply.with_json(body)

    return on_run("sync", changed_body)


def stream(change: Callable[[Events], Events]) -> Tamper:
    return on_run("stream", lambda reply: reply.with_events(change(reply.events)))


def terminal(change: Callable[[Body], Any]) -> Tamper:
    def changed_events(events: Events) -> Events:
        change(events[-1][1])
        return events

    return stream(changed_events)


def stream_body(change: Callable[[bytes], bytes]) -> Tamper:
    return on_run("stream", lambda reply: reply.with_body(change(reply.body)))


def refusal(way: str, matches: Callable[[Any], bool], change: Tamper) -> Tamper:

    def tamper(reply: Reply) -> Reply:
        refused = reply.way == way and reply.status >= 400
        return change(reply) if refused and matches(reply.sent) else reply

    return tamper


def failed_run(way: str, change: Tamper) -> Tamper:
    def tamper(reply: Reply) -> Reply:
        failed = reply.way == way and reply.status == 200 and "query" not in reply.sent["inputs"]
        return change(reply) if failed else reply

    return tamper


def endpoint(path: str, change: Tamper) -> Tamper:
    return lambda reply: change(reply) if reply.path == path else reply


def once(change: Tamper) -> Tamper:
    left = [change]
    return on_run("sync", lambda reply: left.pop()(reply) if left else reply)


def task_unknown(sent: Any) -> bool:
    return isinstance(sent, dict) and sent.get("task_type") == UNKNOWN_TASK


def field_missing(sent: Any) -> bool:
    return isinstance(sent, dict) and not (sent.get("request_id") and sent.get("task_type"))


def type_wrong(sent: Any) -> bool:
    return isinstance(sent, dict) and isinstance(sent["inputs"], str)


# How they are spoiled


def without(name: str) -> Callable[[Body], Any]:
    return lambda body: body.pop(name, None)


def having(**fields: Any) -> Callable[[Body], Any]:
    return lambda body: body.update(fields)


def changed(**fields: Any) -> Tamper:
    return lambda reply: reply.with_json({**reply.json, **fields})


def lacking(name: str) -> Tamper:
    return lambda reply: reply.with_json({k: v for k, v in reply.json.items() if k != name})


def typed(content_type: str) -> Tamper:
    return lambda reply: replace(reply, content_type=content_type)


def ending_in(*pieces: bytes | float | str) -> Tamper:
    return on_run("stream", lambda reply: reply.with_body(*reply.pieces[:-1], *pieces))


def before(events: bytes) -> Tamper:
    return stream_body(lambda body: events + body)


def accepted(reply: Reply) -> Reply:
    body = {**reply.json, "status": "ok", "ok": True}
    body.pop("error")
    return reply.with_json(body, status=200)


def crashed(reply: Reply) -> Reply:
    return replace(reply, status=500, content_type="text/plain", pieces=(b"Internal Server Error",))


def echoing_framework(reply: Reply) -> Reply:
    """What a popular framework answers by default, input and all."""
    problem = {"type": "missing", "loc": ["body", "request_id"], "input": reply.sent}
    return reply.with_json({"detail": [problem]}, status=422)


def silent_before_the_end(reply: Reply) -> Reply:
    return reply.with_body(*reply.pieces[:-1], 0.8, reply.pieces[-1])


def nested_null(body: Body) -> None:
    body["grounding"]["chunks"][0]["doc_id"] = None


def without_success(body: Body) -> None:
    body["status"] = "finished"
    del body["ok"]


def without_event_lines(body: bytes) -> bytes:
    lines = body.splitlines(keepends=True)
    return b"".join(line for line in lines if not line.startswith(b"event:"))


A_LIST = b"event: final\ndata: [1]\n\n"
NO_ERROR = {"code": "TASK_FAILED", "message": "none"}
OWN_CODE = {"code": "NOPE", "message": "no"}
DEGRADED = {"status": "degraded"}
SHORT_STREAM, SOON = CheckLimits(stream_s=2.0), CheckLimits(first_event_s=0.5)

BROKEN_AGENTS = [
    # Sync responses
    Broken("sync-request-id", sync(having(request_id="x"))),
    Broken("sync-outputs", sync(having(outputs=[]))),
    Broken("sync-outputs", sync(lambda body: body.update(data=body.pop("outputs")))),
    Broken("sync-success", sync(without_success)),
    Broken("response-indicators", sync(having(ok=False))),
    Broken("response-indicators", sync(having(error=NO_ERROR))),
    Broken("response-no-null", sync(nested_null)),
    Broken("budget-tokens", sync(having(usage={"output_tokens": 40}))),
    Broken("response-fields", sync(having(grounding={"chunks": [{}]}))),
    Broken("sync-json", on_run("sync", typed("text/html"))),
    Broken("sync-json", on_run("sync", lambda r: r.with_body(b"ok"))),
    Broken("sync-json", on_run("sync", lambda r: r.with_body(r.body[:9], CUT))),
    Broken("sync-status", on_run("sync", crashed)),
    Broken("sync-status", once(lambda r: r.with_body(OPEN)), CheckLimits(sync_s=2)),
    Broken("sync-recommended", sync(without("status"))),
    Broken("sync-recommended", sync(without("usage"))),
    # Streams
    Broken("stream-status", on_run("stream", crashed)),
    Broken("stream-status", stream_body(lambda _: b"")),
    Broken("terminal-one", stream(lambda e: [*e, ("complete", e[-1][1])])),
    Broken("terminal-one", stream(lambda e: e[:-1])),
    Broken("terminal-one", ending_in(A_LIST)),
    Broken("terminal-one stream-time", ending_in(CUT)),
    Broken("terminal-one stream-framing", stream_body(lambda b: b.rstrip(b"\n"))),
    Broken("terminal-last", stream(lambda e: [*e, ("progress", {})])),
    Broken("terminal-last", on_run("stream", lambda r: r.with_body(r.body, OPEN)), SHORT_STREAM),
    Broken("terminal-request-id", terminal(having(request_id=""))),
    Broken("terminal-task-type", terminal(without("task_type"))),
    Broken("terminal-status", terminal(without("status"))),
    Broken("terminal-outputs", terminal(without("outputs"))),
    Broken("terminal-success", terminal(without_success)),
    Broken("terminal-success", terminal(having(status="error", ok=False))),
    Broken("response-fields", terminal(having(artifacts={}))),
    Broken("stream-framing", on_run("stream", typed("application/json"))),
    Broken("stream-framing", stream_body(without_event_lines)),
    Broken("stream-framing", before(b"{}\n\n")),
    Broken("stream-framing", before(b"event: ping\n\n")),
    Broken("stream-framing", before(b"event: progress\ndata: half\n\n")),
    Broken("stream-framing", stream_body(lambda b: b.replace(b"anked", b"\xe9"))),
    Broken("stream-type", stream_body(lambda b: b.replace(b'"type":', b'"k":'))),
    Broken("stream-started", stream(lambda e: [("started", {"request_id": "x"}), *e[1:]])),
    Broken("stream-time", on_run("stream", lambda r: r.with_body(1.0, r.body)), SOON),
    Broken("stream-time", on_run("stream", silent_before_the_end), CheckLimits(heartbeat_s=0.5)),
    # Refusals and failed runs
    Broken("unknown-task-refused", refusal("stream", task_unknown, accepted)),
    Broken("unknown-task", refusal("sync", task_unknown, lambda r: r.with_body(b"no"))),
    Broken("unknown-task", refusal("stream", task_unknown, lacking("outputs"))),
    Broken("error-object", refusal("sync", task_unknown, changed(error=OWN_CODE))),
    Broken("error-object", refusal("sync", task_unknown, lacking("error"))),
    Broken("error-object", failed_run("sync", changed(outputs={"a": 1}))),
    Broken("response-no-null", refusal("sync", task_unknown, changed(task_type=None))),
    Broken("malformed-request", refusal("sync", lambda sent: sent is None, crashed)),
    Broken("malformed-request", refusal("stream", type_wrong, crashed)),
    Broken("no-echo malformed-request", refusal("sync", field_missing, echoing_framework)),
    Broken("required-fields malformed-request", refusal("stream", field_missing, accepted)),
    Broken("sync-failed-run", failed_run("sync", crashed)),
    Broken("stream-failed-run", failed_run("stream", lambda r: r.with_events(r.events[:-1]))),
    Broken("stream-failed-run", failed_run("stream", lambda r: r.with_body(A_LIST))),
    # Health
    Broken("health", endpoint("/health", lambda r: replace(r, status=404))),
    Broken("health", endpoint("/health", lambda r: r.with_json({"status": "ok"}))),
    Broken("health-ready", endpoint("/health/ready", lambda r: r.with_json({"status": "up"}))),
    Broken("health-ready", endpoint("/health/ready", lambda r: r.with_json(DEGRADED, status=503))),
]


def broken(rules: str) -> Tampered:
    tamper = next(each.tamper for each in BROKEN_AGENTS if each.rules == rules)
    return Tampered(agent_app(demo_service()), tamper)
