"""Checks of responses to requests that are refused or fail, and that none repeats the inputs."""

import base64
import html
import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any
from urllib.parse import unquote_plus

from assay.contract.conformance.exchange import Exchange
from assay.contract.conformance.probes import WAYS, AgentObservation, reports_success
from assay.contract.conformance.report import (
    PASS,
    Check,
    CheckFinding,
    RuleLevel,
    fail,
    fail_if,
    not_applicable,
)
from assay.contract.conformance.stream_checks import one_terminal, terminal_data
from assay.contract.conformance.sync_checks import failed_shape, null_paths, type_problems
from assay.contract.envelope import ErrorCode
from assay.net.json import JsonObject

_must, _, _ours = (partial(Check, level=level) for level in RuleLevel)
_NO_ENDPOINT = not_applicable("there is no endpoint that could refuse")
_MALFORMED = {
    "broken-json": ("broken JSON",),
    "missing-field": ("no request_id", "no task_type", "empty request_id"),
    "wrong-type": ("wrong type",),
}
_CODES = {"unknown task": ErrorCode.UNSUPPORTED_TASK_TYPE, "no inputs": None}


def _unknown_task(way: str) -> Callable[[AgentObservation], CheckFinding]:
    def judged(seen: AgentObservation) -> CheckFinding:
        """The contract allows a refusal and says how it looks; it does not demand one."""
        answer = seen.refused(way, "unknown task")
        if answer is None:
            return _NO_ENDPOINT
        if answer.succeeded:
            return not_applicable("the agent takes any task_type, which the contract allows")
        if answer.status is None or not 400 <= answer.status < 500:
            return fail(f"{answer.outcome} instead of HTTP 4xx")
        return _shape(answer, "an unknown task_type", in_stream=False)

    return judged


def _refuses_unknown(seen: AgentObservation) -> CheckFinding:
    answers = [seen.refused(way, "unknown task") for way in WAYS]
    asked = [each for each in answers if each is not None]
    if not asked:
        return _NO_ENDPOINT
    accepted = [each for each in asked if each.succeeded]
    if not accepted:
        return PASS
    return fail(f"an unknown task_type was accepted with {accepted[0].outcome}", accepted[0])


def _shape(answer: Exchange, what: str, *, in_stream: bool) -> CheckFinding:
    if answer.json is None:
        kind = "a web page" if answer.is_web_page else "not a JSON object"
        return fail(f"{what}: HTTP {answer.status}, and the body is {kind}", answer)
    problems = failed_shape(answer.json, answer.request_id, in_stream=in_stream)
    return fail(f"{what}: {'; '.join(problems)}", answer) if problems else PASS


def _malformed(way: str, faults: tuple[str, ...]) -> Callable[[AgentObservation], CheckFinding]:
    def judged(seen: AgentObservation) -> CheckFinding:
        found = [(fault, seen.refused(way, fault)) for fault in faults]
        answers = [(fault, answer) for fault, answer in found if answer is not None]
        if not answers:
            return _NO_ENDPOINT
        findings = [_refused(fault, answer) for fault, answer in answers]
        return next((each for each in findings if each != PASS), PASS)

    return judged


def _refused(fault: str, answer: Exchange) -> CheckFinding:
    if answer.succeeded:
        remedy = "Validate the request before the run, and refuse it with HTTP 422."
        return fail(f"{fault}: accepted with {answer.outcome}", answer, remedy)
    if answer.status not in (400, 422):
        return fail(f"{fault}: {answer.outcome} instead of HTTP 400 or 422", answer)
    return _shape(answer, fault, in_stream=False)


def _failed_sync(seen: AgentObservation) -> CheckFinding:
    """A task may run without inputs; if it fails, it must fail in the shape of the contract."""
    answer = seen.refused("sync", "no inputs")
    if answer is None:
        return _NO_ENDPOINT
    if answer.status is None:
        return fail(answer.outcome)
    if answer.succeeded and reports_success(answer):
        return not_applicable("the task runs without inputs")
    return _shape(answer, "inputs without a query", in_stream=False)


def _failed_stream(seen: AgentObservation) -> CheckFinding:
    answer = seen.refused("stream", "no inputs")
    if answer is None:
        return _NO_ENDPOINT
    if answer.status is None:
        return fail(answer.outcome)
    if not answer.succeeded:
        return _shape(answer, "inputs without a query", in_stream=False)
    body = terminal_data(answer.stream)
    if body is None or one_terminal(answer.stream) != PASS:
        return fail("a failed run does not end in exactly one terminal event")
    if reports_success(answer):
        return not_applicable("the task runs without inputs")
    problems = failed_shape(body, answer.request_id, in_stream=True)
    if not isinstance(body.get("status"), str) or not body["status"]:
        problems.append("status is missing or empty")
    if body.get("task_type") != seen.task_type:
        problems.append("task_type is not echoed")
    return fail_if(problems)


