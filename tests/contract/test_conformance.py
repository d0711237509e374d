"""The checker says nothing about a good agent, and finds each fault under its own name."""

import asyncio
import json
import shlex
from collections.abc import AsyncIterator
from typing import Any

import httpx
import orjson
import pytest
from starlette.types import Receive, Scope, Send
from tests.contract.broken_agents import BROKEN_AGENTS, Broken, broken
from tests.contract.demo_agent import demo_service
from tests.contract.plain_agent import Answer, Body, PlainAgent
from tests.contract.running import running
from tests.contract.tampering import Tampered, wait_for_disconnect
from tests.loopback import free_port

from assay.contract.check import (
    CheckResult,
    CheckVerdict,
    TargetReport,
    check_agent,
    parse_check_target,
    report_json,
)
from assay.contract.probes import (
    SELECTORS,
    AgentObservation,
    CheckLimits,
    Exchange,
    SentRequest,
    StreamView,
)
from assay.contract.rules import RULES, RuleLevel, is_echoed
from assay.contract.server import agent_app
from assay.errors import UsageError
from assay.net.client import TokenFor
from assay.serve.guards import BearerToken, guarded

QUICK = CheckLimits(grace_s=0.2)
LEVELS = {rule.name: rule.level for rule in RULES}
# A quick run without a model does not show how it keeps its budgets.
NOT_SEEN = {"budget-time", "budget-tokens"}


def names(report: TargetReport, *verdicts: CheckVerdict) -> set[str]:
    return {result.name for result in report.with_verdict(*verdicts)}


async def checked(agent: PlainAgent, level: RuleLevel = RuleLevel.MUST) -> TargetReport:
    async with running(agent) as url:
        # A slow machine must not make a quick agent look like one that exceeds its budget.
        limits = QUICK if agent.seconds else CheckLimits()
        return await check_agent(url, agent.task, limits=limits, level=level)


def finding(report: TargetReport, name: str) -> CheckResult:
    return next(each for each in report.findings() if each.name == name)


def test_every_rule_has_a_name_of_its_own_a_selector_and_an_agent_that_breaks_it() -> None:
    assert len(LEVELS) == len(RULES)
    assert {rule.on for rule in RULES} == set(SELECTORS)
    found = {name for each in BROKEN_AGENTS for name in each.rules.split()}
    assert found | {"budget-time"} == set(LEVELS)


async def test_nothing_is_found_on_agents_that_keep_every_rule() -> None:
    async with running(agent_app(demo_service())) as url:
        ours = await check_agent(url, "RAG_RETRIEVE", level=RuleLevel.OURS)
    for report in (ours, await checked(PlainAgent(), RuleLevel.OURS)):
        assert report.findings() == []
        assert names(report, CheckVerdict.NOT_APPLICABLE) == NOT_SEEN
        assert report.passed


@pytest.mark.parametrize("agent", BROKEN_AGENTS, ids=lambda agent: agent.rules)
async def test_each_fault_is_found_under_its_own_name(agent: Broken) -> None:
    async with running(Tampered(agent_app(demo_service()), agent.tamper)) as url:
        report = await check_agent(url, "RAG_RETRIEVE", limits=agent.limits)
    found = set(agent.rules.split())
    must = {name for name in found if LEVELS[name] is RuleLevel.MUST}
    assert names(report, CheckVerdict.FAIL) == must
    assert names(report, CheckVerdict.WARN) == found - must
    assert report.passed == (not must)


class Minimal(PlainAgent):
    """Nothing that is optional: no status, no health, no recommended fields, one event."""

    def health(self) -> Answer:
        return Answer(404)

    ready = health

    def enveloped(self, request: Body, status: str, outputs: Body) -> Body:
        request_id = request["request_id"]
        return {"request_id": request_id, "ok": status != "error", "outputs": outputs}

    async def events(self, request: Body) -> AsyncIterator[bytes]:
        found = await self.run(request)
        outcome = {"status": "ended", "task_type": self.task, "success": found.pop("ok")}
        outcome["data"] = found.pop("outputs")
        yield f"event: done\ndata: {json.dumps({**found, **outcome})}\n\n".encode()


