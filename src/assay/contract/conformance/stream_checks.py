"""The checks of POST /agents/run/stream with a valid request, and of its terminal event."""

from collections.abc import Callable
from functools import partial

from assay.contract.conformance.exchange import Exchange, StreamView
from assay.contract.conformance.probes import AgentObservation
from assay.contract.conformance.report import (
    PASS,
    Check,
    CheckFinding,
    RuleLevel,
    fail,
    fail_if,
    not_applicable,
)
from assay.contract.conformance.sync_checks import (
    echoed,
    has_outputs,
    has_status,
    indicators_agree,
    refused_run,
    successful,
    well_typed,
    without_error,
    without_null,
)
from assay.contract.responses import TERMINAL_EVENTS, outputs_of, success_of
from assay.net.json import JsonObject

# A heartbeat that is due at the limit may be a little late on its way.
_LATENESS = 1.2


def _stream(seen: AgentObservation) -> Exchange:
    return seen.run["stream"]


def _of_events(
    judge: Callable[[StreamView], CheckFinding],
) -> Callable[[AgentObservation], CheckFinding]:
    """A judge of the events; it has nothing to say if there are none."""

    def judged(seen: AgentObservation) -> CheckFinding:
        stream = _stream(seen).stream
        if not _stream(seen).succeeded or not stream.events:
            return not_applicable("there are no events to check")
        return judge(stream)

    return judged


def _answered(seen: AgentObservation) -> CheckFinding:
    answer = _stream(seen)
    if answer.status is None and answer.timed_out:
        return not_applicable("no event in time")
    if answer.status is None:
        return fail(answer.outcome)
    if not answer.succeeded or answer.is_web_page:
        return refused_run(answer, "/agents/run/stream")
    if answer.timed_out and not answer.stream.events:
        return not_applicable("no event in time")
    return PASS if answer.stream.events else fail("the stream has no events")


def _content_type(seen: AgentObservation) -> CheckFinding:
    answer = _stream(seen)
    if not answer.succeeded or answer.is_web_page:
        return not_applicable("there is no stream to check")
    if answer.media_type == "text/event-stream":
        return PASS
    return fail(f"the content type is {answer.media_type[:40]!r}")


def _framing(seen: AgentObservation) -> CheckFinding:
    if not _stream(seen).succeeded or _stream(seen).is_web_page:
        return not_applicable("there is no stream to check")
    return fail_if(_stream(seen).stream.problems)


def _data_json(stream: StreamView) -> CheckFinding:
    broken = stream.not_json
    return (
        fail(f"the data of {broken} of {len(stream.events)} events is not JSON") if broken else PASS
    )


def _type_repeated(stream: StreamView) -> CheckFinding:
    wrong = sorted({name[:40] for name, data in stream.objects if data.get("type") != name})
    return fail(f"type is not the event's name in: {', '.join(wrong)}") if wrong else PASS


def _started(seen: AgentObservation) -> CheckFinding:
    started = [data for name, data in _stream(seen).stream.objects if name == "started"]
    if not started:
        return not_applicable("there is no started event, which the contract does not demand")
    found = echoed(started[0], "request_id", _stream(seen).request_id)
    return found if found != PASS else echoed(started[0], "task_type", seen.task_type)


def _started_first(stream: StreamView) -> CheckFinding:
    return PASS if stream.names[0] == "started" else fail("the first event is another one")


def _first_event(seen: AgentObservation) -> CheckFinding:
    answer, limit = _stream(seen), seen.limits.first_event_s
    if not answer.succeeded or answer.is_web_page:
        return not_applicable("there is no stream to check")
    first = answer.stream.first_event_s
    if first is None and answer.seconds < limit:
        return not_applicable("the stream ended without an event")
    if first is None or first > limit:
        return fail(f"no event within {limit:g} s")
    return PASS


def _ends(seen: AgentObservation) -> CheckFinding:
    answer = _stream(seen)
    if answer.status is None and not answer.timed_out:
        return not_applicable("there is no stream to check")
    return PASS if answer.failure is None else fail(answer.failure)


