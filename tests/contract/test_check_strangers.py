"""Agents that share no code with Assay: faults are found exactly, permissions are no faults."""

import asyncio
import re
import shlex
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import orjson
import pytest
from tests.contract.plain_agent import Answer, Body, PlainAgent
from tests.contract.planted_agents import (
    PERMITTED,
    PLANTED,
    CrashesOnTypes,
    IgnoresTokens,
    NamesItsStore,
    QuotesUpperCase,
    Slow,
    TakesEverything,
)
from tests.contract.running import running

from assay.contract.conformance.checks import CHECKS, CheckTarget, check_agent
from assay.contract.conformance.error_checks import echo_of
from assay.contract.conformance.probes import CheckLimits
from assay.contract.conformance.report import CheckResult, RuleLevel, TargetReport
from assay.contract.conformance.service_checks import _ADDRESS
from assay.net.client import TokenFor
from assay.serve.guards import BearerToken

QUICK = CheckLimits(grace_s=0.2)
LEVELS = {check.name: check.level for check in CHECKS}


async def checked(agent: PlainAgent, level: RuleLevel = RuleLevel.MUST) -> TargetReport:
    async with running(agent) as url:
        # A slow machine must not make a quick agent look like one that exceeds its budget.
        limits = QUICK if agent.seconds else CheckLimits()
        return await check_agent(CheckTarget(url, agent.task), limits=limits, level=level)


def finding(report: TargetReport, name: str) -> CheckResult:
    return next(each for each in report.findings() if each.name == name)


async def test_nothing_is_found_on_a_plain_agent_that_keeps_every_rule() -> None:
    report = await checked(PlainAgent(), RuleLevel.OURS)
    assert report.findings() == []


@pytest.mark.parametrize("agent", PLANTED, ids=lambda agent: agent.__name__)
async def test_a_planted_fault_is_all_that_is_found(agent: type[PlainAgent]) -> None:
    report = await checked(agent())
    assert {each.name for each in report.findings()} == PLANTED[agent]
    broken = {each.name for each in report.findings() if each.verdict == "fail"}
    assert broken == {name for name in PLANTED[agent] if LEVELS[name] is RuleLevel.MUST}


@pytest.mark.parametrize("agent", PERMITTED, ids=lambda agent: agent.__name__)
async def test_what_the_contract_permits_is_no_failure(agent: type[PlainAgent]) -> None:
    report = await checked(agent())
    assert report.passed
    assert {each.name for each in report.findings()} == PERMITTED[agent]


async def test_a_level_raises_what_fails() -> None:
    assert (await checked(NamesItsStore(), RuleLevel.SHOULD)).passed
    assert not (await checked(NamesItsStore(), RuleLevel.OURS)).passed


async def test_a_run_that_ends_with_its_client_is_seen_to_be_canceled() -> None:
    report = await checked(Slow())
    verdicts = {each.name: each.verdict.value for each in report.results}
    assert (verdicts["cancel-on-disconnect"], verdicts["budget-time"]) == ("pass", "pass")


async def test_one_late_answer_is_not_called_an_ignored_budget() -> None:
    class LateOnce(Slow):
        late = 0.8

        async def work(self, request: Body) -> Body:
            if "timeout_ms" in request.get("budgets", {}):
                pause, self.late = self.late, 0.0
                await asyncio.sleep(pause)
            return await super().work(request)

    agent = LateOnce()
    verdicts = {each.name: each.verdict.value for each in (await checked(agent)).results}
    assert (agent.late, verdicts["budget-time"]) == (0.0, "pass")


async def test_a_busy_agent_is_asked_again() -> None:
    class Busy(PlainAgent):
        refused = 0

        async def answer(self, path: str, content: bytes) -> Answer | AsyncIterator[bytes]:
            self.refused += 1
            if path.startswith("/agents") and self.refused % 2:
                return Answer(503, b"{}", headers=[(b"retry-after", b"0")])
            return await super().answer(path, content)

    assert (await checked(Busy(), RuleLevel.OURS)).findings() == []


class CrashesOnMissingInputs(PlainAgent):
    """Looks at no task_type, and raises where there is no query, as ten quick lines do."""

    def refusal(self, request: Any) -> Answer | None:
        if isinstance(request, dict) and "query" not in request.get("inputs", {}):
            return Answer(500, b"<html>Traceback</html>", "text/html")
        known = isinstance(request, dict) and request.get("request_id")
        return None if known and "task_type" in request else super().refusal(request)


async def test_a_request_has_one_fault_only() -> None:
    """Without a query as well, an unknown task would seem to be answered with a crash."""
    report = await checked(CrashesOnMissingInputs())
    assert {each.name for each in report.findings()} == {
        *("unknown-task-refused", "reused-id-refused", "sync-failed-run", "stream-failed-run"),
        *("sync-wrong-type", "stream-wrong-type"),
    }


@pytest.mark.parametrize(
    ("status", "body", "said", "remedy"),
    [
        (500, b"<html>", "a valid request got HTTP 500", "The agent crashed"),
        (502, b"<html>", "a valid request got HTTP 502", "busy or not up"),
        (404, b"<html>", "answered HTTP 404 with a web page", "There is no agent at this path"),
        (200, b"<html>", "answered HTTP 200 with a web page", "There is no agent at this path"),
        (405, b"", "POST /agents/run/sync answered HTTP 405", "There is no agent at this path"),
        (307, b"", "HTTP 307 redirects elsewhere", "Check the address that it redirects to"),
        (422, b"{}", "a valid request got HTTP 422", "pass others with --inputs"),
    ],
)
async def test_a_valid_request_that_is_not_run_says_what_that_means(
    status: int, body: bytes, said: str, remedy: str
) -> None:
    class Elsewhere(PlainAgent):
        async def answer(self, path: str, content: bytes) -> Answer | AsyncIterator[bytes]:
            page = "text/html" if body == b"<html>" else "application/json"
            return Answer(status, body, page)

    found = finding(await checked(Elsewhere()), "sync-status")
    assert said in found.detail
    assert remedy in found.remedy


