"""The checker says nothing about a good agent, and finds each fault under its own name."""

import asyncio
from typing import Any

import pytest
from starlette.types import Receive, Scope, Send
from tests.contract.broken_agents import BROKEN_AGENTS, Broken
from tests.contract.demo_agent import demo_service
from tests.contract.faults import endpoint
from tests.contract.planted_agents import PLANTED
from tests.contract.running import running
from tests.contract.tampering import Tamper, Tampered, bombed
from tests.loopback import free_port

from assay.contract.conformance.checks import (
    CHECKS,
    CheckTarget,
    _result,
    _unauthorized,
    _unreachable,
    check_agent,
    parse_check_target,
)
from assay.contract.conformance.exchange import Exchange, SentRequest, curl_command
from assay.contract.conformance.probes import AgentObservation, CheckLimits
from assay.contract.conformance.report import (
    Check,
    CheckFinding,
    CheckResult,
    CheckVerdict,
    RuleLevel,
    TargetReport,
    fail,
)
from assay.contract.envelope import AgentRunRequest, AgentRunResponse, succeeded
from assay.contract.server.app import AgentService, ServingLimits, agent_app
from assay.contract.server.runs import ReportProgress
from assay.errors import UsageError
from assay.net.client import TokenFor
from assay.serve.guards import BearerToken

# A quick run without a model shows neither a heartbeat nor how it keeps its budgets. Its time is
# not among these: on a busy machine, a run can be seen to end after the millisecond it was given.
NOT_SEEN = {"stream-heartbeat", "budget-tokens", "budget-escalations", "cancel-on-disconnect"}


class Silent:
    """Takes requests and answers none."""

    asked = 0

    async def __call__(self, _scope: Scope, receive: Receive, _send: Send) -> None:
        self.asked += 1
        while (await receive())["type"] != "http.disconnect":
            pass


def names(report: TargetReport, verdict: CheckVerdict) -> set[str]:
    return {result.name for result in report.with_verdict(verdict)}


async def test_nothing_is_reported_on_a_good_agent() -> None:
    async with running(agent_app(demo_service())) as url:
        report = await check_agent(CheckTarget(url, "RAG_RETRIEVE"))
    assert report.with_verdict(CheckVerdict.FAIL, CheckVerdict.WARN) == []
    assert names(report, CheckVerdict.NOT_APPLICABLE) - {"budget-time"} == NOT_SEEN
    assert report.passed


@pytest.mark.parametrize("broken", BROKEN_AGENTS, ids=lambda broken: broken.name)
async def test_each_fault_is_found_under_its_own_name(broken: Broken) -> None:
    async with running(Tampered(agent_app(demo_service()), broken.tamper)) as url:
        report = await check_agent(CheckTarget(url, "RAG_RETRIEVE"), limits=broken.limits)
    assert names(report, CheckVerdict.FAIL) == set(broken.fails)
    assert names(report, CheckVerdict.WARN) == set(broken.warns)
    assert report.passed == (not broken.fails)


PIECE = b" " * 1_000_000


@pytest.mark.parametrize(
    "change",
    [
        lambda reply: reply.with_body(*[PIECE] * 40),
        bombed,
        lambda reply: reply.with_body(*[b" ", 0.05] * 100),
    ],
    ids=["endless", "gzip bomb", "dripping"],
)
async def test_a_hostile_health_endpoint_fails_its_check(change: Tamper) -> None:
    app = Tampered(agent_app(demo_service()), endpoint("/health", change))
    async with running(app) as url:
        limits = CheckLimits(sync_s=1.0)
        report = await check_agent(CheckTarget(url, "RAG_RETRIEVE"), limits=limits)
    assert {result.name for result in report.findings()} == {"health"}


def test_every_check_has_an_agent_that_breaks_it() -> None:
    broken = {name for each in BROKEN_AGENTS for name in (*each.fails, *each.warns)}
    broken |= {name for found in PLANTED.values() for name in found}
    assert broken == {check.name for check in CHECKS}


def test_names_of_checks_are_unique() -> None:
    assert len({check.name for check in CHECKS}) == len(CHECKS)


async def test_a_long_stream_with_heartbeats_passes() -> None:
    async def slow(request: AgentRunRequest, _report: ReportProgress) -> AgentRunResponse:
        await asyncio.sleep(0.8 if request.inputs else 0)
        return succeeded(request, {})

    limits = ServingLimits(heartbeat_s=0.1)
    service = AgentService("slow", "RAG_RETRIEVE", slow, limits=limits)
    async with running(agent_app(service)) as url:
        report = await check_agent(
            CheckTarget(url, "RAG_RETRIEVE"),
            inputs={"query": "x"},
            limits=CheckLimits(heartbeat_s=0.6),
        )
    verdicts = {result.name: result.verdict for result in report.results}
    assert verdicts["stream-heartbeat"] is CheckVerdict.PASS
    assert report.with_verdict(CheckVerdict.FAIL) == []


async def test_an_agent_that_is_not_there_is_unreachable() -> None:
    report = await check_agent(CheckTarget(f"http://127.0.0.1:{free_port()}", "RAG_RETRIEVE"))
    assert report.unreachable is not None
    assert not report.passed


async def test_an_agent_that_never_answers_is_given_up_at_once() -> None:
    silent = Silent()
    async with running(silent) as url:
        report = await check_agent(CheckTarget(url, "T"), limits=CheckLimits(sync_s=0.5))
    assert report.unreachable is not None
    assert silent.asked == 1


