"""The rules of the agent contract: what is demanded, where it is written, and a test of it.

    @rule("sync-outputs", MUST, "Sync response shape", on="sync result")
    def outputs_present(answer, seen):
        \"\"\"What is demanded.

        What to change in an agent that breaks it.
        \"\"\"
        return None if isinstance(answer.json.get("outputs"), dict) else "outputs is missing"

A test looks at one response and returns the problem, which quotes names and numbers and never
content, or None. `on` names the responses that a rule is about, a key of `probes.SELECTORS`.
"""

import html
import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any
from urllib.parse import unquote_plus

from pydantic import ValidationError

from assay.contract.client import TERMINAL_EVENTS, indicators_of, outputs_of, success_of
from assay.contract.envelope import SUCCESS_STATUSES, AgentRunResponse, ErrorCode, field_problems
from assay.contract.probes import AgentObservation, Exchange, endpoint_missing


class RuleLevel(StrEnum):
    """Whose rule it is, the strictest first: the value is what reports and `--level` show."""

    MUST = "must"  # the contract demands it
    SHOULD = "should"  # the contract recommends it
    OURS = "ours"  # the contract is silent; Assay's agents and its callers keep it


MUST, SHOULD, OURS = RuleLevel

RuleTest = Callable[[Exchange, AgentObservation], str | None]


@dataclass(frozen=True, slots=True)
class Rule:
    """`section` is one of the contract; for a rule of level `ours`, one of docs/contract.md."""

    name: str
    level: RuleLevel
    section: str
    says: str
    fix: str
    on: str
    test: RuleTest

    @property
    def reference(self) -> str:
        """The document and the section in it."""
        document = "docs/contract.md" if self.level is OURS else "Agent HTTP contract"
        return f"{document}, {self.section}"


RULES: list[Rule] = []


def rule(name: str, level: RuleLevel, section: str, *, on: str) -> Callable[[RuleTest], RuleTest]:
    """Add a rule; the docstring of its test is what it demands, and below that the fix."""

    def add(test: RuleTest) -> RuleTest:
        says, _, fix = inspect.cleandoc(str(test.__doc__)).partition("\n\n")
        RULES.append(Rule(name, level, section, says, " ".join(fix.split()), on, test))
        return test

    return add


def rules_table() -> str:
    """The table of docs/contract.md, which `make docs` writes."""
    rows = [
        f"| `{rule.name}` | {rule.level} | {rule.section} | {rule.says} | {rule.fix} |"
        for rule in RULES
    ]
    return "\n".join(["| rule | level | section | says | fix |", "|---|---|---|---|---|", *rows])


# --- health ---------------------------------------------------------------------------------------


@rule("health", OURS, "Endpoints", on="health")
def health_ok(answer: Exchange, _seen: AgentObservation) -> str | None:
    """GET /health reports ok and the service name.

    Serve GET /health with {"status": "ok", "service": name} once the process is up.
    """
    if not answer.succeeded:
        return answer.outcome
    body = answer.json or {}
    well = body.get("status") == "ok" and isinstance(body.get("service"), str)
    return None if well else 'not {"status": "ok", "service": name}'


@rule("health-ready", OURS, "Endpoints", on="readiness")
def ready_ok(answer: Exchange, _seen: AgentObservation) -> str | None:
    """GET /health/ready reports ready.

    Answer 200 {"status": "ready"} when the agent can work, 503 "degraded" before.
    """
    is_ready = answer.succeeded and (answer.json or {}).get("status") == "ready"
    return None if is_ready else f'{answer.outcome}, or the status is not "ready"'


# --- valid sync requests --------------------------------------------------------------------------


@rule("sync-status", MUST, "Overview + endpoints", on="sync")
@rule("stream-status", MUST, "Overview + endpoints", on="stream")
def answered(answer: Exchange, _seen: AgentObservation) -> str | None:
    """A valid request is answered with HTTP 2xx: sync within 15 s, a stream with events.

    Serve POST /agents/run/sync and /agents/run/stream; offer a task that takes longer as a stream.
    """
    if answer.status is None:
        return answer.outcome
    if answer.is_stream:
        return None if answer.events.names else "the stream has no events"
    if answer.succeeded:
        return answer.failure if answer.timed_out else None
    hint = "its log has the cause; if the sample inputs do not suit it, pass others with --inputs"
    if endpoint_missing(answer):
        hint = "there is no agent at this path; check the base address"
    path = "/agents/run/" + answer.sent.url.rpartition("/")[2]
    return f"POST {path} got HTTP {answer.status} for a valid request: {hint}"