class OwnWords(PlainAgent):
    """Further fields and events, own error codes, another 2xx, a JSON dialect."""

    async def answer(self, path: str, content: bytes) -> Answer | AsyncIterator[bytes]:
        found = await super().answer(path, content)
        if isinstance(found, Answer) and found.status == 200 and path.endswith("sync"):
            found.status, found.content_type = 201, "application/vnd.agent+json; charset=utf-8"
        return found

    def failure(self, request: Body, code: str, message: str) -> Body:
        return super().failure(request, f"acme.{code.lower()}", message)

    def result(self, request: Body) -> Body:
        return {**super().result(request), "trace": {"span": 1}, "status": "success"}

    async def events(self, request: Body) -> AsyncIterator[bytes]:
        yield self.event("queued", {})
        async for piece in super().events(request):
            yield piece


class Lenient(PlainAgent):
    def refusal(self, request: Any) -> Answer | None:
        required = isinstance(request, dict) and request.get("request_id")
        return None if required and "task_type" in request else super().refusal(request)

    async def run(self, request: Body) -> Body:
        return self.enveloped({"task_type": "any", **request}, "ok", {})


# What the checker notes of each: rules of ours and recommendations, and never a failure.
PERMITTED: dict[type[PlainAgent], set[str]] = {
    Minimal: {"health", "health-ready", "sync-recommended", "stream-type"},
    OwnWords: {"error-object"},
    Lenient: {"unknown-task-refused", "malformed-request"},
}


@pytest.mark.parametrize("agent", PERMITTED, ids=lambda agent: agent.__name__)
async def test_what_the_contract_permits_is_no_failure(agent: type[PlainAgent]) -> None:
    report = await checked(agent())
    assert report.passed
    assert {each.name for each in report.findings()} == PERMITTED[agent]


async def test_a_run_that_outlasts_its_budget_is_found() -> None:
    class IgnoresTime(PlainAgent):
        seconds = 0.8

        async def work(self, request: Body) -> Body:
            await asyncio.sleep(self.seconds)
            return self.result(request)

    assert {each.name for each in (await checked(IgnoresTime())).findings()} == {"budget-time"}


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (500, "its log has the cause"),
        (404, "there is no agent at this path"),
        (422, "pass others with --inputs"),
    ],
)
async def test_a_valid_request_that_is_not_run_says_what_that_means(status: int, said: str) -> None:
    class Elsewhere(PlainAgent):
        async def answer(self, path: str, content: bytes) -> Answer | AsyncIterator[bytes]:
            return Answer(status, b"<html>", "text/html")

    detail = finding(await checked(Elsewhere()), "sync-status").detail
    assert said in detail
    assert "responses)" not in detail


class Silent:
    asked = 0

    async def __call__(self, _scope: Scope, receive: Receive, _send: Send) -> None:
        self.asked += 1
        await wait_for_disconnect(receive)


async def test_an_agent_that_is_not_there_or_never_answers_is_given_up_at_once() -> None:
    nowhere = await check_agent(f"http://127.0.0.1:{free_port()}", "RAG_RETRIEVE")
    silent = Silent()
    async with running(silent) as url:
        never = await check_agent(url, "T", limits=CheckLimits(sync_s=0.5))
    assert str(nowhere.unreachable).startswith("connection refused")
    assert "no complete response" in str(never.unreachable)
    assert (silent.asked, nowhere.passed, never.passed) == (1, False, False)


async def test_a_skipped_rule_is_left_out_and_an_unknown_one_is_an_error() -> None:
    async with running(broken("terminal-last")) as url:
        report = await check_agent(url, "RAG_RETRIEVE", skip=["terminal-last"])
    assert report.passed
    assert "terminal-last" not in {result.name for result in report.results}
    with pytest.raises(UsageError, match="'nonsense'"):
        await check_agent("http://127.0.0.1:9", "X", skip=["nonsense"])


def test_a_target_is_an_address_and_a_task() -> None:
    target = parse_check_target(" http://host:8000/rag/=RAG_RETRIEVE ")
    assert target == ("http://host:8000/rag", "RAG_RETRIEVE")
    for text in ("http://host:8000", "=X", "http://host=", "ftp://h=X"):
        with pytest.raises(UsageError, match="http://"):
            parse_check_target(text)


async def test_an_agent_that_denies_access_is_not_checked() -> None:
    class Closed(PlainAgent):
        async def answer(self, path: str, content: bytes) -> Answer | AsyncIterator[bytes]:
            if path.startswith("/agents"):
                return Answer(403 if path.endswith("stream") else 401, b"{}")
            return await super().answer(path, content)

    reason = str((await checked(Closed())).unreachable)
    assert "HTTP 401 for a valid request: set AGENT_TOKEN" in reason


