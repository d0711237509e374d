"""Every kind of target classifies a failure alike, and keeps the agent's own words about it."""

import json
from pathlib import Path

import pytest
from starlette.responses import JSONResponse
from tests.serve.serving import serving
from tests.targets.every_kind import DATA, KINDS, Service, opened
from tests.tiny_dataset import tiny_dataset

from assay.errors import AgentFailure, FailureKind, TargetError
from assay.evaluation.evaluation import Evaluation
from assay.evaluation.plan import open_agent
from assay.net.redact import quote
from assay.run.config import RunConfig
from assay.targets import open_target
from assay.targets.target_kinds import OpenContext

KEY = "sk-live-0123456789"
WORDS = f"INDEX_MISSING: no index \x1b[31mfor\u202e you; key {KEY} " + "x" * 400
QUOTED = "INDEX_MISSING: no index \ufffd[31mfor\ufffd you; key *** "
FINE = {"doc_ids": ["d1"], "answer": "Yes."}


@pytest.fixture(autouse=True)
def key_in_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VENDOR_KEY", KEY)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("status", "failure", "retryable"),
    [
        (429, FailureKind.AGENT_ERROR, True),
        (502, FailureKind.CONNECTION, True),
        (503, FailureKind.CONNECTION, True),
        (500, FailureKind.AGENT_ERROR, False),
        (401, FailureKind.AGENT_ERROR, False),
        (404, FailureKind.PROTOCOL, False),
    ],
)
async def test_a_status_has_its_class_and_the_next_call_works(
    kind: str, status: int, failure: FailureKind, retryable: bool
) -> None:
    if (kind, status) == ("mcp", 404):
        pytest.skip("there it means that the session has expired")
    service = Service(FINE)
    async with opened(service, kind) as agent:
        service.broken = JSONResponse({"detail": WORDS}, status, headers={"Retry-After": "7"})
        with pytest.raises(AgentFailure, match=f"HTTP {status}") as caught:
            await agent.ask("coffee", 5)
        assert (caught.value.kind, caught.value.retryable) == (failure, retryable)
        assert caught.value.status == status
        assert not retryable or caught.value.retry_after == 7.0
        assert QUOTED in caught.value.said
        assert len(caught.value.said) == 300
        assert "xxx" not in str(caught.value)
        service.broken = None
        assert (await agent.ask("coffee", 5)).doc_ids == ("d1",)


@pytest.mark.parametrize("kind", KINDS)
async def test_an_error_in_the_form_of_the_protocol_is_quoted(kind: str) -> None:
    async with opened(Service(FINE, error=WORDS), kind) as agent:
        with pytest.raises(AgentFailure) as caught:
            await agent.ask("coffee", 5)
    assert caught.value.kind is FailureKind.AGENT_ERROR
    assert QUOTED in caught.value.said
    assert "xxx" not in str(caught.value)


@pytest.mark.parametrize("kind", KINDS)
async def test_nobody_there_is_a_target_that_cannot_be_reached(kind: str) -> None:
    agent = open_target(KINDS[kind].format(url="http://127.0.0.1:9"), OpenContext(DATA))
    with pytest.raises(TargetError, match="connection refused"):
        await agent.open()
    await agent.close()


@pytest.mark.parametrize("kind", KINDS)
async def test_a_token_is_sent(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MCP_SERVER_TOKEN" if kind == "mcp" else "AGENT_TOKEN", "sesame")
    service = Service(FINE)
    async with opened(service, kind) as agent:
        await agent.ask("coffee", 5)
    sent = {headers.get("authorization") for headers, _ in service.sent}
    assert sent == ({None} if kind == "rest" else {"Bearer sesame"})


async def test_the_words_are_in_the_log_the_report_and_the_page(tmp_path: Path) -> None:
    data = tiny_dataset(2)
    async with serving(Service(FINE, error=WORDS)) as url:
        config = RunConfig(target=f"a2a:{url}", warm_up=0)
        run = await Evaluation.plan(config, data).start(open_agent(config, data), tmp_path)
    calls = [json.loads(line) for line in run.folder.calls_file.read_text().splitlines()]
    assert [call["failure"]["said"][:13] for call in calls] == ["INDEX_MISSING"] * 2
    assert [row.said[:13] for row in run.rows()] == ["INDEX_MISSING"] * 2
    assert "it said: INDEX_MISSING: no index" in run.report.failure_examples["agent error"]
    page = run.folder.page_file.read_text()
    assert "it said: INDEX_MISSING: no index" in page
    for text in (page, run.folder.calls_file.read_text(), run.folder.report_file.read_text()):
        assert "sk-live" not in text
        assert "\x1b" not in text


@pytest.mark.parametrize(
    ("text", "quoted"),
    [
        (b'{"error": {"code": 3, "message": "no such index"}}', "no such index"),
        (b'{"detail": [{"msg": "x"}]}', '{"detail": [{"msg": "x"}]}'),
        (b"<!doctype html><title>502 Bad Gateway</title><p>nginx", "502 Bad Gateway"),
        ("two\n  lines\tand \x00 more", "two lines and \ufffd more"),
    ],
)
def test_what_is_quoted(text: str | bytes, quoted: str) -> None:
    assert quote(text) == quoted
