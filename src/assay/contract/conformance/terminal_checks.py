"""The checks of a stream's terminal event, which carries the result."""

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
from assay.contract.conformance.response_shape import (
    echoed,
    has_outputs,
    indicates_success,
    indicators_agree,
    successful,
    well_typed,
)
from assay.contract.conformance.stream_checks import of_events
from assay.contract.responses import TERMINAL_EVENTS, outputs_of, success_of
from assay.net.json import JsonObject

_MUST, _OURS = RuleLevel.MUST, RuleLevel.OURS


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


def _stream(seen: AgentObservation) -> Exchange:
    return seen.run["stream"]


def _of_terminal(
    judge: Callable[[JsonObject, AgentObservation], CheckFinding],
) -> Callable[[AgentObservation], CheckFinding]:
    def judged(seen: AgentObservation) -> CheckFinding:
        body = terminal_data(seen.run["stream"].stream)
        if not seen.run["stream"].succeeded or body is None:
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


def _status_present(body: JsonObject, _seen: AgentObservation) -> CheckFinding:
    status = body.get("status")
    return PASS if isinstance(status, str) and status else fail("status is missing or empty")


def _no_error(body: JsonObject, _seen: AgentObservation) -> CheckFinding:
    if not indicates_success(body, in_stream=True):
        return not_applicable("the run did not succeed")
    return fail("error is there, with success") if body.get("error") is not None else PASS


def _agrees(seen: AgentObservation) -> CheckFinding:
    sync, stream = seen.run["sync"].json, terminal_data(seen.run["stream"].stream)
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
    lonely = sorted(ours.keys() ^ theirs.keys())
    shared = sorted(ours.keys() & theirs.keys())
    emptied = [name for name in shared if bool(ours[name]) != bool(theirs[name])]
    return [f"only one has outputs.{name[:40]}" for name in lonely] + [
        f"outputs.{name[:40]} is empty in only one"
        for name in emptied
        if isinstance(ours[name], list | dict) or isinstance(theirs[name], list | dict)
    ]


TERMINAL_CHECKS = (
    Check(
        "terminal-one",
        _MUST,
        "Stream invariant, line 53",
        "Exactly one event is terminal: final, complete or done.",
        "End each stream with one event named final, whatever happened.",
        of_events(one_terminal),
        _stream,
    ),
    Check(
        "terminal-last",
        _MUST,
        "Stream invariant, lines 53 and 55",
        "The terminal event is the last one.",
        "Send nothing after the terminal event.",
        of_events(_terminal_last),
        _stream,
    ),
    Check(
        "terminal-object",
        _MUST,
        "Required fields by event type, line 61",
        "The data of the terminal event is a JSON object.",
        "Send the complete response as the data of the terminal event.",
        of_events(_terminal_object),
        _stream,
    ),
    Check(
        "terminal-request-id",
        _MUST,
        "Required fields by event type, line 62",
        "The terminal event echoes request_id.",
        "Copy request_id from the request into the terminal event.",
        _of_terminal(lambda b, o: echoed(b, "request_id", o.run["stream"].request_id)),
        _stream,
    ),
    Check(
        "terminal-task-type",
        _MUST,
        "Required fields by event type, line 63",
        "The terminal event echoes task_type.",
        "Copy task_type from the request into the terminal event.",
        _of_terminal(lambda b, o: echoed(b, "task_type", o.task_type)),
        _stream,
    ),
    Check(
        "terminal-status",
        _MUST,
        "Required fields by event type, line 64",
        "The terminal event has a status.",
        'Send status: "ok" in the terminal event.',
        _of_terminal(_status_present),
        _stream,
    ),
    Check(
        "terminal-success",
        _MUST,
        "Required fields by event type, line 65",
        "The terminal event of a successful run reports success.",
        'Send status: "ok" in the terminal event of a run that succeeded.',
        _of_terminal(lambda b, _: successful(b, in_stream=True)),
        _stream,
    ),
    Check(
        "terminal-outputs",
        _MUST,
        "Required fields by event type, line 66",
        "The terminal event has outputs or data, so that the result can be stored.",
        "Send outputs as an object in the terminal event.",
        _of_terminal(lambda b, _: has_outputs(b, or_data=True)),
        _stream,
    ),
    Check(
        "terminal-fields",
        _OURS,
        "The response",
        "The optional fields of the terminal event have the types of AgentRunResponse.",
        "Give the named fields the types of docs/schemas/AgentRunResponse.json.",
        _of_terminal(lambda b, _: well_typed(b)),
        _stream,
    ),
    Check(
        "terminal-indicators",
        _OURS,
        "The response",
        "status, ok and success of the terminal event say the same.",
        "Derive ok and success from status.",
        _of_terminal(lambda b, _: indicators_agree(b)),
        _stream,
    ),
    Check(
        "terminal-no-error",
        _OURS,
        "The response",
        "The terminal event of a successful run has no error.",
        "Leave error out where the run succeeded; say what went wrong on the way in warnings.",
        _of_terminal(_no_error),
        _stream,
    ),
    Check(
        "sync-stream-agree",
        _OURS,
        "Endpoints",
        "Sync and stream produce the same result.",
        "Let both endpoints call the same code, and write its result once.",
        _agrees,
        _stream,
    ),
)
