"""What is asked and answered may be about a patient: no log and no error repeats it."""

import asyncio
import logging
import traceback
from typing import Any

import orjson
import pytest
from tests.contract.asking import STREAM, SYNC, body
from tests.contract.conftest import StartAgent
from tests.contract.demo_agent import SearchInputs
from tests.contract.running import running
from tests.contract.tampering import Reply, Tampered

from assay.contract.check import check_agent
from assay.contract.client import run_stream, run_sync
from assay.contract.envelope import AgentRunRequest, AgentRunResponse, read_inputs, succeeded
from assay.contract.server import AgentService, ReportProgress, agent_app
from assay.errors import AgentFailure
from assay.net.client import open_client
from assay.net.sse import EventReader

CANARY = "canary-7d2e91"


@pytest.fixture(autouse=True)
def everything_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    caplog.set_level(logging.DEBUG, "assay.serve.requests")


async def echo(request: AgentRunRequest, report: ReportProgress) -> AgentRunResponse:
    """As leaky as work can be: it answers with its inputs and breaks with them in hand."""
    inputs = read_inputs(SearchInputs, request)
    report("read")
    if request.mode == "BREAK":
        raise ValueError(f"cannot search for {inputs.query}")
    return succeeded(request, {"echo": inputs.query})


def _logged(caplog: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    names = ("assay.serve.requests", "assay.contract.server")
    return [each.__dict__["fields"] for each in caplog.records if each.name in names]


@pytest.mark.parametrize("way", [SYNC, STREAM])
@pytest.mark.parametrize(
    ("sent", "header", "run_status"),
    [
        (body("r9", inputs={"query": "tea"}), "other", "ok"),
        (body("r9", inputs={"query": "tea"}, mode="BREAK"), "other", "error"),
        (body("r9", task_type="OTHER"), "other", "rejected"),
        ({"task_type": "TEST"}, "r9", "rejected"),
        (body("r\u00e9 9", inputs={"query": "tea"}), "other", "ok"),
    ],
)
async def test_header_log_line_and_body_have_one_request_id(
    start_agent: StartAgent,
    caplog: pytest.LogCaptureFixture,
    way: str,
    sent: dict[str, Any],
    header: str,
    run_status: str,
) -> None:
    client = await start_agent(echo)
    answer = await client.post(way, json=sent, headers={"X-Request-ID": header})
    is_json = answer.headers["content-type"] == "application/json"
    content = answer.content if is_json else EventReader().feed(answer.content)[-1].data
    request_id = orjson.loads(content)["request_id"]
    assert request_id == sent.get("request_id", header or request_id)
    async with asyncio.timeout(5):  # a stream is logged when its connection is done
        while not any("method" in each for each in _logged(caplog)):
            await asyncio.sleep(0.01)
    (line,) = [each for each in _logged(caplog) if "method" in each]
    assert (line["request_id"], line["run_status"]) == (request_id, run_status)
    assert answer.headers.get_list("x-request-id") == [request_id]
    assert {each["request_id"] for each in _logged(caplog)} == {request_id}


@pytest.mark.parametrize(
    "change",
    [
        lambda reply: reply.with_body(CANARY.encode()),
        lambda reply: reply.with_body(f"event: final\ndata: {CANARY}\n\n".encode()),
        lambda reply: reply.with_json({"request_id": CANARY, "ok": True, "outputs": {}}),
        lambda reply: reply.with_json({"detail": CANARY}, status=500),
    ],
)
async def test_errors_repeat_no_answer(change: Any, caplog: pytest.LogCaptureFixture) -> None:
    app = Tampered(agent_app(AgentService("echo", "TEST", echo)), change)
    request = AgentRunRequest(request_id="r1", task_type="TEST", inputs={"query": CANARY})
    async with running(app) as url, open_client() as http:
        for run in (run_sync, run_stream):
            with pytest.raises(AgentFailure) as caught:
                await run(http, url, request)
            assert CANARY not in "".join(traceback.format_exception(caught.value))
    assert CANARY not in caplog.text


async def test_a_conformance_report_repeats_nothing_of_an_agent_s_answers() -> None:
    def leaky(reply: Reply) -> Reply:
        return reply.with_json({"request_id": CANARY, "status": CANARY, "error": {"code": CANARY}})

    async with running(Tampered(agent_app(AgentService("e", "TEST", echo)), leaky)) as url:
        report = await check_agent(url, "TEST", inputs={"query": CANARY})
    assert not report.passed
    assert CANARY not in repr(report)
