"""The tests of the contract's rules: each looks at one response and returns the problem, or None.

`SELECTORS` say which responses a rule is about; a rule that finds none does not apply. A problem
quotes names and numbers, never content.
"""

import html
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any
from urllib.parse import unquote_plus

from pydantic import ValidationError

from assay.contract.client import TERMINAL_EVENTS, indicators_of, outputs_of, success_of
from assay.contract.conformance.probes import AgentObservation, Exchange, endpoint_missing
from assay.contract.envelope import SUCCESS_STATUSES, AgentRunResponse, ErrorCode, field_problems

# --- which responses a rule is about --------------------------------------------------------------


def _result(way: str, seen: AgentObservation) -> list[Exchange]:
    run = seen.run[way]
    return [run] if run.succeeded and run.result is not None else []


def _with_events(seen: AgentObservation) -> list[Exchange]:
    run = seen.run["stream"]
    return [run] if run.succeeded and run.events.events else []


def _refusals_of_tasks(seen: AgentObservation) -> list[Exchange]:
    """The contract allows a refusal and says how it looks; it does not demand one."""
    return [answer for answer in seen.refused("unknown task") if not answer.succeeded]


def _failed_runs(way: str, seen: AgentObservation) -> list[Exchange]:
    """A task may run without its inputs; if it fails, it must fail in the contract's shape."""
    asked = seen.refused("no inputs", "inputs of other types")
    return [run for run in asked if run.sent.url.endswith(way) and not run.reports_success]


def _errors(seen: AgentObservation) -> list[Exchange]:
    return [answer for answer in seen.refusals if not answer.reports_success]


def _failures(seen: AgentObservation) -> list[Exchange]:
    """Errors in some dialect of the contract; other bodies are the matter of other rules."""
    named = {"outputs", "request_id"}
    return [answer for answer in _errors(seen) if named & set(answer.result or ())]


def _few_tokens(seen: AgentObservation) -> list[Exchange]:
    """Not a run that succeeded without saying how many tokens it used."""
    answer = seen.few_tokens
    if answer is None or (answer.reports_success and _usage(answer) is None):
        return []
    return [answer]


def _asked(answer: Exchange | None) -> list[Exchange]:
    return [] if answer is None else [answer]


_MISSING = ("no request_id", "empty request_id", "no task_type")

SELECTORS: dict[str, Callable[[AgentObservation], list[Exchange]]] = {
    "health": lambda seen: [seen.health],
    "readiness": lambda seen: [seen.ready],
    "sync": lambda seen: [seen.run["sync"]],
    "sync result": partial(_result, "sync"),
    "stream": lambda seen: [seen.run["stream"]],
    "events": _with_events,
    "terminal event": partial(_result, "stream"),
    "results": lambda seen: [*_result("sync", seen), *_result("stream", seen)],
    "short time budget": lambda seen: _asked(seen.short_time),
    "token budget": _few_tokens,
    "refused task": _refusals_of_tasks,
    "unknown task": lambda seen: seen.refused("unknown task"),
    "missing field": lambda seen: seen.refused(*_MISSING),
    "malformed request": lambda seen: seen.refused(*_MISSING, "broken JSON", "wrong type"),
    "failed sync run": partial(_failed_runs, "/sync"),
    "failed stream": partial(_failed_runs, "/stream"),
    "failures": _failures,
    "results and failures": lambda seen: [
        *(_result("sync", seen) + _result("stream", seen)),
        *_failures(seen),
    ],
    "errors": _errors,
}


# --- health ---------------------------------------------------------------------------------------


def health_ok(answer: Exchange, _seen: AgentObservation) -> str | None:
    if answer.failure or not answer.succeeded:
        return answer.failure or answer.outcome
    body = answer.json
    if body is None:
        return "a web page" if answer.is_web_page else "not a JSON object"
    well = body.get("status") == "ok" and isinstance(body.get("service"), str)
    return None if well else 'not {"status": "ok", "service": name}'


def ready_ok(answer: Exchange, _seen: AgentObservation) -> str | None:
    if answer.failure or answer.status not in (200, 503):
        return answer.failure or answer.outcome
    status = (answer.json or {}).get("status")
    if status == "degraded":
        return "the agent reports that it is degraded, which may cause other rules to fail"
    if status != "ready":
        return 'the status is neither "ready" nor "degraded"'
    return None if answer.status == 200 else "it says ready, with HTTP 503"


