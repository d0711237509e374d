"""`assay check` against broken agents behind real HTTP: what it must not call conforming.

The agents are variants of `PlainAgent`, which shares no code with Assay and keeps every rule.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from pydantic import BaseModel, Field, ValidationError
from tests.contract.plain_agent import Answer, Body, PlainAgent, as_json
from tests.contract.running import running
from tests.system.conftest import Assay


class _Inputs(BaseModel):
    query: str
    topK: int = 10


class _Request(BaseModel):
    request_id: str = Field(min_length=1)
    task_type: str
    inputs: _Inputs


class QuotesValidationErrorOfRequest(PlainAgent):
    """Validates the whole body with pydantic, and puts str(error) into a contract-shaped 422."""

    def refusal(self, request: Any) -> Answer | None:
        found = super().refusal(request)
        if found is None or not isinstance(request, dict):
            return found
        try:
            _Request.model_validate(request)
        except ValidationError as error:
            known = {"request_id": request.get("request_id") or "unknown"}
            return as_json(self.failure(known, "VALIDATION_ERROR", str(error)), found.status)
        return found


class QuotesValidationErrorOfInputs(PlainAgent):
    """Validates the inputs with pydantic, and reports str(error) as a failed run."""

    async def run(self, request: Body) -> Body:
        try:
            _Inputs.model_validate(request.get("inputs", {}))
        except ValidationError as error:
            return self.failure(request, "VALIDATION_ERROR", str(error))
        return await super().run(request)


class QuotesTheBeginningOfInputs(PlainAgent):
    """A log line's habit: the first 60 characters of what was sent."""

    def refusal(self, request: Any) -> Answer | None:
        found = super().refusal(request)
        if found and isinstance(request, dict) and isinstance(request.get("inputs"), dict):
            said = f"cannot run with {str(request['inputs'])[:60]}"
            known = {"request_id": request.get("request_id") or "unknown"}
            return as_json(self.failure(known, "VALIDATION_ERROR", said), found.status)
        return found


class QuotesTheMiddleOfInputs(PlainAgent):
    """Cuts both ends off, as `textwrap.shorten` with a window does."""

    def refusal(self, request: Any) -> Answer | None:
        found = super().refusal(request)
        if found and isinstance(request, dict) and isinstance(request.get("inputs"), str):
            text = request["inputs"]
            said = f"inputs is ...{text[len(text) // 3 : -len(text) // 3]}..."
            return as_json(self.failure({}, "VALIDATION_ERROR", said), found.status)
        return found


class QuotesBehindALongPrefix(PlainAgent):
    """A message so long that a reader gives up before it comes to the inputs."""

    def refusal(self, request: Any) -> Answer | None:
        found = super().refusal(request)
        if found and isinstance(request, dict) and request.get("task_type") == self.task:
            said = "x" * 5_000_000 + json.dumps(request["inputs"])
            known = {"request_id": request.get("request_id") or "unknown"}
            return as_json(self.failure(known, "VALIDATION_ERROR", said), found.status)
        return found


class StreamsWithoutRequestId(PlainAgent):
    """Starts a stream for a request that has no id, under one of its own."""

    async def answer(self, path: str, content: bytes) -> Answer | AsyncIterator[bytes]:
        try:
            request = json.loads(content or b"{}")
        except ValueError:
            return await super().answer(path, content)
        if path.endswith("/stream") and not request.get("request_id"):
            content = json.dumps({**request, "request_id": "made-up"}).encode()
        return await super().answer(path, content)


class NeverCloses(PlainAgent):
    """Sends its terminal event, and then only heartbeats."""

    async def events(self, request: Body) -> AsyncIterator[bytes]:
        async for piece in super().events(request):
            yield piece
        while True:
            await asyncio.sleep(0.2)
            yield b": heartbeat\n\n"


class NeverAnswers(PlainAgent):
    """Accepts a valid sync request, and says nothing to it."""

    async def answer(self, path: str, content: bytes) -> Answer | AsyncIterator[bytes]:
        found = await super().answer(path, content)
        accepted = isinstance(found, Answer) and b'"ok": true' in found.body
        if accepted and isinstance(json.loads(content)["inputs"]["query"], str):
            await asyncio.Event().wait()
        return found


async def checked(assay: Assay, agent: PlainAgent) -> tuple[int, dict[str, dict[str, str]]]:
    """The exit code, and the broken rules by name."""
    async with running(agent) as url:
        done = await asyncio.to_thread(assay, "check", f"{url}={agent.task}", "--json")
    checks = json.loads(done.stdout)["targets"][0]["checks"]
    return done.returncode, {each["name"]: each for each in checks if each["verdict"] == "fail"}


async def test_an_agent_that_keeps_every_rule_conforms(assay: Assay) -> None:
    assert await checked(assay, PlainAgent()) == (0, {})


@pytest.mark.parametrize(
    ("agent", "rule", "section"),
    [
        (QuotesValidationErrorOfRequest, "no-echo", "PHI-safe logging rules"),
        (QuotesValidationErrorOfInputs, "no-echo", "PHI-safe logging rules"),
        (QuotesTheBeginningOfInputs, "no-echo", "PHI-safe logging rules"),
        (QuotesTheMiddleOfInputs, "no-echo", "PHI-safe logging rules"),
        (QuotesBehindALongPrefix, "no-echo", "PHI-safe logging rules"),
        (StreamsWithoutRequestId, "required-fields", "Request schema"),
        (NeverCloses, "terminal-last", "Stream invariant"),
        (NeverAnswers, "sync-status", "Overview + endpoints"),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else None,
)
async def test_a_broken_agent_is_told_what_it_breaks_and_where_that_is_written(
    assay: Assay, agent: type[PlainAgent], rule: str, section: str
) -> None:
    code, broken = await checked(assay, agent())
    assert code == 1
    assert set(broken) == {rule}
    assert broken[rule]["contract"] == f"Agent HTTP contract, {section}"
    assert broken[rule]["remedy"]
    assert broken[rule]["repeat"].startswith("curl ")