def _heartbeat(seen: AgentObservation) -> CheckFinding:
    answer, limit = _stream(seen), seen.limits.heartbeat_s
    if not answer.succeeded or answer.seconds < limit:
        return not_applicable(f"the stream took less than {limit:g} s")
    silence = answer.stream.longest_silence_s
    return PASS if silence <= limit * _LATENESS else fail(f"silent for {silence:.1f} s")


def terminal_data(stream: StreamView) -> JsonObject | None:
    """Of the last terminal event, which is the one that callers keep."""
    found = [data for name, data in stream.objects if name in TERMINAL_EVENTS]
    return found[-1] if found else None


def one_terminal(stream: StreamView) -> CheckFinding:
    """Exactly one event is terminal."""
    count = sum(name in TERMINAL_EVENTS for name in stream.names)
    if count == 1:
        return PASS
    cut = "" if stream.ended else "; the stream was still open or was cut off"
    return fail(f"{count} of {len(stream.events)} events are terminal{cut}")


def _of_terminal(
    judge: Callable[[JsonObject, AgentObservation], CheckFinding],
) -> Callable[[AgentObservation], CheckFinding]:
    def judged(seen: AgentObservation) -> CheckFinding:
        body = terminal_data(_stream(seen).stream)
        if not _stream(seen).succeeded or body is None:
            return not_applicable("there is no terminal event with a JSON object")
        return judge(body, seen)

    return judged


def _terminal_last(stream: StreamView) -> CheckFinding:
    if not TERMINAL_EVENTS.intersection(stream.names):
        return not_applicable("there is no terminal event")
    if stream.names[-1] in TERMINAL_EVENTS:
        return PASS
    return fail("another event comes after the terminal one")


def _terminal_object(stream: StreamView) -> CheckFinding:
    """Progress may be any JSON value; of the terminal event the contract names fields."""
    if not TERMINAL_EVENTS.intersection(stream.names) or stream.not_json:
        return not_applicable("there is no terminal event with JSON")
    return PASS if terminal_data(stream) is not None else fail("its data is not a JSON object")


def _agrees(seen: AgentObservation) -> CheckFinding:
    sync, stream = seen.run["sync"].json, terminal_data(_stream(seen).stream)
    if sync is None or stream is None or not seen.run["sync"].succeeded:
        return not_applicable("there are no two results to compare")
    successes = {success_of(sync), success_of(stream)}
    ours, theirs = outputs_of(sync), outputs_of(stream)
    if None in successes or ours is None or theirs is None:
        return not_applicable("one of the results cannot be parsed")
    if len(successes) > 1:
        return fail("one succeeds, the other fails")
    return fail_if(_differences(ours, theirs))


def _differences(ours: JsonObject, theirs: JsonObject) -> list[str]:
    """Values may differ from run to run; what there is, and whether there is anything, may not."""
    unshared = sorted(ours.keys() ^ theirs.keys())
    shared = sorted(ours.keys() & theirs.keys())
    emptied = [name for name in shared if bool(ours[name]) != bool(theirs[name])]
    return [f"only one has outputs.{name[:40]}" for name in unshared] + [
        f"outputs.{name[:40]} is empty in only one"
        for name in emptied
        if isinstance(ours[name], list | dict) or isinstance(theirs[name], list | dict)
    ]


_must, _should, _ours = (partial(Check, level=level, request=_stream) for level in RuleLevel)

