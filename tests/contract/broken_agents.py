"""Good agents with one fault each: how it is planted, and the rules that must name it."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from tests.contract.tampering import CUT, OPEN, Reply, Tamper

from assay.contract.probes import UNKNOWN_TASK, CheckLimits

Body = dict[str, Any]
Events = list[tuple[str, Body]]


@dataclass(frozen=True)
class Broken:
    """`rules` are all that the checker may report, no more and no less."""

    name: str
    tamper: Tamper
    rules: str
    limits: CheckLimits = CheckLimits()  # noqa: RUF009


# --- which answers are spoiled --------------------------------------------------------------------


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
    """Answers to requests that were refused, by way and by what was sent."""

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


def json_broken(sent: Any) -> bool:
    return sent is None


def field_missing(sent: Any) -> bool:
    return isinstance(sent, dict) and not (sent.get("request_id") and sent.get("task_type"))


def type_wrong(sent: Any) -> bool:
    return isinstance(sent, dict) and isinstance(sent["inputs"], str)


# --- how they are spoiled -------------------------------------------------------------------------


def without(name: str) -> Callable[[Body], Any]:
    return lambda body: body.pop(name, None)


def renamed(name: str, other: str) -> Callable[[Body], Any]:
    return lambda body: body.update({other: body.pop(name)})


def having(**fields: Any) -> Callable[[Body], Any]:
    return lambda body: body.update(fields)


def changed(**fields: Any) -> Tamper:
    return lambda reply: reply.with_json({**reply.json, **fields})


def lacking(name: str) -> Tamper:
    return lambda reply: reply.with_json({k: v for k, v in reply.json.items() if k != name})


def typed(content_type: str) -> Tamper:
    return lambda reply: replace(reply, content_type=content_type)


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


def nested_null(body: Body) -> None:
    body["grounding"]["chunks"][0]["doc_id"] = None


def without_success(body: Body) -> None:
    body["status"] = "finished"
    del body["ok"]


def without_event_lines(body: bytes) -> bytes:
    lines = body.splitlines(keepends=True)
    return b"".join(line for line in lines if not line.startswith(b"event:"))


NO_ERROR = {"code": "TASK_FAILED", "message": "none"}

BROKEN_AGENTS = [
    # --- sync responses
    Broken("sync echoes another id", sync(having(request_id="x")), "sync-request-id"),
    Broken("sync outputs is a list", sync(having(outputs=[])), "sync-outputs"),
    Broken("sync calls its outputs data", sync(renamed("outputs", "data")), "sync-outputs"),
    Broken("sync without success indicator", sync(without_success), "sync-success"),
    Broken("sync contradicts itself", sync(having(ok=False)), "response-indicators"),
    Broken("sync sends a nested null", sync(nested_null), "response-no-null"),
    Broken("success with an error", sync(having(error=NO_ERROR)), "response-indicators"),
    Broken("too many tokens", sync(having(usage={"output_tokens": 40})), "budget-tokens"),
    Broken("grounding is malformed", sync(having(grounding={"chunks": [{}]})), "response-fields"),
    Broken("sync says it is HTML", on_run("sync", typed("text/html")), "sync-json"),
    Broken("sync is not JSON", on_run("sync", lambda r: r.with_body(b"ok")), "sync-json"),
    Broken("sync breaks off", on_run("sync", lambda r: r.with_body(r.body[:9], CUT)), "sync-json"),
    Broken("sync crashes", on_run("sync", crashed), "sync-status"),
    Broken(
        "sync is too slow", once(lambda r: r.with_body(OPEN)), "sync-status", CheckLimits(sync_s=2)
    ),
    Broken("sync without status", sync(without("status")), "sync-recommended"),
    Broken("sync leaves out usage", sync(without("usage")), "sync-recommended"),
    # --- streams
    Broken("stream is JSON", on_run("stream", typed("application/json")), "stream-framing"),
    Broken("stream crashes", on_run("stream", crashed), "stream-status"),
    Broken("stream is empty", stream_body(lambda _: b""), "stream-status"),
    Broken("no terminal event", stream(lambda e: e[:-1]), "terminal-one"),
    Broken("two terminal events", stream(lambda e: [*e, ("complete", e[-1][1])]), "terminal-one"),
    Broken("event after the end", stream(lambda e: [*e, ("progress", {})]), "terminal-last"),
    Broken("terminal with an empty id", terminal(having(request_id="")), "terminal-request-id"),
    Broken("terminal without task", terminal(without("task_type")), "terminal-task-type"),
    Broken("terminal without status", terminal(without("status")), "terminal-status"),
    Broken("terminal without outputs", terminal(without("outputs")), "terminal-outputs"),
    Broken("terminal without success", terminal(without_success), "terminal-success"),
    Broken("stream fails", terminal(having(status="error", ok=False)), "terminal-success"),
    Broken("artifacts is an object", terminal(having(artifacts={})), "response-fields"),
    Broken(
        "terminal event holds a list",
        on_run("stream", lambda r: r.with_body(*r.pieces[:-1], b"event: final\ndata: [1]\n\n")),
        "terminal-one",
    ),
    Broken("events without event: lines", stream_body(without_event_lines), "stream-framing"),
    Broken("bare JSON between the events", stream_body(lambda b: b"{}\n\n" + b), "stream-framing"),
    Broken("event without data", stream_body(lambda b: b"event: ping\n\n" + b), "stream-framing"),
    Broken(
        "last event is not ended",
        stream_body(lambda b: b.rstrip(b"\n")),
        "stream-framing terminal-one",
    ),
    Broken("not UTF-8", stream_body(lambda b: b.replace(b"anked", b"\xe9")), "stream-framing"),
    Broken(
        "progress is not JSON",
        stream_body(lambda b: b"event: progress\ndata: half\n\n" + b),
        "stream-framing",
    ),
    Broken(
        "type is not repeated", stream_body(lambda b: b.replace(b'"type":', b'"k":')), "stream-type"
    ),
    Broken(
        "started with another id",
        stream(lambda e: [("started", {"request_id": "x"}), *e[1:]]),
        "stream-started",
    ),
    Broken(
        "first event is late",
        on_run("stream", lambda r: r.with_body(1.0, r.body)),
        "stream-time",
        CheckLimits(first_event_s=0.5),
    ),
    Broken(
        "stream stays open",
        on_run("stream", lambda r: r.with_body(r.body, OPEN)),
        "terminal-last",
        CheckLimits(stream_s=2.0),
    ),
    Broken(
        "stream breaks off",
        on_run("stream", lambda r: r.with_body(*r.pieces[:-1], CUT)),
        "terminal-one stream-time",
    ),
    Broken(
        "stream falls silent",
        on_run("stream", lambda r: r.with_body(*r.pieces[:-1], 0.8, r.pieces[-1])),
        "stream-time",
        CheckLimits(heartbeat_s=0.5),
    ),
    # --- refusals
    Broken(
        "stream takes any task", refusal("stream", task_unknown, accepted), "unknown-task-refused"
    ),
    Broken(
        "refusal is plain text",
        refusal("sync", task_unknown, lambda r: replace(r, pieces=(b"no",))),
        "unknown-task",
    ),
    Broken(
        "no outputs in a refusal",
        refusal("stream", task_unknown, lacking("outputs")),
        "unknown-task",
    ),
    Broken(
        "refusal with a code of its own",
        refusal("sync", task_unknown, changed(error={"code": "NOPE", "message": "no"})),
        "error-object",
    ),
    Broken("no error object", refusal("sync", task_unknown, lacking("error")), "error-object"),
    Broken(
        "refusal with a null",
        refusal("sync", task_unknown, changed(task_type=None)),
        "response-no-null",
    ),
    Broken("sync crashes on text", refusal("sync", json_broken, crashed), "malformed-request"),
    Broken(
        "framework default echoes the input",
        refusal("sync", field_missing, echoing_framework),
        "no-echo malformed-request",
    ),
    Broken(
        "stream takes requests without id",
        refusal("stream", field_missing, accepted),
        "required-fields malformed-request",
    ),
    Broken("stream crashes on a type", refusal("stream", type_wrong, crashed), "malformed-request"),
    Broken("failed sync run is a 500", failed_run("sync", crashed), "sync-failed-run"),
    Broken(
        "failed sync run has outputs", failed_run("sync", changed(outputs={"a": 1})), "error-object"
    ),
    Broken(
        "failed stream just ends",
        failed_run("stream", lambda r: r.with_events(r.events[:-1])),
        "stream-failed-run",
    ),
    Broken(
        "failed stream ends in a list",
        failed_run("stream", lambda r: r.with_body(b"event: final\ndata: [1]\n\n")),
        "stream-failed-run",
    ),
    # --- health
    Broken("no health", endpoint("/health", lambda r: replace(r, status=404)), "health"),
    Broken(
        "health without a service",
        endpoint("/health", lambda r: r.with_json({"status": "ok"})),
        "health",
    ),
    Broken(
        "readiness in other words",
        endpoint("/health/ready", lambda r: r.with_json({"status": "up"})),
        "health-ready",
    ),
    Broken(
        "not ready",
        endpoint("/health/ready", lambda r: r.with_json({"status": "degraded"}, status=503)),
        "health-ready",
    ),
]