# --- valid requests -------------------------------------------------------------------------------


def run_answered(answer: Exchange, _seen: AgentObservation) -> str | None:
    path = "/agents/run/" + answer.sent.url.rpartition("/")[2]
    if answer.status is None:
        return answer.outcome
    if endpoint_missing(answer):
        page = " with a web page" if answer.is_web_page else ""
        return (
            f"POST {path} answered HTTP {answer.status}{page}: there is no agent at this path; "
            "check the base address"
        )
    if not answer.succeeded:
        return f"a valid request got HTTP {answer.status}{_hint(answer.status)}"
    if answer.is_stream:
        return None if answer.events.events else "the stream has no events"
    return answer.failure if answer.timed_out else None


def _hint(status: int) -> str:
    if status == 429 or status in (502, 503, 504):
        return ": the agent or its gateway is busy or not up; check again when it is"
    if status >= 500:
        return ": the agent crashed on a valid request; its log has the cause"
    if status in (400, 422):
        return ": if the sample inputs do not suit the agent, pass others with --inputs"
    return ""


def json_body(answer: Exchange, _seen: AgentObservation) -> str | None:
    if not answer.succeeded or answer.is_web_page or answer.timed_out:
        return None  # the matter of sync-status
    if answer.failure is not None:
        return answer.failure
    if answer.json is None:
        return "the body is not a JSON object"
    if answer.media_type == "application/json" or answer.media_type.endswith("+json"):
        return None
    return f"the content type is {answer.media_type[:40]!r}"


def id_echoed(name: str, answer: Exchange, _seen: AgentObservation) -> str | None:
    body, sent = answer.result or {}, answer.request.get(name)
    if name not in body:
        return f"{name} is missing"
    if not isinstance(body[name], str) or not body[name]:
        return f"{name} is not a non-empty string"
    return None if body[name] == sent else f"{name} is not the one that was sent, {sent!r}"


def outputs_present(answer: Exchange, _seen: AgentObservation) -> str | None:
    if answer.is_stream:
        return None if _has_outputs(answer) else "outputs or data is missing or not an object"
    return None if _has_outputs(answer) else "outputs is missing or not an object"


def _has_outputs(answer: Exchange) -> bool:
    """Only the terminal event of a stream may call it `data`."""
    body = answer.result or {}
    found = outputs_of(body) if answer.is_stream else body.get("outputs")
    return isinstance(found, dict)


def _indicates_success(answer: Exchange) -> bool:
    """By an indicator of the contract; `success` is one in a stream only."""
    body = answer.result or {}
    known = body.get("status") in SUCCESS_STATUSES or body.get("ok") is True
    return known or (answer.is_stream and body.get("success") is True)


def success_reported(answer: Exchange, _seen: AgentObservation) -> str | None:
    if _indicates_success(answer):
        return None
    if success_of(answer.result or {}) is False:
        return "the agent reports that the run failed; other inputs may suit it: pass --inputs"
    return "no success indicator says that the run succeeded"


def status_present(answer: Exchange, _seen: AgentObservation) -> str | None:
    status = (answer.result or {}).get("status")
    return None if isinstance(status, str) and status else "status is missing or empty"


def recommended_present(answer: Exchange, _seen: AgentObservation) -> str | None:
    names = ("artifacts", "provenance", "usage", "warnings")
    absent = [name for name in names if name not in (answer.result or {})]
    return f"absent: {', '.join(absent)}" if absent else None


# --- streams --------------------------------------------------------------------------------------


def event_stream(answer: Exchange, _seen: AgentObservation) -> str | None:
    if not answer.succeeded or answer.is_web_page or answer.media_type == "text/event-stream":
        return None
    return f"the content type is {answer.media_type[:40]!r}"


def framing(answer: Exchange, _seen: AgentObservation) -> str | None:
    return "; ".join(answer.events.problems) or None


def data_json(answer: Exchange, _seen: AgentObservation) -> str | None:
    broken, total = answer.events.not_json, len(answer.events.events)
    return f"the data of {broken} of {total} events is not JSON" if broken else None


