"""Checks of a service beside its runs: health, budgets, and runs whose client leaves."""

import re
from collections.abc import Iterator
from functools import partial
from typing import Any

from assay.contract.conformance.exchange import Exchange
from assay.contract.conformance.probes import AgentObservation, reports_success
from assay.contract.conformance.report import (
    PASS,
    Check,
    CheckFinding,
    RuleLevel,
    fail,
    not_applicable,
    warning,
)
from assay.net.json import parse_object

_ours = partial(Check, level=RuleLevel.OURS)

_DEEPEST = 20
# An address of a machine: a URL, an IPv4 address, or a host with a port. A time of day and a
# version have no letter before the colon or no port after it.
_ADDRESS = re.compile(
    r"""[a-z][a-z0-9+.-]{0,30}://[^\s"'/]
        | (?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?![\w.])
        | \blocalhost\b
        | (?<![\w.-])[a-z][\w-]*(?:\.[\w-]+)*:(?:80|\d{3,5})(?!\w)
    """,
    re.IGNORECASE | re.VERBOSE,
)
_WEB_PAGE = "the endpoint answers with a web page"


def _health(seen: AgentObservation) -> CheckFinding:
    answer, body = seen.health, seen.health.json
    if answer.is_web_page and answer.succeeded:
        return not_applicable(_WEB_PAGE)
    if answer.failure or not answer.succeeded:
        return fail(f"GET /health: {answer.failure or answer.outcome}")
    if body is None:
        return fail("GET /health is not a JSON object")
    if body.get("status") != "ok" or not isinstance(body.get("service"), str):
        return fail('GET /health is not {"status": "ok", "service": name}')
    return PASS


def _ready(seen: AgentObservation) -> CheckFinding:
    answer, body = seen.ready, seen.ready.json
    if answer.is_web_page and answer.succeeded:
        return not_applicable(_WEB_PAGE)
    if answer.status not in (200, 503) or answer.failure:
        return fail(f"GET /health/ready: {answer.failure or answer.outcome}")
    if body is None:
        return fail("GET /health/ready is not a JSON object")
    if body.get("status") not in ("ready", "degraded"):
        return fail('the status of GET /health/ready is neither "ready" nor "degraded"')
    if body["status"] == "degraded":
        return warning(
            "the agent reports that it is degraded, which may cause other checks to fail"
        )
    return PASS if answer.status == 200 else fail("GET /health/ready says ready, with HTTP 503")


def _health_json(seen: AgentObservation) -> CheckFinding:
    answers = {"/health": seen.health, "/health/ready": seen.ready}
    there = {path: each for path, each in answers.items() if each.status in (200, 503)}
    if not there:
        return not_applicable("there is no health endpoint")
    for path, answer in there.items():
        if answer.is_web_page:
            return fail(f"GET {path} answers HTTP {answer.status} with a web page", answer)
    return PASS


def _no_addresses(seen: AgentObservation) -> CheckFinding:
    for path, answer in {"/health": seen.health, "/health/ready": seen.ready}.items():
        if answer.json is None:
            continue
        named = [where for where, text in _texts(answer.json) if _ADDRESS.search(text)]
        if named:
            # The field is named, never its value: the report goes to more people than the agent.
            return fail(f"GET {path} has an address in {', '.join(named[:5])}", answer)
    if seen.health.json is None and seen.ready.json is None:
        return not_applicable("there is no health endpoint with JSON")
    return PASS


def _texts(value: Any, path: str = "", depth: int = 0) -> Iterator[tuple[str, str]]:
    """All texts in a JSON value, keys included, with the field that they stand in."""
    if depth > _DEEPEST:
        return
    if isinstance(value, str):
        yield path or "body", value
    elif isinstance(value, dict):
        for name, item in value.items():
            key_is_address = bool(_ADDRESS.search(name))
            here = ".".join(part for part in (path, "*" if key_is_address else name[:40]) if part)
            yield here, name
            yield from _texts(item, here, depth + 1)
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item, f"{path}[]", depth + 1)


def _of_health(seen: AgentObservation) -> Exchange:
    return seen.health


def _of_ready(seen: AgentObservation) -> Exchange:
    return seen.ready


HEALTH_CHECKS = (
    _ours(
        "health",
        "Endpoints",
        "GET /health reports ok and the service name.",
        'Serve GET /health with {"status": "ok", "service": name} as soon as the process is up.',
        _health,
        _of_health,
    ),
    _ours(
        "health-ready",
        "Endpoints",
        "GET /health/ready reports ready or degraded.",
        'Serve GET /health/ready: 200 {"status": "ready"} when the agent can work, 503 '
        '{"status": "degraded"} before.',
        _ready,
        _of_ready,
    ),
    _ours(
        "health-json",
        "Endpoints",
        "Health endpoints answer with JSON, not with a web page.",
        "A catch-all route or a proxy answers in the agent's place: route the path to the agent.",
        _health_json,
        _of_health,
    ),
    _ours(
        "health-no-addresses",
        "Endpoints",
        "Health endpoints name no internal addresses.",
        "Report names and counts of what the agent depends on, and keep addresses in its log.",
        _no_addresses,
        _of_ready,
    ),
)