# --- what contract-shaped failures hold -----------------------------------------------------------


def _failures(seen: AgentObservation) -> Iterator[tuple[str, Exchange, JsonObject]]:
    """What was wrong, the exchange and its body, of all that is a failure in some dialect of the
    contract. Other bodies are the matter of other rules."""
    for group in seen.refusals.values():
        for fault, answer in group.items():
            body = answer.json if answer.json is not None else terminal_data(answer.stream)
            if body is None or reports_success(answer):
                continue
            if "outputs" in body or "request_id" in body:
                yield fault, answer, body


def _of_failures(
    problems: Callable[[str, JsonObject], list[str]],
) -> Callable[[AgentObservation], CheckFinding]:
    """The first failure that has problems, and how many others have some."""

    def judged(seen: AgentObservation) -> CheckFinding:
        judged = [(what, answer, problems(what, body)) for what, answer, body in _failures(seen)]
        if not judged:
            return not_applicable("nothing failed in the shape of the contract")
        bad = [(what, answer, found) for what, answer, found in judged if found]
        if not bad:
            return PASS
        what, answer, found = bad[0]
        also = f"; {len(bad)} of {len(judged)} failures are so" if len(bad) > 1 else ""
        return fail(f"{what}: {', '.join(found)}{also}", answer)

    return judged


def _error_object(_fault: str, body: JsonObject) -> list[str]:
    error = body.get("error")
    if not isinstance(error, dict):
        return ["there is no error object"]
    return [
        f"error.{name} is missing or empty"
        for name in ("code", "message")
        if not isinstance(error.get(name), str) or not error[name]
    ]


def _error_code(fault: str, body: JsonObject) -> list[str]:
    error: Any = body.get("error")
    code = error.get("code") if isinstance(error, dict) else None
    if not isinstance(code, str):
        return []  # the matter of error-object
    if code not in set(ErrorCode):
        return ["error.code is none of the contract's codes"]
    expected = _CODES.get(fault, ErrorCode.VALIDATION_ERROR)
    return [] if expected in (None, code) else [f"error.code is {code}, not {expected}"]


def _error_outputs(_fault: str, body: JsonObject) -> list[str]:
    return ["outputs is not empty"] if body.get("outputs") else []


def _error_fields(_fault: str, body: JsonObject) -> list[str]:
    return type_problems(body) + [f"{path} is null" for path in null_paths(body)]


def _first_failure(seen: AgentObservation) -> Exchange | None:
    return next((answer for _, answer, _ in _failures(seen)), None)


def _request(way: str, fault: str) -> Callable[[AgentObservation], Exchange | None]:
    return lambda seen: seen.refused(way, fault)


_MALFORMED_RULES = {
    "broken-json": "A body that is not JSON is refused with a contract-shaped 400 or 422.",
    "missing-field": "Without request_id or task_type a request is refused with a contract-shaped "
    "400 or 422.",
    "wrong-type": "A field of the wrong type is refused with a contract-shaped 400 or 422.",
}
_SHAPE = "request_id, ok: false, outputs: {}, warnings and error"

REFUSAL_CHECKS = (
    *(
        _must(
            f"{way}-unknown-task",
            "Overview + endpoints, line 10",
            "A task_type that is refused is refused with a contract-shaped 4xx.",
            f"Answer HTTP 400 with {_SHAPE}.",
            _unknown_task(way),
            _request(way, "unknown task"),
        )
        for way in WAYS
    ),
    _ours(
        "unknown-task-refused",
        "Errors",
        "A task_type that the agent does not do is refused.",
        "Compare task_type with the tasks of the agent before the run.",
        _refuses_unknown,
        _request("sync", "unknown task"),
    ),
    *(
        _ours(
            f"{way}-{name}",
            "Errors",
            _MALFORMED_RULES[name],
            f"Replace the framework's own answer to a malformed request by one with {_SHAPE}.",
            _malformed(way, faults),
            _request(way, faults[0]),
        )
        for name, faults in _MALFORMED.items()
        for way in WAYS
    ),
    _must(
        "sync-failed-run",
        "Sync response shape, line 31",
        "A failed run responds in the same shape, and says that it failed.",
        f'Catch what the task raises and answer status: "error" with {_SHAPE}.',
        _failed_sync,
        _request("sync", "no inputs"),
    ),
    _must(
        "stream-failed-run",
        "Stream invariant, lines 53 and 54",
        "A failed run still ends in exactly one terminal event that reports the failure.",
        'Send final with status: "error", ok: false and outputs: {} when the task raises.',
        _failed_stream,
        _request("stream", "no inputs"),
    ),
    _ours(
        "error-object",
        "Errors",
        "A failure has an error with a code and a message.",
        "Send error: {code, message}, the message without text of the inputs.",
        _of_failures(_error_object),
        _first_failure,
    ),
    _ours(
        "error-code",
        "Errors",
        "error.code is the contract's code for what went wrong.",
        "Use VALIDATION_ERROR, UNSUPPORTED_TASK_TYPE, TASK_FAILED, BUDGET_EXCEEDED or OVERLOADED.",
        _of_failures(_error_code),
        _first_failure,
    ),
    _ours(
        "error-outputs",
        "Errors",
        "The outputs of a failure are empty.",
        "Send outputs: {} where the run failed, and status: degraded for a partial result.",
        _of_failures(_error_outputs),
        _first_failure,
    ),
    _ours(
        "error-fields",
        "Errors",
        "The fields of a failure have their types, and none is null.",
        "Leave out what has no value, and send the types of docs/schemas/AgentRunResponse.json.",
        _of_failures(_error_fields),
        _first_failure,
    ),
)