@rule("sync-json", MUST, "Sync response shape", on="sync")
def sync_json(answer: Exchange, _seen: AgentObservation) -> str | None:
    """A sync response is a JSON object, by its content type as well.

    Send one complete JSON object with Content-Type: application/json.
    """
    if not answer.succeeded or answer.timed_out:
        return None  # the matter of sync-status
    if answer.failure is not None:
        return answer.failure
    if answer.json is None:
        return "the body is not a JSON object"
    if answer.media_type == "application/json" or answer.media_type.endswith("+json"):
        return None
    return f"the content type is {answer.media_type[:40]!r}"


@rule("sync-request-id", MUST, "Sync response shape", on="sync result")
@rule("terminal-request-id", MUST, "Required fields by event type", on="terminal event")
def request_id_echoed(answer: Exchange, _seen: AgentObservation) -> str | None:
    """request_id echoes that of the request.

    Copy request_id from the request into the response or the terminal event.
    """
    return _not_echoed("request_id", answer)


def _not_echoed(name: str, answer: Exchange) -> str | None:
    body, sent = answer.fields, answer.request.get(name)
    if name not in body:
        return f"{name} is missing"
    if not isinstance(body[name], str) or not body[name]:
        return f"{name} is not a non-empty string"
    return None if body[name] == sent else f"{name} is not the one that was sent, {sent!r}"


@rule("sync-outputs", MUST, "Sync response shape", on="sync result")
@rule("terminal-outputs", MUST, "Required fields by event type", on="terminal event")
def outputs_present(answer: Exchange, _seen: AgentObservation) -> str | None:
    """outputs is present and an object, even if empty; the terminal event may call it data.

    Send outputs as an object, {} if there is nothing to say.
    """
    found = outputs_of(answer.fields) if answer.is_stream else answer.fields.get("outputs")
    return None if isinstance(found, dict) else "outputs is missing or not an object"


@rule("sync-success", MUST, "Sync response shape", on="sync result")
@rule("terminal-success", MUST, "Required fields by event type", on="terminal event")
def success_reported(answer: Exchange, _seen: AgentObservation) -> str | None:
    """A successful run reports it: status "ok" or "success", or ok true.

    Send status: "ok".
    """
    if _indicates_success(answer):
        return None
    return "no success indicator says that the run succeeded; other inputs may suit it (--inputs)"


def _indicates_success(answer: Exchange) -> bool:
    """By an indicator of the contract; `success` is one in a stream only."""
    body = answer.fields
    known = body.get("status") in SUCCESS_STATUSES or body.get("ok") is True
    return known or (answer.is_stream and body.get("success") is True)


@rule("sync-recommended", SHOULD, "Sync response shape", on="sync result")
def recommended_present(answer: Exchange, _seen: AgentObservation) -> str | None:
    """The canonical status is there and not only ok, and artifacts, provenance, usage, warnings.

    Send status: "ok" and the others, empty if there is nothing to say.
    """
    names = ("artifacts", "provenance", "usage", "warnings")
    absent = [name for name in names if name not in answer.fields]
    if problem := _no_status(answer):
        return problem
    return f"absent: {', '.join(absent)}" if absent else None


def _no_status(answer: Exchange) -> str | None:
    status = answer.fields.get("status")
    return None if isinstance(status, str) and status else "status is missing or empty"


# --- valid streams --------------------------------------------------------------------------------


@rule("stream-framing", MUST, "SSE format", on="stream")
def framing(answer: Exchange, _seen: AgentObservation) -> str | None:
    """A stream is text/event-stream: event: and data: lines in UTF-8, JSON, then an empty line.

    Send Content-Type: text/event-stream, and for each event an event: line, data: lines made by a
    JSON library, and an empty line.
    """
    if not answer.succeeded:
        return None  # the matter of stream-status
    if answer.media_type != "text/event-stream":
        return f"the content type is {answer.media_type[:40]!r}"
    problems = answer.events.problems if answer.events.names else []
    return "; ".join(dict.fromkeys(problems)) or None


