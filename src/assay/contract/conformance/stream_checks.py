"""The checks of POST /agents/run/stream with a valid request."""

from collections.abc import Callable

from assay.contract.conformance.probes import AgentObservation, StreamView
from assay.contract.conformance.report import (
    PASS,
    Check,
    CheckFinding,
    fail,
    fail_if,
    not_applicable,
    warning,
)
from assay.contract.conformance.response_shape import (
    echoed,
    has_outputs,
    successful,
    well_typed,
    without_null,
)
from assay.contract.responses import TERMINAL_EVENTS, outputs_of, success_of
from assay.net.json import JsonObject

# A heartbeat that is due at the limit may be a little late on its way.
_LATENESS = 1.2


def _of_events(
    judge: Callable[[StreamView], CheckFinding],
) -> Callable[[AgentObservation], CheckFinding]:
    def judged(seen: AgentObservation) -> CheckFinding:
        stream = seen.run["stream"].stream
        if seen.run["stream"].status != 200 or not stream.events:
            return not_applicable("there are no events to check")
        return judge(stream)

    return judged


def _of_terminal(
    judge: Callable[[JsonObject, AgentObservation], CheckFinding],
) -> Callable[[AgentObservation], CheckFinding]:
    def judged(seen: AgentObservation) -> CheckFinding:
        body = terminal_data(seen.run["stream"].stream)
        if seen.run["stream"].status != 200 or body is None:
            return not_applicable("there is no terminal event with a JSON object")
        return judge(body, seen)

    return judged


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


def _terminal_last(stream: StreamView) -> CheckFinding:
    if not TERMINAL_EVENTS.intersection(stream.names):
        return not_applicable("there is no terminal event")
    if stream.names[-1] in TERMINAL_EVENTS:
        return PASS
    return fail("another event comes after the terminal one")


def _answered(seen: AgentObservation) -> CheckFinding:
    answer = seen.run["stream"]
    if answer.status is None:
        return fail(answer.failure or "no answer")
    if answer.status != 200:
        return fail(f"a valid request got HTTP {answer.status}")
    if answer.timed_out and not answer.stream.events:
        return not_applicable("no event in time")
    return PASS if answer.stream.events else fail("the stream has no events")


def _content_type(seen: AgentObservation) -> CheckFinding:
    answer = seen.run["stream"]
    if answer.status != 200:
        return not_applicable("there is no stream to check")
    if answer.media_type == "text/event-stream":
        return PASS
    return fail(f"the content type is {answer.media_type[:40]!r}")


def _framing(seen: AgentObservation) -> CheckFinding:
    if seen.run["stream"].status != 200:
        return not_applicable("there is no stream to check")
    return fail_if(seen.run["stream"].stream.problems)


def _data_json(stream: StreamView) -> CheckFinding:
    broken = len(stream.events) - len(stream.objects)
    return fail(f"the data of {broken} events is not a JSON object") if broken else PASS


def _type_repeated(stream: StreamView) -> CheckFinding:
    wrong = sorted({name[:40] for name, data in stream.objects if data.get("type") != name})
    return fail(f"type is not the event's name in: {', '.join(wrong)}") if wrong else PASS


def _started(seen: AgentObservation) -> CheckFinding:
    stream = seen.run["stream"].stream
    if not stream.objects:
        return not_applicable("there are no events to check")
    started = [data for name, data in stream.objects if name == "started"]
    if not started or stream.names[0] != "started":
        return warning("the first event is not started")
    return echoed(started[0], "request_id", seen.run["stream"].request_id)


def _first_event(seen: AgentObservation) -> CheckFinding:
    answer, limit = seen.run["stream"], seen.limits.first_event_s
    if answer.status != 200:
        return not_applicable("there is no stream to check")
    first = answer.stream.first_event_s
    if first is None and answer.seconds < limit:
        return not_applicable("the stream ended without an event")
    if first is None or first > limit:
        return fail(f"no event within {limit:g} s")
    return PASS


def _ends(seen: AgentObservation) -> CheckFinding:
    answer = seen.run["stream"]
    if answer.status is None:
        return not_applicable("there is no stream to check")
    return PASS if answer.failure is None else fail(answer.failure)


def _heartbeat(seen: AgentObservation) -> CheckFinding:
    answer, limit = seen.run["stream"], seen.limits.heartbeat_s
    if answer.status != 200 or answer.seconds < limit:
        return not_applicable(f"the stream took less than {limit:g} s")
    silence = answer.stream.longest_silence_s
    return PASS if silence <= limit * _LATENESS else fail(f"silent for {silence:.1f} s")


def _agrees(seen: AgentObservation) -> CheckFinding:
    sync, stream = seen.run["sync"].json, terminal_data(seen.run["stream"].stream)
    if sync is None or stream is None or seen.run["sync"].status != 200:
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
    lonely = sorted(ours.keys() ^ theirs.keys())
    shared = sorted(ours.keys() & theirs.keys())
    emptied = [name for name in shared if bool(ours[name]) != bool(theirs[name])]
    return [f"only one has outputs.{name[:40]}" for name in lonely] + [
        f"outputs.{name[:40]} is empty in only one"
        for name in emptied
        if isinstance(ours[name], list | dict) or isinstance(theirs[name], list | dict)
    ]


def _status_present(body: JsonObject, _seen: AgentObservation) -> CheckFinding:
    status = body.get("status")
    return PASS if isinstance(status, str) and status else fail("status is missing or empty")


STREAM_CHECKS = (
    Check("stream-status", "A valid request is answered with HTTP 200 and events.", _answered),
    Check("stream-first-event", "The first event comes within 10 s.", _first_event),
    Check("stream-time", "The stream ends, cleanly and within 30 s.", _ends),
    Check("stream-content-type", "A stream is text/event-stream.", _content_type),
    Check(
        "stream-framing",
        "Each event has event: and data: lines and ends with an empty line, in UTF-8.",
        _framing,
    ),
    Check("stream-json", "The data of each event is a JSON object.", _of_events(_data_json)),
    Check("stream-type", "data repeats the event name as type.", _of_events(_type_repeated)),
    Check("stream-started", "The first event is started, with the request_id.", _started),
    Check("stream-heartbeat", "A stream is never silent for over 15 s.", _heartbeat),
    Check("terminal-one", "Exactly one event is terminal.", _of_events(one_terminal)),
    Check("terminal-last", "The terminal event is the last one.", _of_events(_terminal_last)),
    Check(
        "terminal-request-id",
        "The terminal event echoes request_id.",
        _of_terminal(lambda b, o: echoed(b, "request_id", o.run["stream"].request_id)),
    ),
    Check(
        "terminal-task-type",
        "The terminal event echoes task_type.",
        _of_terminal(lambda b, o: echoed(b, "task_type", o.task_type)),
    ),
    Check("terminal-status", "The terminal event has a status.", _of_terminal(_status_present)),
    Check(
        "terminal-success",
        "The terminal event of a successful run reports success.",
        _of_terminal(lambda b, _: successful(b)),
    ),
    Check(
        "terminal-outputs",
        "The terminal event has outputs or data, so that the result can be stored.",
        _of_terminal(lambda b, _: has_outputs(b, or_data=True)),
    ),
    Check(
        "terminal-fields",
        "The optional fields of the terminal event have the types of AgentRunResponse.",
        _of_terminal(lambda b, _: well_typed(b)),
    ),
    Check(
        "stream-no-null",
        "A field without a value is absent, never null.",
        _of_events(lambda s: without_null([data for _, data in s.objects])),
    ),
    Check("sync-stream-agree", "Sync and stream produce the same result.", _agrees),
)
