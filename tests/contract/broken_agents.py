"""The seeded faults: what each broken agent does wrong, and the checks that must say so."""

from dataclasses import dataclass, replace

from tests.contract.faults import (
    accepted,
    changed,
    crashed,
    echoing_framework,
    endpoint,
    failed_run,
    field_missing,
    having,
    json_broken,
    naming_keys,
    nested_null,
    numbered,
    once,
    quoting,
    refusal,
    reuse_accepted,
    stream,
    stream_reply,
    sync,
    sync_reply,
    task_unknown,
    terminal,
    type_wrong,
    without,
    without_event_lines,
    without_success,
)
from tests.contract.tampering import CUT, OPEN, Tamper

from assay.contract.conformance.probes import CheckLimits

STANDARD = CheckLimits()


@dataclass(frozen=True)
class Broken:
    """`fails` and `warns` are all that the checker may report, no more and no less."""

    name: str
    tamper: Tamper
    fails: tuple[str, ...] = ()
    warns: tuple[str, ...] = ()
    limits: CheckLimits = STANDARD


BROKEN_AGENTS = [
    # --- sync responses
    Broken("sync leaves out request_id", sync(without("request_id")), ("sync-request-id",)),
    Broken("sync echoes another id", sync(having("request_id", "x")), ("sync-request-id",)),
    Broken("sync leaves out outputs", sync(without("outputs")), ("sync-outputs",)),
    Broken("sync outputs is a list", sync(having("outputs", [])), ("sync-outputs",)),
    Broken("sync without success indicator", sync(without_success), ("sync-success",)),
    Broken("sync contradicts itself", sync(having("ok", False)), warns=("response-indicators",)),
    Broken(
        "sync has a status of its own",
        sync(having("status", "error")),
        warns=("response-indicators",),
    ),
    Broken("sync sends error null", sync(having("error", None)), warns=("response-no-null",)),
    Broken("sync sends a nested null", sync(nested_null), warns=("response-no-null",)),
    Broken("sync warnings is text", sync(having("warnings", "none")), warns=("response-fields",)),
    Broken(
        "sync grounding is malformed",
        sync(having("grounding", {"chunks": [{}]})),
        warns=("response-fields",),
    ),
    Broken(
        "sync says it is HTML",
        sync_reply(lambda r: replace(r, content_type="text/html")),
        ("sync-json",),
    ),
    Broken("sync is not JSON", sync_reply(lambda r: r.with_body(b"ok")), ("sync-json",)),
    Broken("sync breaks off", sync_reply(lambda r: r.with_body(r.body[:9], CUT)), ("sync-json",)),
    Broken("sync crashes", sync_reply(crashed), ("sync-status",)),
    Broken(
        "sync is too slow",
        once(lambda r: r.with_body(OPEN)),
        ("sync-status",),
        limits=CheckLimits(sync_s=2.0),
    ),
    Broken("sync without status", sync(without("status")), warns=("sync-canonical",)),
    Broken("sync leaves out usage", sync(without("usage")), warns=("sync-recommended",)),
    # --- streams
    Broken(
        "stream says it is JSON",
        stream_reply(lambda r: replace(r, content_type="application/json")),
        ("stream-content-type",),
    ),
    Broken("stream crashes", stream_reply(crashed), ("stream-status",)),
    Broken("stream is empty", stream_reply(lambda r: r.with_body()), ("stream-status",)),
    Broken("no terminal event", stream(lambda e: e[:-1]), ("terminal-one",)),
    Broken(
        "terminal event by another name",
        stream(lambda e: [*e[:-1], ("result", e[-1][1])]),
        ("terminal-one",),
    ),
    Broken(
        "two terminal events", stream(lambda e: [*e, ("complete", e[-1][1])]), ("terminal-one",)
    ),
    Broken(
        "event after the terminal one", stream(lambda e: [*e, ("progress", {})]), ("terminal-last",)
    ),
    Broken(
        "terminal without request_id", terminal(without("request_id")), ("terminal-request-id",)
    ),
    Broken(
        "terminal with an empty id", terminal(having("request_id", "")), ("terminal-request-id",)
    ),
    Broken("terminal without task_type", terminal(without("task_type")), ("terminal-task-type",)),
    Broken("terminal without status", terminal(without("status")), ("terminal-status",)),
    Broken("terminal without outputs", terminal(without("outputs")), ("terminal-outputs",)),
    Broken(
        "terminal without success",
        terminal(without_success),
        ("terminal-success",),
    ),
    Broken(
        "terminal artifacts is an object",
        terminal(having("artifacts", {})),
        warns=("response-fields",),
    ),
    Broken(
        "terminal contradicts itself",
        terminal(having("ok", False)),
        warns=("response-indicators",),
    ),
    Broken(
        "terminal event holds a list",
        stream_reply(lambda r: r.with_body(*r.pieces[:-1], b"event: final\ndata: [1]\n\n")),
        ("terminal-one",),
    ),
    Broken("stream sends null", terminal(having("grounding", None)), warns=("response-no-null",)),
    Broken("events without event: lines", stream_reply(without_event_lines), ("stream-framing",)),
    Broken(
        "bare JSON between the events",
        stream_reply(lambda r: r.with_body(b"{}\n\n" + r.body)),
        ("stream-framing",),
    ),
    Broken(
        "event without data",
        stream_reply(lambda r: r.with_body(b"event: ping\n\n" + r.body)),
        ("stream-framing",),
    ),
    Broken(
        "last event is not ended",
        stream_reply(lambda r: r.with_body(r.body.rstrip(b"\n"))),
        ("stream-framing", "terminal-one"),
    ),
    Broken(
        "not UTF-8",
        stream_reply(lambda r: r.with_body(r.body.replace(b"ranked", b"rank\xe9d"))),
        ("stream-framing",),
    ),
    Broken(
        "progress is not JSON",
        stream_reply(lambda r: r.with_body(b"event: progress\ndata: half\n\n", r.body)),
        ("stream-json",),
    ),
    Broken(
        "type is not repeated",
        stream_reply(lambda r: r.with_body(r.body.replace(b'"type":', b'"kind":'))),
        warns=("stream-type",),
    ),
    Broken(
        "started with another id",
        stream(lambda e: [("started", {"request_id": "x"}), *e[1:]]),
        warns=("stream-started",),
    ),
    Broken(
        "first event is late",
        stream_reply(lambda r: r.with_body(1.0, r.body)),
        warns=("stream-time",),
        limits=CheckLimits(first_event_s=0.5),
    ),
    Broken(
        "stream stays open",
        stream_reply(lambda r: r.with_body(r.body, OPEN)),
        ("stream-closes",),
        limits=CheckLimits(stream_s=2.0),
    ),
    Broken(
        "stream breaks off",
        stream_reply(lambda r: r.with_body(*r.pieces[:-1], CUT)),
        ("terminal-one",),
        ("stream-time",),
    ),
    Broken(
        "stream falls silent",
        stream_reply(lambda r: r.with_body(*r.pieces[:-1], 1.5, r.pieces[-1])),
        warns=("stream-time",),
        limits=CheckLimits(heartbeat_s=0.5),
    ),
    Broken(
        "stream does other work",
        terminal(lambda b: b["outputs"].pop("chunks")),
        warns=("sync-stream-agree",),
    ),
    Broken(
        "stream finds nothing",
        terminal(lambda b: b["outputs"].update(chunks=[])),
        warns=("sync-stream-agree",),
    ),
    Broken(
        "failed run without an error object",
        failed_run(
            "stream",
            lambda r: r.with_events(
                [(name, {k: v for k, v in data.items() if k != "error"}) for name, data in r.events]
            ),
        ),
        warns=("error-object",),
    ),
    Broken(
        "stream fails where sync succeeds",
        terminal(lambda b: b.update(status="error", ok=False)),
        ("terminal-success",),
        ("sync-stream-agree",),
    ),
    # --- refusals
    Broken(
        "sync takes any task",
        refusal("sync", task_unknown, accepted),
        warns=("unknown-task-refused",),
    ),
    Broken(
        "stream takes any task",
        refusal("stream", task_unknown, accepted),
        warns=("unknown-task-refused",),
    ),
    Broken(
        "refusal is plain text",
        refusal("sync", task_unknown, lambda r: replace(r, pieces=(b"no",))),
        ("unknown-task",),
    ),
    Broken(
        "refusal echoes another id",
        refusal("sync", task_unknown, changed(request_id="x")),
        ("unknown-task",),
    ),
    Broken(
        "refusal without outputs",
        refusal(
            "stream",
            task_unknown,
            lambda r: r.with_json({k: v for k, v in r.json.items() if k != "outputs"}),
        ),
        ("unknown-task",),
    ),
    Broken(
        "refusal with a code of its own",
        refusal("sync", task_unknown, changed(error={"code": "NOPE", "message": "no"})),
        warns=("error-code",),
    ),
    Broken(
        "refusal without an error object",
        refusal(
            "sync",
            task_unknown,
            lambda r: r.with_json({k: v for k, v in r.json.items() if k != "error"}),
        ),
        warns=("error-object",),
    ),
    Broken(
        "refusal with a null",
        refusal("sync", task_unknown, changed(task_type=None)),
        warns=("response-no-null",),
    ),
    Broken(
        "sync crashes on broken JSON",
        refusal("sync", json_broken, crashed),
        warns=("broken-json",),
    ),
    Broken(
        "stream crashes on broken JSON",
        refusal("stream", json_broken, crashed),
        warns=("broken-json",),
    ),
    Broken(
        "framework default echoes the input",
        refusal("sync", field_missing, echoing_framework),
        ("no-echo",),
        ("missing-field", "no-key-echo"),
    ),
    Broken(
        "stream takes requests without id",
        refusal("stream", field_missing, accepted),
        ("required-fields",),
        ("missing-field",),
    ),
    Broken(
        "sync takes inputs of any type",
        refusal("sync", type_wrong, accepted),
        warns=("wrong-type",),
    ),
    Broken(
        "stream crashes on a wrong type",
        refusal("stream", type_wrong, crashed),
        warns=("wrong-type",),
    ),
    Broken(
        "error quotes the inputs",
        refusal("stream", task_unknown, quoting),
        ("no-echo",),
        ("no-key-echo",),
    ),
    Broken(
        "error names keys that the caller chose",
        refusal("sync", task_unknown, naming_keys),
        warns=("no-key-echo",),
    ),
    Broken("failed sync run is a 500", failed_run("sync", crashed), ("sync-failed-run",)),
    Broken(
        "failed sync run has outputs",
        failed_run("sync", changed(outputs={"a": 1})),
        warns=("error-object",),
    ),
    Broken(
        "failed stream just ends",
        failed_run("stream", lambda r: r.with_events(r.events[:-1])),
        ("stream-failed-run",),
    ),
    Broken(
        "failed stream breaks off",
        failed_run("stream", lambda r: r.with_body(r.pieces[0], CUT)),
        ("stream-failed-run",),
    ),
    # --- health and recommendations
    Broken(
        "no health endpoint",
        endpoint("/health", lambda r: replace(r, status=404)),
        warns=("health",),
    ),
    Broken(
        "health without a service",
        endpoint("/health", lambda r: r.with_json({"status": "ok"})),
        warns=("health",),
    ),
    Broken(
        "readiness in other words",
        endpoint("/health/ready", lambda r: r.with_json({"status": "up"})),
        warns=("health-ready",),
    ),
    Broken(
        "not ready",
        endpoint("/health/ready", lambda r: r.with_json({"status": "degraded"}, status=503)),
        warns=("health-ready",),
    ),
    Broken("the same request runs twice", numbered(), warns=("repeat-same-answer",)),
    Broken("a used id is taken again", reuse_accepted, warns=("reused-id-refused",)),
]