STREAM_CHECKS = (
    _must(
        "stream-status",
        "Overview + endpoints, line 8",
        "A valid request is answered with HTTP 2xx and events.",
        "Serve POST /agents/run/stream and answer a run with HTTP 200 and its events.",
        _answered,
    ),
    _ours(
        "stream-first-event",
        "Checking an agent",
        "The first event comes within 10 s.",
        "Send started as soon as the request is accepted, and flush it.",
        _first_event,
    ),
    _ours(
        "stream-time",
        "Checking an agent",
        "The stream ends, cleanly and within 30 s.",
        "Close the response after the terminal event.",
        _ends,
    ),
    _must(
        "stream-content-type",
        "SSE format, line 45",
        "A stream is text/event-stream.",
        "Send Content-Type: text/event-stream.",
        _content_type,
    ),
    _must(
        "stream-framing",
        "SSE format, lines 46 to 49",
        "Each event has event: and data: lines and ends with an empty line, in UTF-8.",
        "Write an event: line, data: lines and an empty line for each event.",
        _framing,
    ),
    _must(
        "stream-json",
        "SSE format, line 48",
        "The data of each event is one JSON value.",
        "Write the data of each event with a JSON library.",
        _of_events(_data_json),
    ),
    _ours(
        "stream-type",
        "The stream",
        "data repeats the event name as type.",
        'Add "type" with the name of the event to its data.',
        _of_events(_type_repeated),
    ),
    _should(
        "stream-started",
        "Required fields by event type, line 59",
        "A started event carries the request_id and the task_type.",
        "Copy both from the request into the data of started.",
        _started,
    ),
    _ours(
        "stream-started-first",
        "The stream",
        "The first event is started.",
        "Send started before all other events.",
        _of_events(_started_first),
    ),
    _ours(
        "stream-heartbeat",
        "The stream",
        "A stream is never silent for over 15 s.",
        "Send a comment line (: heartbeat) while there is nothing else to send.",
        _heartbeat,
    ),
    _ours(
        "stream-no-null",
        "The response",
        "A field without a value is absent, never null.",
        "Leave the named fields out.",
        _of_events(lambda s: without_null([data for _, data in s.objects])),
    ),
)

TERMINAL_CHECKS = (
    _must(
        "terminal-one",
        "Stream invariant, line 53",
        "Exactly one event is terminal: final, complete or done.",
        "End each stream with one event named final, whatever happened.",
        _of_events(one_terminal),
    ),
    _must(
        "terminal-last",
        "Stream invariant, lines 53 and 55",
        "The terminal event is the last one.",
        "Send nothing after the terminal event.",
        _of_events(_terminal_last),
    ),
    _must(
        "terminal-object",
        "Required fields by event type, line 61",
        "The data of the terminal event is a JSON object.",
        "Send the complete response as the data of the terminal event.",
        _of_events(_terminal_object),
    ),
    _must(
        "terminal-request-id",
        "Required fields by event type, line 62",
        "The terminal event echoes request_id.",
        "Copy request_id from the request into the terminal event.",
        _of_terminal(lambda b, o: echoed(b, "request_id", o.run["stream"].request_id)),
    ),
    _must(
        "terminal-task-type",
        "Required fields by event type, line 63",
        "The terminal event echoes task_type.",
        "Copy task_type from the request into the terminal event.",
        _of_terminal(lambda b, o: echoed(b, "task_type", o.task_type)),
    ),
    _must(
        "terminal-status",
        "Required fields by event type, line 64",
        "The terminal event has a status.",
        'Send status: "ok" in the terminal event.',
        _of_terminal(lambda b, _: has_status(b)),
    ),
    _must(
        "terminal-success",
        "Required fields by event type, line 65",
        "The terminal event of a successful run reports success.",
        'Send status: "ok" in the terminal event of a run that succeeded.',
        _of_terminal(lambda b, _: successful(b, in_stream=True)),
    ),
    _must(
        "terminal-outputs",
        "Required fields by event type, line 66",
        "The terminal event has outputs or data, so that the result can be stored.",
        "Send outputs as an object in the terminal event.",
        _of_terminal(lambda b, _: has_outputs(b, or_data=True)),
    ),
    _ours(
        "terminal-fields",
        "The response",
        "The optional fields of the terminal event have the types of AgentRunResponse.",
        "Give the named fields the types of docs/schemas/AgentRunResponse.json.",
        _of_terminal(lambda b, _: well_typed(b)),
    ),
    _ours(
        "terminal-indicators",
        "The response",
        "status, ok and success of the terminal event say the same.",
        "Derive ok and success from status.",
        _of_terminal(lambda b, _: indicators_agree(b)),
    ),
    _ours(
        "terminal-no-error",
        "The response",
        "The terminal event of a successful run has no error.",
        "Leave error out where the run succeeded; say what went wrong on the way in warnings.",
        _of_terminal(lambda b, _: without_error(b, in_stream=True)),
    ),
    _ours(
        "sync-stream-agree",
        "Endpoints",
        "Sync and stream produce the same result.",
        "Let both endpoints call the same code, and write its result once.",
        _agrees,
    ),
)
