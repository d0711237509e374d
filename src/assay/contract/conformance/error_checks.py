"""Checks of the responses to requests that must be refused or that fail."""

from collections.abc import Mapping
from typing import Any

from assay.contract.conformance.probes import WAYS, AgentObservation, Exchange
from assay.contract.conformance.report import (
    PASS,
    Check,
    CheckFinding,
    fail,
    fail_if,
    not_applicable,
    warning,
)
from assay.contract.conformance.response_shape import failed_shape
from assay.contract.conformance.stream_checks import one_terminal, terminal_data
from assay.contract.envelope import ErrorCode
from assay.contract.responses import success_of


def _refusal(answer: Exchange, code: ErrorCode, statuses: range | tuple[int, ...]) -> CheckFinding:
    """Refused with one of `statuses` and a body in the shape of the contract."""
    if answer.status is None:
        return fail(answer.failure or "no answer")
    if answer.status not in statuses:
        return fail(f"answered HTTP {answer.status}")
    if answer.json is None:
        return fail("the body is not a JSON object")
    problems = failed_shape(answer.json)
    if answer.request_id and answer.json.get("request_id") != answer.request_id:
        problems.append("request_id is not echoed")
    given = answer.json.get("error")
    if isinstance(given, dict) and given.get("code") != code:
        problems.append(f"error.code is not {code}")
    return _verdict(answer.json, problems)


def _verdict(body: Mapping[str, Any], problems: list[str]) -> CheckFinding:
    if not problems and "error" not in body:
        return warning("there is no error object with a code and a message")
    return fail_if(list(dict.fromkeys(problems)))


def _unknown_task(way: str) -> Check:
    return Check(
        f"{way}-unknown-task",
        "Another task_type is refused with a contract-shaped 4xx.",
        lambda o: _refusal(o.unknown_task[way], ErrorCode.UNSUPPORTED_TASK_TYPE, range(400, 500)),
    )


def _broken_json(way: str) -> Check:
    return Check(
        f"{way}-broken-json",
        "A body that is not JSON is refused with a contract-shaped 400.",
        lambda o: _refusal(o.broken_json[way], ErrorCode.VALIDATION_ERROR, (400, 422)),
    )


def _wrong_type(way: str) -> Check:
    return Check(
        f"{way}-wrong-type",
        "A field of the wrong type is refused with a contract-shaped 422.",
        lambda o: _refusal(o.wrong_type[way], ErrorCode.VALIDATION_ERROR, (400, 422)),
    )


def _missing(way: str) -> Check:
    return Check(
        f"{way}-missing-field",
        "Without request_id or task_type a request is refused with a contract-shaped 422.",
        lambda o: _each_missing(o.missing[way]),
    )


def _each_missing(answers: Mapping[str, Exchange]) -> CheckFinding:
    findings = {
        name: _refusal(answer, ErrorCode.VALIDATION_ERROR, (400, 422))
        for name, answer in answers.items()
    }
    bad = {name: finding for name, finding in findings.items() if finding != PASS}
    if not bad:
        return PASS
    # "fail" sorts before "warn"
    worst = min(bad, key=lambda name: bad[name].verdict)
    others = ", ".join(name for name in bad if name != worst)
    also = f"; also wrong: {others}" if others else ""
    return CheckFinding(bad[worst].verdict, f"{worst}: {bad[worst].detail}{also}")


def _failed_sync(seen: AgentObservation) -> CheckFinding:
    """A task may run without inputs; if it fails, it must fail in the shape of the contract."""
    answer = seen.no_inputs["sync"]
    if answer.status is None:
        return fail(answer.failure or "no answer")
    if answer.json is not None and success_of(answer.json) is True:
        return not_applicable("the task runs without inputs")
    if answer.status >= 500 or answer.json is None:
        return fail(
            f"answered HTTP {answer.status} instead of a response that explains the failure"
        )
    return _verdict(answer.json, failed_shape(answer.json))


def _failed_stream(seen: AgentObservation) -> CheckFinding:
    answer = seen.no_inputs["stream"]
    if answer.status is None:
        return fail(answer.failure or "no answer")
    if answer.status >= 400:
        return _failed_before_stream(answer)
    body = terminal_data(answer.stream)
    if body is None or one_terminal(answer.stream) != PASS:
        return fail("a failed run does not end in exactly one terminal event")
    if success_of(body) is True:
        return not_applicable("the task runs without inputs")
    return _verdict(body, failed_shape(body))


def _failed_before_stream(answer: Exchange) -> CheckFinding:
    if (answer.status and answer.status >= 500) or answer.json is None:
        return fail(f"answered HTTP {answer.status} instead of a terminal event")
    return _verdict(answer.json, failed_shape(answer.json))


def _no_echo(seen: AgentObservation) -> CheckFinding:
    canary = seen.canary.encode()
    leaks = [each for each in seen.errors() if canary in each.body or canary in each.headers]
    if leaks:
        return fail(f"{len(leaks)} error responses repeat text of the inputs")
    named = [each for each in seen.errors() if seen.canary_key.encode() in each.body]
    if named:
        return warning(
            f"{len(named)} error responses repeat a key of the inputs, which is chosen by the "
            "caller"
        )
    return PASS


REFUSAL_CHECKS = (
    *(make(way) for make in (_unknown_task, _broken_json, _missing, _wrong_type) for way in WAYS),
    Check(
        "sync-failed-run",
        'A failed run responds with status "error", ok false, outputs {} and an error.',
        _failed_sync,
    ),
    Check(
        "stream-failed-run",
        "A failed run still ends in exactly one terminal event that reports the failure.",
        _failed_stream,
    ),
    Check("no-echo", "No error response repeats text of the inputs.", _no_echo),
)