async def test_a_skipped_check_is_left_out() -> None:
    broken = next(each for each in BROKEN_AGENTS if each.fails == ("terminal-last",))
    async with running(Tampered(agent_app(demo_service()), broken.tamper)) as url:
        report = await check_agent(CheckTarget(url, "RAG_RETRIEVE"), skip=["terminal-last"])
    assert report.passed
    assert "terminal-last" not in {result.name for result in report.results}


async def test_skipping_an_unknown_check_is_refused_before_anything_is_sent() -> None:
    with pytest.raises(UsageError, match="'nonsense'"):
        await check_agent(CheckTarget("http://127.0.0.1:9", "X"), skip=["nonsense"])


def test_a_target_is_an_address_and_a_task() -> None:
    target = parse_check_target(" http://host:8000/rag/=RAG_RETRIEVE ")
    assert target == CheckTarget("http://host:8000/rag", "RAG_RETRIEVE")


@pytest.mark.parametrize("text", ["http://host:8000", "=X", "http://host=", "ftp://h=X", "host=X"])
def test_a_target_that_cannot_be_read_says_how_to_write_one(text: str) -> None:
    with pytest.raises(UsageError, match="http://"):
        parse_check_target(text)


async def test_an_agent_that_asks_for_a_token_can_be_checked_with_it() -> None:
    async with running(BearerToken(agent_app(demo_service()), "t0ken")) as url:
        target = CheckTarget(url, "RAG_RETRIEVE")
        assert (await check_agent(target, auth=TokenFor(target.url, "t0ken"))).passed
        refused = await check_agent(target)
    assert refused.unreachable == (
        "HTTP 401 for a valid request: set AGENT_TOKEN to the agent's bearer token"
    )


async def test_a_password_in_an_address_is_not_in_the_report() -> None:
    async with running(agent_app(demo_service())) as url:
        report = await check_agent(parse_check_target(f"{url.replace('//', '//me:s3cret@')}=X"))
    assert report.url == url


def exchange(status: int | None = 200, **fields: Any) -> Exchange:
    return Exchange("r", SentRequest("POST", f"http://agent/{status}"), status, **fields)


def observed(*run: Exchange) -> AgentObservation:
    ways = {str(number): each for number, each in enumerate(run)}
    return AgentObservation("T", "", "", CheckLimits(), exchange(), exchange(), ways)


@pytest.mark.parametrize(
    ("run", "reason"),
    [
        ((exchange(401), exchange(403)), "HTTP 401"),
        ((exchange(401),), "HTTP 401"),
        ((exchange(403),), "HTTP 403"),
        ((exchange(401), exchange(200)), None),
        ((exchange(403), exchange(200)), None),
        ((exchange(402),), None),
        ((exchange(403, media_type="text/html"),), None),  # of a proxy, which the checks tell of
        ((exchange(200),), None),
    ],
)
def test_who_is_not_let_in_is_told_so(run: tuple[Exchange, ...], reason: str | None) -> None:
    assert str(_unauthorized(observed(*run)))[:8] == str(reason)


def test_an_agent_is_unreachable_where_no_response_came() -> None:
    silent = exchange(None, timed_out=True, seconds=3.0)
    assert "got no response in 3 s" in str(_unreachable(silent))
    assert "no connection" in str(_unreachable(exchange(None, refused_connection=True)))
    for other in (exchange(200), exchange(200, timed_out=True), exchange(None)):
        assert _unreachable(other) is None


def test_a_broken_rule_is_shown_with_its_exchange_and_remedy_and_a_kept_one_without() -> None:
    usual, own = exchange(200), exchange(500)

    def result(finding: CheckFinding) -> CheckResult:
        check = Check("n", "1", "r", "usual", lambda _: finding, lambda _: usual, RuleLevel.MUST)
        return _result(check, observed(usual), RuleLevel.MUST, curl_command)

    broken = result(fail("x" * 5000))
    assert (broken.url, broken.remedy, len(broken.detail)) == ("http://agent/200", "usual", 2000)
    special = result(fail("", own, "another"))
    assert (special.url, special.remedy) == ("http://agent/500", "another")
    kept = result(CheckFinding(CheckVerdict.PASS, exchange=own, remedy="another"))
    assert (kept.url, kept.remedy, kept.repeat) == ("", "", "")


async def test_a_command_that_repeats_a_finding_sends_the_token_that_was_sent() -> None:
    broken = next(each for each in BROKEN_AGENTS if each.fails == ("terminal-last",))
    callers: list[object] = []
    agent = Tampered(agent_app(demo_service()), broken.tamper)

    async def counting(scope: Scope, receive: Receive, send: Send) -> None:
        callers.append(scope.get("client"))
        await agent(scope, receive, send)

    async with running(counting) as url:
        target = CheckTarget(url, "RAG_RETRIEVE")
        reports = [await check_agent(target, auth=auth) for auth in (TokenFor(url, "t0ken"), None)]
    commands = [report.with_verdict(CheckVerdict.FAIL)[0].repeat for report in reports]
    assert ["Authorization: Bearer" in command for command in commands] == [True, False]
    asked = [caller for caller in callers if caller is not None]
    assert len(set(asked)) == len(asked) > 20  # each request on a connection of its own