@rule("stream-type", OURS, "The stream", on="events")
def type_repeated(answer: Exchange, _seen: AgentObservation) -> str | None:
    """data repeats the event name as type.

    Add "type" with the name of the event to its data.
    """
    wrong = sorted({name[:40] for name, data in answer.events.objects if data.get("type") != name})
    return f"type is not the event's name in: {', '.join(wrong)}" if wrong else None


@rule("stream-started", SHOULD, "Required fields by event type", on="events")
def started_ids(answer: Exchange, _seen: AgentObservation) -> str | None:
    """A started event carries the request_id and the task_type.

    Copy both from the request into the data of started.
    """
    started = [data for name, data in answer.events.objects if name == "started"]
    if not started:
        return None  # the contract does not demand one
    ids = ("request_id", "task_type")
    wrong = [name for name in ids if started[0].get(name) != answer.request[name]]
    return f"{' and '.join(wrong)} not echoed in started" if wrong else None


@rule("stream-time", OURS, "The stream", on="events")
def stream_timely(answer: Exchange, seen: AgentObservation) -> str | None:
    """The first event comes within 10 s, no silence is over 15 s, and nothing is cut off.

    Flush started at once, and send a comment line (: heartbeat) while nothing happens.
    """
    events, limits = answer.events, seen.limits
    if events.first_event_s > limits.first_event_s:
        return f"no event within {limits.first_event_s:g} s"
    # A heartbeat that is due at the limit may be a little late on its way.
    if events.longest_silence_s > limits.heartbeat_s * 1.2:
        return f"silent for {events.longest_silence_s:.1f} s"
    return answer.failure if not answer.timed_out else None


@rule("terminal-one", MUST, "Stream invariant", on="events")
def one_terminal(answer: Exchange, _seen: AgentObservation) -> str | None:
    """Exactly one event is terminal (final, complete or done), and it is a JSON object.

    End each stream with one event named final, with the complete response as its data.
    """
    events = answer.events
    if events.terminal_count != 1:
        return f"{events.terminal_count} of {len(events.names)} events are terminal"
    if events.terminal is None:
        return "the data of the terminal event is not a JSON object"
    return None


@rule("terminal-last", MUST, "Stream invariant", on="events")
def terminal_last(answer: Exchange, _seen: AgentObservation) -> str | None:
    """The stream ends with its terminal event.

    Close the response after the terminal event, and send nothing in between.
    """
    names = answer.events.names
    if TERMINAL_EVENTS.isdisjoint(names):
        return None  # the matter of terminal-one
    if names[-1] not in TERMINAL_EVENTS:
        return "another event comes after the terminal one"
    return "the stream was still open seconds after it" if answer.timed_out else None


@rule("terminal-task-type", MUST, "Required fields by event type", on="terminal event")
def terminal_task_type(answer: Exchange, _seen: AgentObservation) -> str | None:
    """The terminal event echoes task_type.

    Copy task_type from the request into the terminal event.
    """
    return _not_echoed("task_type", answer)


@rule("terminal-status", MUST, "Required fields by event type", on="terminal event")
def terminal_status(answer: Exchange, _seen: AgentObservation) -> str | None:
    """The terminal event has a status.

    Send status: "ok" in the terminal event.
    """
    return _no_status(answer)


# --- the fields of any response -------------------------------------------------------------------

# What is inside these belongs to the task, not to the envelope.
_FREE_FORM = frozenset({"outputs", "data", "provenance", "metadata", "details"})
_TESTED_APART = frozenset({"request_id", "task_type", "status", "outputs"})


@rule("response-fields", OURS, "The response", on="results and failures")
def field_types(answer: Exchange, _seen: AgentObservation) -> str | None:
    """Optional fields have the types of AgentRunResponse.

    Give the named fields the types of docs/schemas/AgentRunResponse.json.
    """
    optional = {name: value for name, value in answer.fields.items() if name not in _TESTED_APART}
    try:
        AgentRunResponse.model_validate({**optional, "request_id": "-", "status": "ok"})
    except ValidationError as error:
        problems = field_problems(error, AgentRunResponse)
        return "; ".join(f"{problem['field']} {problem['problem']}" for problem in problems)
    return None