# A message that cuts its quotation short still quotes: so many characters in a row are no accident.
_WINDOW = 12
_UNICODE_ESCAPE = re.compile(r"(?<!\\)\\++u([0-9a-f]{4})", re.IGNORECASE)
_SEPARATORS = re.compile(r"[^0-9a-z]+")


def echo_of(secret: str, response: bytes) -> str | None:
    """In which writing a response repeats `secret` or a long part of it; None where it does not.

    Parameters:
        secret: the text that was sent, which ends in random letters and digits.
        response: headers and body.
    """
    random_part = secret.rpartition("-")[2].rpartition("_")[2]
    text = response.decode(errors="replace")
    if _part_in(random_part, text):
        return "as it was sent"
    if _part_in(random_part.lower(), text.lower()):
        return "in another case"
    decoded = html.unescape(unquote_plus(_UNICODE_ESCAPE.sub(_character, text)))
    if _part_in(random_part.lower(), decoded.lower()):
        return "escaped"
    if _in_hex(random_part, text) or _in_base64(secret, text):
        return "encoded"
    if random_part.lower() in _SEPARATORS.sub("", decoded.lower()):
        return "with other characters in between"
    if random_part[::-1].lower() in text.lower():
        return "backwards"
    return None


def _character(escape: re.Match[str]) -> str:
    return chr(int(escape[1], 16))


def _part_in(secret: str, text: str) -> bool:
    last = max(1, len(secret) - _WINDOW + 1)
    return any(secret[start : start + _WINDOW] in text for start in range(last))


def _in_hex(secret: str, text: str) -> bool:
    return secret.encode().hex() in text.lower()


def _in_base64(secret: str, text: str) -> bool:
    """Base64 writes three bytes at a time, so a text looks different at each of three offsets."""
    plain = text.replace("-", "+").replace("_", "/")
    for offset in range(3):
        padded = base64.b64encode(b"\0" * offset + secret.encode()).decode()
        # Characters at the edges also depend on what stands next to the text.
        if padded[4 : len(padded) - 8] in plain:
            return True
    return False


def _no_echo(seen: AgentObservation) -> CheckFinding:
    return _leaks(seen, seen.canary, "text of the inputs")


def _no_key_echo(seen: AgentObservation) -> CheckFinding:
    return _leaks(seen, seen.canary_key, "a key of the inputs, which is chosen by the caller")


def _leaks(seen: AgentObservation, secret: str, what: str) -> CheckFinding:
    errors = seen.errors()
    if not errors:
        return not_applicable("there is no error response")
    found = [
        (each, writing)
        for each in errors
        if (writing := echo_of(secret, each.headers + b"\n" + each.body))
    ]
    if not found:
        return PASS
    writings = ", ".join(dict.fromkeys(writing for _, writing in found))
    return fail(f"{len(found)} error responses repeat {what}: {writings}", found[0][0])


def _first_error(seen: AgentObservation) -> Exchange | None:
    return next(iter(seen.errors()), None)


LEAK_CHECKS = (
    _must(
        "no-echo",
        "PHI-safe logging rules, line 74",
        "No error response repeats text of the inputs.",
        "Name the field and what is wrong with it, never its value; a framework's own 422 quotes "
        "the input.",
        _no_echo,
        _first_error,
    ),
    _ours(
        "no-key-echo",
        "Errors",
        "No error response repeats keys that the caller chose.",
        "Name only fields that the task declares.",
        _no_key_echo,
        _first_error,
    ),
)
