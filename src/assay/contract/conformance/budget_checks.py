"""The checks of budgets, and of what happens to a run whose client leaves."""

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
)
from assay.net.json import parse_object

_OURS = RuleLevel.OURS
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
    Check(
        "budget-accepted",
        _OURS,
        "The request",
        "A request with budgets is answered with HTTP 2xx.",
        "Read budgets as an optional object, and answer a run that exceeds them with status error.",
        _accepted,
        lambda seen: seen.short_time,
    ),
    Check(
        "budget-time",
        _OURS,
        "The request",
        "A run ends when budgets.timeout_ms is used up.",
        "Cancel the work after timeout_ms and answer BUDGET_EXCEEDED, or a partial result with "
        "status degraded.",
        _time,
        lambda seen: seen.short_time,
    ),
    Check(
        "budget-tokens",
        _OURS,
        "The request",
        "A run generates no more tokens than budgets.max_output_tokens.",
        "Pass the budget to the model as its limit, or answer BUDGET_EXCEEDED.",
        _tokens,
        lambda seen: seen.few_tokens,
    ),
    Check(
        "budget-escalations",
        _OURS,
        "The request",
        "A run escalates no more often than budgets.max_escalations.",
        "Answer with what the cheaper method gave, or with BUDGET_EXCEEDED.",
        _escalations,
        lambda seen: seen.few_tokens,
    ),
    Check(
        "cancel-on-disconnect",
        _OURS,
        "The stream",
        "A client that closes its connection cancels the run.",
        "Cancel the work when the server reports a disconnect, unless somebody else waits for it.",
        _cancelled,
        lambda seen: seen.abandoned,
    ),
)