async def test_own_inputs_are_in_no_command() -> None:
    agent = TakesEverything()
    async with running(agent) as url:
        target = CheckTarget(url, agent.task)
        report = await check_agent(target, inputs={"query": "Jane Doe"})
    commands = [each.repeat for each in report.findings()]
    assert not [command for command in commands if "Jane" in command]
    assert [command for command in commands if '"$ASSAY_CHECK_INPUTS"' in command]


@asynccontextmanager
async def closing_after_errors(agent: PlainAgent) -> AsyncIterator[str]:
    """A server that says nothing of closing, and drops a connection that had an HTTP 500."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        crashed = False
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                length = re.search(rb"content-length: (\d+)", head.lower())
                content = await reader.readexactly(int(length[1]) if length else 0)
                if crashed:
                    return
                found = await agent.answer(head.split()[1].decode(), content)
                pieces = b""
                if not isinstance(found, Answer):
                    pieces = b"".join([piece async for piece in found])
                    found = Answer(body=pieces, content_type="text/event-stream")
                crashed = found.status >= 500
                writer.write(
                    f"HTTP/1.1 {found.status} X\r\nContent-Type: {found.content_type}\r\n"
                    f"Content-Length: {len(found.body)}\r\n\r\n".encode()
                    + found.body
                )
                await writer.drain()
        except asyncio.IncompleteReadError:
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def test_a_connection_that_was_closed_after_a_500_is_no_finding() -> None:
    agent = CrashesOnTypes()
    async with closing_after_errors(agent) as url:
        report = await check_agent(CheckTarget(url, agent.task))
    assert {each.name: each.detail for each in report.findings()} == {
        "sync-wrong-type": "wrong type: HTTP 500 instead of HTTP 400 or 422",
        "stream-wrong-type": "wrong type: HTTP 500 instead of HTTP 400 or 422",
    }


async def test_a_finding_says_where_the_rule_is_what_helps_and_which_code_the_agent_gave() -> None:
    report = await checked(QuotesUpperCase())
    found = finding(report, "no-echo")
    assert found.reference == "Agent HTTP contract, PHI-safe logging rules, line 74"
    assert found.detail == "2 error responses repeat text of the inputs: in another case"
    assert found.code == "VALIDATION_ERROR"
    assert found.remedy.startswith("Name the field")


async def test_the_command_of_a_finding_shows_it_again() -> None:
    agent = IgnoresTokens()
    async with running(agent) as url:
        report = await check_agent(CheckTarget(url, agent.task))
        command = finding(report, "budget-tokens").repeat
        words = shlex.split(command)
        assert words[:3] == ["curl", "-isS", f"{url}/agents/run/sync"]
        async with httpx.AsyncClient() as http:
            again = await http.post(words[2], content=words[words.index("-d") + 1])
    assert again.json()["usage"]["output_tokens"] == 40


async def test_a_command_names_a_token_and_own_inputs_by_variables_only() -> None:
    agent = QuotesUpperCase()
    async with running(BearerToken(agent, "s3cret-token")) as url:
        report = await check_agent(
            CheckTarget(url.replace("//", "//me:passw0rd@"), agent.task),
            inputs={"query": "Jane Doe, born 1960"},
            auth=TokenFor(url, "s3cret-token"),
            skip=["no-echo"],
        )
        echo = await check_agent(CheckTarget(url, agent.task), auth=TokenFor(url, "s3cret-token"))
    said = finding(echo, "no-echo").repeat
    assert '-H "Authorization: Bearer $TOKEN"' in said
    everything = orjson.dumps([echo, report]).decode()
    assert not [secret for secret in ("s3cret", "passw0rd", "Jane") if secret in everything]


@pytest.mark.parametrize(
    ("text", "leaks"),
    [
        ("http://qdrant:6333", True),
        ("10.0.0.7", True),
        ("redis-master:6379", True),
        ("on localhost", True),
        ("db.internal:80", True),
        ("2026-01-02T10:20:30Z", False),
        ("llama3.1:70b", False),
        ("1.2.3", False),
        ("12:30", False),
        ("rag-retrieve", False),
        ("sha256:0a1b2c", False),
    ],
)
def test_an_address_is_told_from_a_time_and_a_version(text: str, leaks: bool) -> None:
    assert bool(_ADDRESS.search(text)) is leaks


@pytest.mark.parametrize(
    ("body", "writing"),
    [
        (b"Canary-0123456789abcdef0123456789abcdef", "as it was sent"),
        (b"0123456789ABCDEF0123456789ABCDEF", "in another case"),
        (b"0123-4567-89ab-cdef-0123-4567-89ab-cdef", "with other characters in between"),
        (b"fedcba9876543210fedcba9876543210", "backwards"),
        (rb"\u0030\u00312345\u0036789\u0061bcdef012", "escaped"),
        (b"Q2FuYXJ5LTAxMjM0NTY3ODlhYmNkZWYwMTIzNDU2Nzg5YWJjZGVm", "encoded"),
        (b"inputs should be an object", None),
        (b"0123456789a", None),
    ],
)
def test_an_echo_is_found_in_any_writing(body: bytes, writing: str | None) -> None:
    assert echo_of("Canary-0123456789abcdef0123456789abcdef", body) == writing