@rule("response-no-null", OURS, "The response", on="results and failures")
def no_null(answer: Exchange, _seen: AgentObservation) -> str | None:
    """A field without a value is absent, never null.

    Leave the named fields out.
    """
    bodies = [data for _, data in answer.events.objects] if answer.json is None else [answer.json]
    paths = sorted({path for body in bodies for path in _null_paths(body)})
    return f"null in {', '.join(paths)}" if paths else None


def _null_paths(value: Any, path: str = "") -> Iterator[str]:
    if isinstance(value, dict):
        for name, item in value.items():
            here = f"{path}.{name}" if path else str(name)
            if item is None:
                yield here
            elif name not in _FREE_FORM:
                yield from _null_paths(item, here)
    elif isinstance(value, list):
        for item in value:
            yield from _null_paths(item, f"{path}[]")


@rule("response-indicators", OURS, "The response", on="results")
def indicators_agree(answer: Exchange, _seen: AgentObservation) -> str | None:
    """status, ok and success say the same, and a successful response has no error.

    Derive ok and success from status; say what went wrong on the way to a success in warnings.
    """
    if len(indicators_of(answer.fields)) > 1:
        return "status, ok and success contradict each other"
    # A null is the matter of response-no-null.
    wrong = _indicates_success(answer) and answer.fields.get("error") is not None
    return "error is there, with success" if wrong else None


# --- requests that are refused, and runs that fail ------------------------------------------------


@rule("required-fields", MUST, "Request schema", on="missing field")
def not_run(answer: Exchange, _seen: AgentObservation) -> str | None:
    """A request without a request_id or task_type is not run.

    Validate the request before the run, and refuse it with HTTP 422.
    """
    return f"accepted with {answer.outcome}" if answer.reports_success else None


@rule("malformed-request", OURS, "Errors", on="malformed request")
def request_refused(answer: Exchange, seen: AgentObservation) -> str | None:
    """A malformed request is refused with a contract-shaped 400 or 422.

    Replace the framework's own answer by one with request_id, ok: false, outputs: {}, warnings
    and error.
    """
    if answer.status not in (400, 422):
        return f"{answer.outcome} instead of HTTP 400 or 422"
    return _not_a_failure(answer, seen)


@rule("unknown-task", MUST, "Overview + endpoints", on="refused task")
def task_refused(answer: Exchange, seen: AgentObservation) -> str | None:
    """A task_type that is refused is refused with a contract-shaped 4xx.

    Answer HTTP 400 with request_id, ok: false, outputs: {}, warnings and error.
    """
    if answer.status is None or not 400 <= answer.status < 500:
        return f"{answer.outcome} instead of HTTP 4xx"
    return _not_a_failure(answer, seen)


@rule("unknown-task-refused", OURS, "Errors", on="unknown task")
def not_accepted(answer: Exchange, _seen: AgentObservation) -> str | None:
    """A task_type that the agent does not do is refused.

    Compare task_type with the tasks of the agent before the run.
    """
    return f"accepted with {answer.outcome}" if answer.succeeded else None


@rule("sync-failed-run", MUST, "Sync response shape", on="failed sync run")
@rule("stream-failed-run", MUST, "Stream invariant", on="failed stream")
def failed_run(answer: Exchange, seen: AgentObservation) -> str | None:
    """A failed run responds in the same shape and says that it failed; a stream in its last event.

    Catch what the task raises and answer status: "error" with request_id, task_type, ok: false,
    outputs: {}, warnings and error; in a stream, as the one terminal event.
    """
    problems = [_not_a_failure(answer, seen)]
    if answer.is_stream:
        if answer.events.terminal_count != 1:
            return "a failed run does not end in exactly one terminal event"
        problems += [_no_status(answer), _not_echoed("task_type", answer)]
    return "; ".join(filter(None, problems)) or None