_NO_RUN = not_applicable("there is no successful run to give a budget to")


def _accepted(seen: AgentObservation) -> CheckFinding:
    asked = [each for each in (seen.short_time, seen.few_tokens) if each is not None]
    if not asked:
        return _NO_RUN
    for answer in asked:
        if not answer.succeeded and not answer.timed_out:
            return fail(f"a request with budgets got {answer.outcome}", answer)
    return PASS


def _time(seen: AgentObservation) -> CheckFinding:
    answer, usual = seen.short_time, seen.run["sync"].seconds
    if answer is None:
        return _NO_RUN
    if answer.timed_out:
        return fail(f"{answer.failure}, with a budget of {_budget(answer, 'timeout_ms')} ms")
    if not answer.succeeded:
        return not_applicable("a request with budgets is not accepted")
    budget_ms, reported = _budget(answer, "timeout_ms"), _usage(answer, "duration_ms") or 0
    latest_s = budget_ms / 1000 + seen.limits.grace_s
    if reports_success(answer) and reported / 1000 > latest_s:
        return fail(f"usage.duration_ms is {reported} with a budget of {budget_ms} ms")
    long_enough = usual >= 2 * seen.limits.grace_s
    if long_enough and answer.seconds > latest_s:
        return fail(f"the run took {answer.seconds:.1f} s with a budget of {budget_ms} ms")
    if long_enough or not reports_success(answer):
        return PASS
    return not_applicable("the run is too short for its budget to show")


def _tokens(seen: AgentObservation) -> CheckFinding:
    return _limited(seen, "output_tokens", "max_output_tokens")


def _escalations(seen: AgentObservation) -> CheckFinding:
    return _limited(seen, "escalations", "max_escalations")


def _limited(seen: AgentObservation, spent: str, budget: str) -> CheckFinding:
    answer = seen.few_tokens
    if answer is None:
        return _NO_RUN
    if not answer.succeeded or answer.timed_out:
        return not_applicable("a request with budgets is not accepted")
    if not reports_success(answer):
        return PASS
    used, most = _usage(answer, spent), _budget(answer, budget)
    if used is None:
        return not_applicable(f"usage does not report {spent}")
    return fail(f"usage.{spent} is {used} with {budget} {most}") if used > most else PASS


def _usage(answer: Exchange, name: str) -> int | None:
    usage: Any = (answer.json or {}).get("usage")
    value = usage.get(name) if isinstance(usage, dict) else None
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _budget(answer: Exchange, name: str) -> int:
    sent = parse_object(answer.sent.content) or {}
    return int(sent["budgets"][name])


def _cancelled(seen: AgentObservation) -> CheckFinding:
    again = seen.abandoned
    usual = min(each.seconds for each in seen.run.values())
    if again is None:
        return not_applicable(
            "it cannot be seen from outside: runs are too short or too long, or are not remembered"
        )
    if reports_success(again) and again.seconds < usual / 4:
        return fail(
            f"after the client had left, the run went on: the same request was answered in "
            f"{again.seconds:.1f} s instead of {usual:.1f} s"
        )
    return PASS


BUDGET_CHECKS = (
    _ours(
        "budget-accepted",
        "The request",
        "A request with budgets is answered with HTTP 2xx.",
        "Read budgets as an optional object, and answer a run that exceeds them with status error.",
        _accepted,
        lambda seen: seen.short_time,
    ),
    _ours(
        "budget-time",
        "The request",
        "A run ends when budgets.timeout_ms is used up.",
        "Cancel the work after timeout_ms and answer BUDGET_EXCEEDED, or a partial result with "
        "status degraded.",
        _time,
        lambda seen: seen.short_time,
    ),
    _ours(
        "budget-tokens",
        "The request",
        "A run generates no more tokens than budgets.max_output_tokens.",
        "Pass the budget to the model as its limit, or answer BUDGET_EXCEEDED.",
        _tokens,
        lambda seen: seen.few_tokens,
    ),
    _ours(
        "budget-escalations",
        "The request",
        "A run escalates no more often than budgets.max_escalations.",
        "Answer with what the cheaper method gave, or with BUDGET_EXCEEDED.",
        _escalations,
        lambda seen: seen.few_tokens,
    ),
    _ours(
        "cancel-on-disconnect",
        "The stream",
        "A client that closes its connection cancels the run.",
        "Cancel the work when the server reports a disconnect, unless somebody else waits for it.",
        _cancelled,
        lambda seen: seen.abandoned,
    ),
)