async def test_a_command_has_neither_a_token_nor_own_inputs() -> None:
    agent = guarded(broken("sync-recommended"), BearerToken("s3cret-token"))
    async with running(agent) as url:
        auth = TokenFor(url, "s3cret-token")
        own = {"query": "Jane Doe, born 1960"}
        place = url.replace("//", "//me:passw0rd@")
        report = await check_agent(place, "RAG_RETRIEVE", inputs=own, auth=auth)
    command = finding(report, "sync-recommended").repeat
    assert '-H "Authorization: Bearer $TOKEN"' in command
    assert '"inputs":"..."' in command
    everything = orjson.dumps(report).decode()
    assert not [secret for secret in ("s3cret", "passw0rd", "Jane") if secret in everything]


async def test_the_command_of_a_finding_shows_it_again() -> None:
    async with running(broken("budget-tokens")) as url:
        report = await check_agent(url, "RAG_RETRIEVE")
        words = shlex.split(finding(report, "budget-tokens").repeat)
        assert words[:3] == ["curl", "-isS", f"{url}/agents/run/sync"]
        async with httpx.AsyncClient() as http:
            again = await http.post(words[2], content=words[words.index("-d") + 1])
    assert again.json()["usage"]["output_tokens"] == 40


@pytest.mark.parametrize(
    ("body", "echoed"),
    [
        (b"... KLMNOPQRSTUV ...", True),
        (b"klm%6eop%71rst&#117;v", True),
        (b"inputs should be an object", False),
        (b"uvwxyzabcdef", True),
        (b"klmnopqrstu", False),
        (b"vwxyzabcdef", False),
    ],
)
def test_an_echo_is_found_in_any_writing(body: bytes, echoed: bool) -> None:
    answer = Exchange(SentRequest("POST", "http://agent"), 422, body=body)
    assert is_echoed("abcdefghijklmnopqrstuvwxyzabcdef", answer) is echoed


EMPTY = {"code": "VALIDATION_ERROR", "message": ""}


@pytest.mark.parametrize(
    ("name", "seen", "problem"),
    [
        ("stream-time", {"first": 10.0}, None),
        ("stream-time", {"first": 10.1}, "no event within 10 s"),
        ("stream-time", {"silence": 18.0}, None),
        ("stream-time", {"silence": 18.1}, "silent for 18.1 s"),
        ("budget-time", {"seconds": 1.5}, None),
        ("budget-time", {"seconds": 1.6}, "the run took 1.6 s with a budget of 500 ms"),
        ("budget-time", {"status": 500}, "a request with budgets got HTTP 500"),
        ("budget-tokens", {"tokens": 1}, None),
        ("budget-tokens", {"tokens": 2}, "usage.output_tokens is 2 with max_output_tokens 1"),
        ("budget-tokens", {"status": 500}, "a request with budgets got HTTP 500"),
        ("unknown-task", {"status": 399}, "HTTP 399 instead of HTTP 4xx"),
        ("unknown-task", {"status": 400}, "it reports success"),
        ("unknown-task", {"status": 500}, "HTTP 500 instead of HTTP 4xx"),
        ("error-object", {"error": EMPTY}, "error.message is missing or empty"),
        ("error-object", {"error": {**EMPTY, "message": "no"}}, None),
    ],
)
def test_a_limit_is_the_most_that_is_allowed(name: str, seen: Any, problem: str | None) -> None:
    budgets = {"timeout_ms": 500, "max_output_tokens": 1}
    sent = SentRequest("POST", "http://a/sync", orjson.dumps({"budgets": budgets}))
    usage = {"output_tokens": seen.get("tokens")}
    body = {"status": "ok", "outputs": {}, "usage": usage, "error": seen.get("error")}
    events = StreamView()
    events.first_event_s, events.longest_silence_s = seen.get("first", 0), seen.get("silence", 0)
    how = {"status": seen.get("status", 200), "seconds": seen.get("seconds", 0)}
    answer = Exchange(sent, body=orjson.dumps(body), events=events, **how)
    everything = AgentObservation("T", (), CheckLimits(), answer, answer, {})
    rule = next(rule for rule in RULES if rule.name == name)
    assert rule.test(answer, everything) == problem


def test_only_an_agent_that_was_not_reached_has_an_error_in_json() -> None:
    reports = [TargetReport("http://a", "T"), TargetReport("http://b", "T", unreachable="away")]
    reached, away = report_json(reports)["targets"]
    assert (reached["reachable"], reached["passed"], "error" in reached) == (True, True, False)
    assert (away["reachable"], away["passed"], away["error"]) == (False, False, "away")