def type_repeated(answer: Exchange, _seen: AgentObservation) -> str | None:
    objects = answer.events.objects
    wrong = sorted({name[:40] for name, data in objects if data.get("type") != name})
    return f"type is not the event's name in: {', '.join(wrong)}" if wrong else None


def started_ids(answer: Exchange, _seen: AgentObservation) -> str | None:
    """The contract does not demand a started event; one that comes has the ids."""
    for name, data in answer.events.objects:
        if name == "started":
            ids = ("request_id", "task_type")
            wrong = [name for name in ids if data.get(name) != answer.request[name]]
            return f"{' and '.join(wrong)} not echoed in started" if wrong else None
    return None


def stream_timely(answer: Exchange, seen: AgentObservation) -> str | None:
    events, limits = answer.events, seen.limits
    if events.first_event_s is None or events.first_event_s > limits.first_event_s:
        return f"no event within {limits.first_event_s:g} s"
    # A heartbeat that is due at the limit may be a little late on its way.
    if events.longest_silence_s > limits.heartbeat_s * 1.2:
        return f"silent for {events.longest_silence_s:.1f} s"
    return answer.failure if not answer.timed_out else None


def stream_closed(answer: Exchange, _seen: AgentObservation) -> str | None:
    if answer.timed_out and answer.events.terminal_count:
        return "the stream was still open seconds after its terminal event"
    return None


def one_terminal(answer: Exchange, _seen: AgentObservation) -> str | None:
    events = answer.events
    if events.terminal_count != 1:
        cut = "; the stream was still open or was cut off" if answer.failure else ""
        return f"{events.terminal_count} of {len(events.events)} events are terminal{cut}"
    if events.terminal is None and not events.not_json:
        return "the data of the terminal event is not a JSON object"
    return None


def terminal_last(answer: Exchange, _seen: AgentObservation) -> str | None:
    names = answer.events.names
    if TERMINAL_EVENTS.isdisjoint(names) or names[-1] in TERMINAL_EVENTS:
        return None
    return "another event comes after the terminal one"


# --- the fields of any response -------------------------------------------------------------------

# What is inside these belongs to the task, not to the envelope.
_FREE_FORM = frozenset({"outputs", "data", "provenance", "metadata", "details"})
_TESTED_APART = frozenset({"request_id", "task_type", "status", "outputs"})


def field_types(answer: Exchange, _seen: AgentObservation) -> str | None:
    body = answer.result or {}
    optional = {name: value for name, value in body.items() if name not in _TESTED_APART}
    try:
        AgentRunResponse.model_validate({**optional, "request_id": "-", "status": "ok"})
    except ValidationError as error:
        problems = field_problems(error, AgentRunResponse)
        return "; ".join(f"{problem['field']} {problem['problem']}" for problem in problems)
    return None


def no_null(answer: Exchange, _seen: AgentObservation) -> str | None:
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


def indicators_agree(answer: Exchange, _seen: AgentObservation) -> str | None:
    contradict = len(indicators_of(answer.result or {})) > 1
    return "status, ok and success contradict each other" if contradict else None


def no_error_on_success(answer: Exchange, _seen: AgentObservation) -> str | None:
    """Null is another rule's matter."""
    body = answer.result or {}
    wrong = _indicates_success(answer) and body.get("error") is not None
    return "error is there, with success" if wrong else None


# --- requests that are refused, and runs that fail ------------------------------------------------


def not_run(answer: Exchange, _seen: AgentObservation) -> str | None:
    return f"accepted with {answer.outcome}" if answer.reports_success else None


def not_accepted(answer: Exchange, _seen: AgentObservation) -> str | None:
    return f"accepted with {answer.outcome}" if answer.succeeded else None


def task_refused(answer: Exchange, seen: AgentObservation) -> str | None:
    if answer.status is None or not 400 <= answer.status < 500:
        return f"{answer.outcome} instead of HTTP 4xx"
    return failure_shape(answer, seen)


def request_refused(answer: Exchange, seen: AgentObservation) -> str | None:
    if answer.status not in (400, 422):
        return f"{answer.outcome} instead of HTTP 400 or 422"
    return failure_shape(answer, seen)


