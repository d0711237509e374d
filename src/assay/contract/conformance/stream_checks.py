"""The checks of POST /agents/run/stream with a valid request."""

from collections.abc import Callable

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
from assay.contract.conformance.response_shape import echoed, without_null
from assay.contract.conformance.sync_checks import refused_run

# A heartbeat that is due at the limit may be a little late on its way.
_LATENESS = 1.2
_MUST, _SHOULD, _OURS = RuleLevel.MUST, RuleLevel.SHOULD, RuleLevel.OURS


def of_events(
    judge: Callable[[StreamView], CheckFinding],
) -> Callable[[AgentObservation], CheckFinding]:
    """A judge of the events; it has nothing to say if there are none."""

    def judged(seen: AgentObservation) -> CheckFinding:
        stream = seen.run["stream"].stream
        if not seen.run["stream"].succeeded or not stream.events:
            return not_applicable("there are no events to check")
        return judge(stream)

    return judged


def _answered(seen: AgentObservation) -> CheckFinding:
    answer = seen.run["stream"]
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
    answer = seen.run["stream"]
    if not answer.succeeded or answer.is_web_page:
        return not_applicable("there is no stream to check")
    if answer.media_type == "text/event-stream":
        return PASS
    return fail(f"the content type is {answer.media_type[:40]!r}")


def _framing(seen: AgentObservation) -> CheckFinding:
    if not seen.run["stream"].succeeded or seen.run["stream"].is_web_page:
        return not_applicable("there is no stream to check")
    return fail_if(seen.run["stream"].stream.problems)


def _data_json(stream: StreamView) -> CheckFinding:
    broken = stream.not_json
    return (
        fail(f"the data of {broken} of {len(stream.events)} events is not JSON") if broken else PASS
    )


def _type_repeated(stream: StreamView) -> CheckFinding:
    wrong = sorted({name[:40] for name, data in stream.objects if data.get("type") != name})
    return fail(f"type is not the event's name in: {', '.join(wrong)}") if wrong else PASS


def _started(seen: AgentObservation) -> CheckFinding:
    started = [data for name, data in seen.run["stream"].stream.objects if name == "started"]
    if not started:
        return not_applicable("there is no started event, which the contract does not demand")
    found = echoed(started[0], "request_id", seen.run["stream"].request_id)
    return found if found != PASS else echoed(started[0], "task_type", seen.task_type)


def _started_first(stream: StreamView) -> CheckFinding:
    return PASS if stream.names[0] == "started" else fail("the first event is another one")


def _first_event(seen: AgentObservation) -> CheckFinding:
    answer, limit = seen.run["stream"], seen.limits.first_event_s
    if not answer.succeeded or answer.is_web_page:
        return not_applicable("there is no stream to check")
    first = answer.stream.first_event_s
    if first is None and answer.seconds < limit:
        return not_applicable("the stream ended without an event")
    if first is None or first > limit:
        return fail(f"no event within {limit:g} s")
    return PASS


def _ends(seen: AgentObservation) -> CheckFinding:
    answer = seen.run["stream"]
    if answer.status is None and not answer.timed_out:
        return not_applicable("there is no stream to check")
    return PASS if answer.failure is None else fail(answer.failure)


def _heartbeat(seen: AgentObservation) -> CheckFinding:
    answer, limit = seen.run["stream"], seen.limits.heartbeat_s
    if not answer.succeeded or answer.seconds < limit:
        return not_applicable(f"the stream took less than {limit:g} s")
    silence = answer.stream.longest_silence_s
    return PASS if silence <= limit * _LATENESS else fail(f"silent for {silence:.1f} s")


def _stream(seen: AgentObservation) -> Exchange:
    return seen.run["stream"]


STREAM_CHECKS = (
    Check(
        "stream-status",
        _MUST,
        "Overview + endpoints, line 8",
        "A valid request is answered with HTTP 2xx and events.",
        "Serve POST /agents/run/stream and answer a run with HTTP 200 and its events.",
        _answered,
        _stream,
    ),
    Check(
        "stream-first-event",
        _OURS,
        "Checking an agent",
        "The first event comes within 10 s.",
        "Send started as soon as the request is accepted, and flush it.",
        _first_event,
        _stream,
    ),
    Check(
        "stream-time",
        _OURS,
        "Checking an agent",
        "The stream ends, cleanly and within 30 s.",
        "Close the response after the terminal event.",
        _ends,
        _stream,
    ),
    Check(
        "stream-content-type",
        _MUST,
        "SSE format, line 45",
        "A stream is text/event-stream.",
        "Send Content-Type: text/event-stream.",
        _content_type,
        _stream,
    ),
    Check(
        "stream-framing",
        _MUST,
        "SSE format, lines 46 to 49",
        "Each event has event: and data: lines and ends with an empty line, in UTF-8.",
        "Write an event: line, data: lines and an empty line for each event.",
        _framing,
        _stream,
    ),
    Check(
        "stream-json",
        _MUST,
        "SSE format, line 48",
        "The data of each event is one JSON value.",
        "Write the data of each event with a JSON library.",
        of_events(_data_json),
        _stream,
    ),
    Check(
        "stream-type",
        _OURS,
        "The stream",
        "data repeats the event name as type.",
        'Add "type" with the name of the event to its data.',
        of_events(_type_repeated),
        _stream,
    ),
    Check(
        "stream-started",
        _SHOULD,
        "Required fields by event type, line 59",
        "A started event carries the request_id and the task_type.",
        "Copy both from the request into the data of started.",
        _started,
        _stream,
    ),
    Check(
        "stream-started-first",
        _OURS,
        "The stream",
        "The first event is started.",
        "Send started before all other events.",
        of_events(_started_first),
        _stream,
    ),
    Check(
        "stream-heartbeat",
        _OURS,
        "The stream",
        "A stream is never silent for over 15 s.",
        "Send a comment line (: heartbeat) while there is nothing else to send.",
        _heartbeat,
        _stream,
    ),
    Check(
        "stream-no-null",
        _OURS,
        "The response",
        "A field without a value is absent, never null.",
        "Leave the named fields out.",
        of_events(lambda s: without_null([data for _, data in s.objects])),
        _stream,
    ),
)