def _not_a_failure(answer: Exchange, seen: AgentObservation) -> str | None:
    """What is wrong with a response that should say: this request failed."""
    if answer.status is None:
        return answer.outcome
    body = answer.result
    if body is None:
        return f"HTTP {answer.status}, and the body is not a JSON object"
    problems = []
    if _indicates_success(answer):
        problems.append("it reports success")
    elif _no_status(answer) and success_of(body) is None:
        problems.append('no failure indicator (ok false, status "error")')
    if missing := outputs_present(answer, seen):
        problems.append(missing)
    sent_id = answer.request.get("request_id")
    if sent_id and body.get("request_id") != sent_id:
        problems.append("request_id is not echoed")
    return "; ".join(problems) or None


_EXPECTED_CODES = {
    "unknown task": ErrorCode.UNSUPPORTED_TASK_TYPE,
    "no inputs": None,
    "inputs of other types": None,
}


@rule("error-object", OURS, "Errors", on="failures")
def error_object(answer: Exchange, _seen: AgentObservation) -> str | None:
    """A failure has an error with the contract's code for it and a message, and no outputs.

    Send error: {code, message} without text of the inputs, and outputs: {}; the code is one of
    VALIDATION_ERROR, UNSUPPORTED_TASK_TYPE, TASK_FAILED, BUDGET_EXCEEDED, OVERLOADED.
    """
    error = answer.fields.get("error")
    if not isinstance(error, dict):
        return "error is missing or not an object"
    code, wrong = error.get("code"), []
    expected = _EXPECTED_CODES.get(answer.sent.fault, ErrorCode.VALIDATION_ERROR)
    if code not in list(ErrorCode):
        wrong.append("error.code is missing or not one of the contract's codes")
    elif expected not in (None, code):
        wrong.append(f"error.code is {code}, not {expected}")
    if not isinstance(error.get("message"), str) or not error["message"]:
        wrong.append("error.message is missing or empty")
    if answer.fields.get("outputs"):
        wrong.append("outputs is not empty")
    return "; ".join(wrong) or None


# A message that cuts its quotation short still quotes: so many letters in a row are no accident.
_ECHO_LETTERS = 12


@rule("no-echo", MUST, "PHI-safe logging rules", on="errors")
def no_echo(answer: Exchange, seen: AgentObservation) -> str | None:
    """No error response repeats text of the inputs.

    Name the field and what is wrong with it, never its value, as str(error) does.
    """
    if answer.too_large:
        return f"{answer.failure}, so that it may repeat any input"
    found = any(is_echoed(secret, answer) for secret in seen.canaries)
    return "the response repeats text of the inputs" if found else None


def is_echoed(secret: str, answer: Exchange) -> bool:
    """Whether headers or body repeat a long part of `secret`, random lower-case letters."""
    text = (answer.headers + b"\n" + answer.body).decode(errors="replace").lower()
    # Error pages escape what they quote, and redirects carry it in an address.
    unescaped = html.unescape(unquote_plus(text))
    last = len(secret) - _ECHO_LETTERS
    parts = [secret[start : start + _ECHO_LETTERS] for start in range(last + 1)]
    return any(part in text or part in unescaped for part in parts)


# --- budgets --------------------------------------------------------------------------------------


@rule("budget-time", OURS, "The request", on="short time budget")
def time_budget(answer: Exchange, seen: AgentObservation) -> str | None:
    """A run ends when budgets.timeout_ms is used up.

    Cancel the work after timeout_ms and answer BUDGET_EXCEEDED or status degraded.
    """
    budget_ms = answer.request["budgets"]["timeout_ms"]
    if answer.timed_out or answer.seconds > budget_ms / 1000 + seen.limits.grace_s:
        return f"the run took {answer.seconds:.1f} s with a budget of {budget_ms} ms"
    return None if answer.succeeded else f"a request with budgets got {answer.outcome}"


@rule("budget-tokens", OURS, "The request", on="token budget")
def token_budget(answer: Exchange, _seen: AgentObservation) -> str | None:
    """A request with budgets is run, with no more tokens than budgets.max_output_tokens.

    Pass the budget to the model as its limit, or answer BUDGET_EXCEEDED.
    """
    if not answer.succeeded:
        return f"a request with budgets got {answer.outcome}"
    used, limit = answer.output_tokens, answer.request["budgets"]["max_output_tokens"]
    if answer.reports_success and used is not None and used > limit:
        return f"usage.output_tokens is {used} with max_output_tokens {limit}"
    return None