def failure_shape(answer: Exchange, _seen: AgentObservation) -> str | None:
    """What is wrong with a response that should say: this request failed."""
    if answer.status is None:
        return answer.outcome
    body = answer.result
    if body is None:
        kind = "a web page" if answer.is_web_page else "not a JSON object"
        return f"HTTP {answer.status}, and the body is {kind}"
    problems = []
    if _indicates_success(answer):
        problems.append("it reports success")
    elif not isinstance(body.get("status"), str) and success_of(body) is None:
        problems.append('no failure indicator (ok false, status "error")')
    if not _has_outputs(answer):
        problems.append("outputs is missing or not an object")
    sent_id = answer.request.get("request_id")
    if sent_id and body.get("request_id") != sent_id:
        problems.append("request_id is not echoed")
    return "; ".join(problems) or None


def failed_stream(answer: Exchange, seen: AgentObservation) -> str | None:
    if not answer.is_stream:
        return failure_shape(answer, seen)
    if answer.events.terminal_count != 1 or answer.events.terminal is None:
        return "a failed run does not end in exactly one terminal event"
    named = (status_present(answer, seen), id_echoed("task_type", answer, seen))
    return "; ".join(filter(None, (failure_shape(answer, seen), *named))) or None


_CODES = {
    "unknown task": ErrorCode.UNSUPPORTED_TASK_TYPE,
    "no inputs": None,
    "inputs of other types": None,
}


def error_object(answer: Exchange, _seen: AgentObservation) -> str | None:
    body = answer.result or {}
    error = body.get("error")
    if not isinstance(error, dict):
        return "error is missing or not an object"
    wrong = [
        f"error.{name} is missing or empty"
        for name in ("code", "message")
        if not isinstance(error.get(name), str) or not error[name]
    ]
    if body.get("outputs"):
        wrong.append("outputs is not empty")
    return "; ".join(wrong) or None


def error_code(answer: Exchange, _seen: AgentObservation) -> str | None:
    error: Any = (answer.result or {}).get("error")
    code = error.get("code") if isinstance(error, dict) else None
    if not isinstance(code, str):
        return None  # the matter of error-object
    if code not in set(ErrorCode):
        return "error.code is none of the contract's codes"
    expected = _CODES.get(answer.sent.fault, ErrorCode.VALIDATION_ERROR)
    return None if expected in (None, code) else f"error.code is {code}, not {expected}"


# --- inputs that come back ------------------------------------------------------------------------

# A message that cuts its quotation short still quotes: so many letters in a row are no accident.
_WINDOW = 12


def no_echo(answer: Exchange, seen: AgentObservation) -> str | None:
    if answer.too_large:
        return f"{answer.failure}, so that it may repeat any input"
    written = [echo_of(secret, answer) for secret in seen.canaries]
    found = next(filter(None, written), None)
    return f"the response repeats text of the inputs, {found}" if found else None


def echo_of(secret: str, answer: Exchange) -> str | None:
    """How headers or body repeat `secret`, random letters, or a long part of it; else None."""
    text = (answer.headers + b"\n" + answer.body).decode(errors="replace")
    written = {
        "as it was sent": text,
        "in another case": text.lower(),
        "escaped": html.unescape(unquote_plus(text)).lower(),
    }
    parts = [secret[start : start + _WINDOW] for start in range(len(secret) - _WINDOW + 1)]
    for name, writing in written.items():
        if any(part in writing for part in parts):
            return name
    return None


# --- budgets -------------------------------------------------------------------------------------


def time_budget(answer: Exchange, seen: AgentObservation) -> str | None:
    budget_ms = answer.request["budgets"]["timeout_ms"]
    if answer.timed_out or answer.seconds > budget_ms / 1000 + seen.limits.grace_s:
        return f"the run took {answer.seconds:.1f} s with a budget of {budget_ms} ms"
    return None if answer.succeeded else f"a request with budgets got {answer.outcome}"


def token_budget(answer: Exchange, _seen: AgentObservation) -> str | None:
    if not answer.succeeded:
        return f"a request with budgets got {answer.outcome}"
    used, most = _usage(answer), answer.request["budgets"]["max_output_tokens"]
    if answer.reports_success and used is not None and used > most:
        return f"usage.output_tokens is {used} with max_output_tokens {most}"
    return None


def _usage(answer: Exchange) -> int | None:
    usage: Any = (answer.json or {}).get("usage")
    value = usage.get("output_tokens") if isinstance(usage, dict) else None
    return value if isinstance(value, int) and not isinstance(value, bool) else None
