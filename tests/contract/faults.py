"""Ways to spoil the answers of a good agent."""

from collections.abc import Callable
from dataclasses import replace
from itertools import count
from typing import Any

from tests.contract.tampering import Reply, Tamper

from assay.contract.conformance.probes import UNKNOWN_TASK

Events = list[tuple[str, dict[str, Any]]]


def is_run(reply: Reply, way: str) -> bool:
    """The successful answer to the valid request, in one of the two ways.

    A run that its budget of a millisecond ended is none: a busy machine gets such answers."""
    return reply.way == way and reply.status == 200 and reply.terminal.get("ok") is True


def sync(change: Callable[[dict[str, Any]], None]) -> Tamper:
    """Changes the body of good sync runs."""

    def tamper(reply: Reply) -> Reply:
        if not is_run(reply, "sync"):
            return reply
        body = reply.json
        change(body)
        return reply.with_json(body)

    return tamper


def sync_reply(change: Tamper) -> Tamper:
    return lambda reply: change(reply) if is_run(reply, "sync") else reply


def stream_reply(change: Tamper) -> Tamper:
    return lambda reply: change(reply) if is_run(reply, "stream") else reply


def stream(change: Callable[[Events], Events]) -> Tamper:
    return stream_reply(lambda reply: reply.with_events(change(reply.events)))


def terminal(change: Callable[[dict[str, Any]], None]) -> Tamper:
    def changed(events: Events) -> Events:
        change(events[-1][1])
        return events

    return stream(changed)


def both_terminals(change: Callable[[dict[str, Any]], None]) -> Tamper:
    return lambda reply: sync(change)(terminal(change)(reply))


def refusal(way: str, matches: Callable[[Any], bool], change: Tamper) -> Tamper:
    """Changes the answers to requests that were refused, by way and by what was sent."""

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


def task_unknown(sent: Any) -> bool:
    return isinstance(sent, dict) and sent.get("task_type") == UNKNOWN_TASK


def json_broken(sent: Any) -> bool:
    return sent is None


def field_missing(sent: Any) -> bool:
    return isinstance(sent, dict) and not (sent.get("request_id") and sent.get("task_type"))


def type_wrong(sent: Any) -> bool:
    return isinstance(sent, dict) and isinstance(sent["inputs"], str)


def without(*names: str) -> Callable[[dict[str, Any]], None]:
    def change(body: dict[str, Any]) -> None:
        for name in names:
            body.pop(name, None)

    return change


def having(name: str, value: Any) -> Callable[[dict[str, Any]], None]:
    return lambda body: body.update({name: value})


def changed(**fields: Any) -> Tamper:
    return lambda reply: reply.with_json({**reply.json, **fields})


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


def quoting(reply: Reply) -> Reply:
    body = reply.json
    body["error"]["message"] = f"cannot run with {reply.sent['inputs']!r}"
    return reply.with_json(body)


def naming_keys(reply: Reply) -> Reply:
    body = reply.json
    body["error"]["message"] = f"unknown inputs: {sorted(reply.sent['inputs'])}"
    return reply.with_json(body)


def nested_null(body: dict[str, Any]) -> None:
    body["grounding"]["chunks"][0]["doc_id"] = None


def without_success(body: dict[str, Any]) -> None:
    body["status"] = "finished"
    del body["ok"]


def numbered() -> Tamper:
    numbers = count()
    return sync(lambda body: body["outputs"].update(count=next(numbers)))


def reuse_accepted(reply: Reply) -> Reply:
    return accepted(reply) if reply.status == 409 else reply


def once(tamper: Tamper) -> Tamper:
    left = [tamper]
    return lambda reply: left.pop()(reply) if left and is_run(reply, "sync") else reply


def without_event_lines(reply: Reply) -> Reply:
    lines = reply.body.splitlines(keepends=True)
    return reply.with_body(b"".join(line for line in lines if not line.startswith(b"event:")))
