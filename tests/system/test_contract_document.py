"""The agent HTTP contract sentence by sentence: our agents and `assay check` keep to each.

The sections are those of the document. What else `assay check` finds is in tests/contract.
"""

import asyncio
import json
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.contract.plain_agent import Answer, Body, PlainAgent, as_json
from tests.contract.running import running
from tests.system.conftest import Assay
from tests.system.running import serving

CANARY = "canary-5f1c77"
GROUNDING = {"chunks": [{"chunk_id": "c1", "text": "Blood pressure did not change."}]}
INPUTS: dict[str, dict[str, Any]] = {
    "RAG_RETRIEVE": {"query": "allotment club annual meeting"},
    "RAG_INGEST": {"documents": [{"docId": "d", "text": "tea"}], "knowledgeBase": "document"},
    "LIT_RETRIEVAL": {"query": "allotment club"},
    "POLICY_REVIEW": {"resource_id": "r1"},
    "CLAIM_VERIFY": {"claims": ["Blood pressure did not change."], "groundingPack": GROUNDING},
}
WRONG = {"claims": 1, "documents": 1, "resource_id": []}

all_agents = pytest.mark.parametrize("task", INPUTS)
both_ways = pytest.mark.parametrize("way", ["sync", "stream"])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("agents")


@pytest.fixture(scope="module")
def base(folder: Path) -> Iterator[str]:
    cache = folder / "cache"
    command = ("agent", "all", "--dataset", "notes", "--mode", "bm25")
    with serving(*command, folder=folder, ASSAY_CACHE=str(cache)) as url:
        yield url


@pytest.fixture(scope="module")
def http() -> Iterator[httpx.Client]:
    with httpx.Client(trust_env=False, timeout=60) as client:
        yield client


Ask = Callable[..., httpx.Response]


@pytest.fixture
def ask(base: str, http: httpx.Client) -> Ask:
    """Post a request for a task; keywords change its fields, None takes one away."""

    def post(task: str, way: str = "sync", **changes: Any) -> httpx.Response:
        valid = {"request_id": uuid.uuid4().hex, "task_type": task, "inputs": INPUTS[task]}
        body = {name: value for name, value in {**valid, **changes}.items() if value is not None}
        return http.post(f"{address(base, task)}/agents/run/{way}", json=body)

    return post


def address(base: str, task: str) -> str:
    return f"{base}/{task.lower().replace('_', '-')}"


def events(answer: httpx.Response) -> list[tuple[str, dict[str, Any]]]:
    assert answer.text.endswith("\n\n")
    found = []
    for block in answer.text.strip().split("\n\n"):
        lines = [line for line in block.split("\n") if not line.startswith(":")]
        name = [line.removeprefix("event: ") for line in lines if line.startswith("event: ")]
        data = [line.removeprefix("data: ") for line in lines if line.startswith("data: ")]
        assert len(name) + len(data) == len(lines)
        found.append((name[0], json.loads("\n".join(data))))
    return found


def terminal_of(answer: httpx.Response) -> dict[str, Any]:
    return events(answer)[-1][1]


# Overview + endpoints, sync response shape


@all_agents
def test_a_sync_run_takes_json_and_answers_json(ask: Ask, task: str) -> None:
    answer = ask(task, request_id=f"echo-{task}")
    body = answer.json()
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json")
    assert (body["request_id"], body["task_type"]) == (f"echo-{task}", task)
    assert (body["status"], body["ok"], "error" in body) == ("ok", True, False)
    assert {"artifacts", "provenance", "usage", "warnings"} <= body.keys()
    assert isinstance(body["outputs"], dict)
    assert ask(task, inputs=WRONG).json()["outputs"] == {}


@both_ways
def test_an_unsupported_task_type_gets_a_contract_shaped_4xx(ask: Ask, way: str) -> None:
    answer = ask("RAG_RETRIEVE", way, task_type="SUMMARISE", request_id="doc-4xx")
    body = answer.json()
    assert (answer.status_code, body["error"]["code"]) == (400, "UNSUPPORTED_TASK_TYPE")
    assert (body["request_id"], body["ok"], body["outputs"]) == ("doc-4xx", False, {})
    assert body["warnings"] == []


# Request schema


def test_the_body_is_the_same_for_both_endpoints(ask: Ask) -> None:
    optional = {"workflow_id": "w", "stage_id": "s", "user_id": "u", "mode": "LIVE"}
    sync = ask("RAG_RETRIEVE", "sync", **optional).json()
    stream = terminal_of(ask("RAG_RETRIEVE", "stream", **optional))
    assert sync["outputs"] == stream["outputs"] != {}


@both_ways
@pytest.mark.parametrize("field", ["request_id", "task_type"])
@pytest.mark.parametrize("value", [None, "", 7])
def test_request_id_and_task_type_are_required(ask: Ask, way: str, field: str, value: Any) -> None:
    answer = ask("RAG_RETRIEVE", way, **{field: value})
    assert (answer.status_code, answer.json()["ok"]) == (422, False)
    assert answer.json()["error"]["code"] == "VALIDATION_ERROR"


@both_ways
@pytest.mark.parametrize(("content", "status"), [(b"[]", 422), (b"{oops secret", 400)])
def test_the_body_is_a_json_object(
    base: str, http: httpx.Client, way: str, content: bytes, status: int
) -> None:
    headers = {"Content-Type": "application/json"}
    url = f"{address(base, 'RAG_RETRIEVE')}/agents/run/{way}"
    answer = http.post(url, content=content, headers=headers)
    assert (answer.status_code, answer.json()["ok"]) == (status, False)
    assert "secret" not in answer.text


@pytest.mark.parametrize(
    ("field", "value", "wrong"),
    [
        ("workflow_id", "w1", 1),
        ("stage_id", "s1", 1),
        ("user_id", "u1", 1),
        ("mode", "LIVE", 1),
        ("risk_tier", "PHI", 1),
        ("domain_id", "clinical", 1),
        ("inputs", {"resource_id": "r"}, "text"),
        ("budgets", {"timeout_ms": 5000, "max_output_tokens": 10}, "much"),
    ],
)
def test_an_optional_field_has_its_type(ask: Ask, field: str, value: Any, wrong: Any) -> None:
    answers = [ask("POLICY_REVIEW", **{field: each}).status_code for each in (value, None, wrong)]
    assert answers == [200, 200, 422]


def test_mode_is_demo_by_default(ask: Ask) -> None:
    inputs = {"claims": ["Tea improves mood."], "groundingPack": GROUNDING}
    passed = [
        ask("CLAIM_VERIFY", inputs=inputs, mode=mode).json()["outputs"]["overallPass"]
        for mode in (None, "DEMO", "LIVE")
    ]
    assert passed == [True, True, False]


def test_risk_tier_and_domain_id_reach_the_task(ask: Ask) -> None:
    plain = ask("POLICY_REVIEW").json()["outputs"]
    tiered = ask("POLICY_REVIEW", risk_tier="PHI", domain_id="finance").json()["outputs"]
    assert (plain["domain"], tiered["domain"]) == ("clinical", "finance")
    assert (plain["risk_level"], plain["allowed"]) != (tiered["risk_level"], tiered["allowed"])


def test_inputs_are_those_of_the_task(ask: Ask) -> None:
    assert ask("RAG_RETRIEVE").json()["outputs"]["chunks"]
    other = ask("RAG_RETRIEVE", inputs={"claims": []}).json()
    assert (other["status"], other["error"]["code"]) == ("error", "VALIDATION_ERROR")
    nowhere = {"query": "tea", "knowledgeBase": "none"}
    last = terminal_of(ask("RAG_RETRIEVE", "stream", inputs=nowhere))
    assert (last["ok"], last["outputs"], last["error"]["code"]) == (False, {}, "TASK_FAILED")


def test_budgets_limit_tokens_and_time(ask: Ask) -> None:
    cut = ask("RAG_RETRIEVE", budgets={"max_context_tokens": 1}).json()
    assert (cut["status"], cut["outputs"]["chunks"]) == ("degraded", [])
    assert ask("RAG_RETRIEVE", budgets={"max_time_ms": 0}).status_code == 422


# SSE format, stream invariant, required fields by event type


@all_agents
@pytest.mark.parametrize(("inputs", "ok"), [("valid", True), ("wrong", False)])
def test_a_stream_begins_with_started_and_ends_with_its_one_terminal_event(
    ask: Ask, task: str, inputs: str, ok: bool
) -> None:
    changes = {} if ok else {"inputs": WRONG}
    answer = ask(task, "stream", request_id=f"{task}-{inputs}", **changes)
    assert answer.status_code == 200
    assert answer.headers["content-type"].partition(";")[0] == "text/event-stream"
    found = events(answer)
    names = [name for name, _ in found]
    assert (names[0], names[-1]) == ("started", "final")
    assert set(names[1:-1]) <= {"progress"}
    for _, data in (found[0], found[-1]):
        assert (data["request_id"], data["task_type"]) == (f"{task}-{inputs}", task)
    last = found[-1][1]
    assert (last["ok"], last["status"]) == (ok, "ok" if ok else "error")
    assert isinstance(last["outputs"], dict)


def test_progress_has_a_percent_and_a_step(ask: Ask) -> None:
    found = [data for name, data in events(ask("RAG_RETRIEVE", "stream")) if name == "progress"]
    assert found
    assert all({"percent", "step"} <= data.keys() for data in found)


def test_data_is_utf_8_json(ask: Ask) -> None:
    document = {"docId": "ü", "title": "Grüne Tees", "text": "Der Tee heißt 绿茶."}
    answer = ask("RAG_INGEST", "stream", inputs={"documents": [document], "knowledgeBase": "u8"})
    answer.content.decode("utf-8")
    assert terminal_of(answer)["outputs"]["docIds"] == ["ü"]


async def test_data_may_have_several_lines_and_progress_any_shape(assay: Assay) -> None:
    class Freely(PlainAgent):
        def event(self, name: str, data: Body) -> bytes:
            lines = json.dumps({**data, "type": name}, indent=1).split("\n")
            return "\n".join([f"event: {name}", *(f"data: {x}" for x in lines), "", ""]).encode()

        async def events(self, request: Body) -> AsyncIterator[bytes]:
            for value in ("[1, 2]", "3", '"half"', "{}"):
                yield f"event: progress\ndata: {value}\n\n".encode()
            async for piece in super().events(request):
                yield piece

    assert await broken_rules(assay, Freely()) == set()


async def test_a_stream_that_stays_open_after_its_terminal_event_is_found(assay: Assay) -> None:
    class NeverCloses(PlainAgent):
        async def events(self, request: Body) -> AsyncIterator[bytes]:
            async for piece in super().events(request):
                yield piece
            while True:
                await asyncio.sleep(0.2)
                yield b": heartbeat\n\n"

    assert await broken_rules(assay, NeverCloses()) == {"terminal-last"}


# PHI-safe logging rules


@both_ways
def test_logs_have_identifiers_and_figures_and_no_content(ask: Ask, folder: Path, way: str) -> None:
    request_id = f"logged-{way}"
    document = {"docId": CANARY, "text": f"{CANARY} slept."}
    ask("RAG_INGEST", way, inputs={"documents": [document], "knowledgeBase": "ward"})
    sent = {"query": f"Did {CANARY} sleep?", "knowledgeBase": "ward"}
    assert CANARY in ask("RAG_RETRIEVE", way, inputs=sent, request_id=request_id).text
    ask("POLICY_REVIEW")  # the line of a request is written after its response
    log = (folder / "server.log").read_text()
    lines = [json.loads(line) for line in log.splitlines() if request_id in line]
    assert lines
    assert {"request_id", "task_type", "duration_ms", "status"} <= lines[0].keys()
    assert CANARY not in log


async def test_an_agent_that_quotes_its_inputs_after_a_long_prefix_is_found(assay: Assay) -> None:
    class Quotes(PlainAgent):
        def refusal(self, request: Any) -> Answer | None:
            found = super().refusal(request)
            if found is None or not isinstance(request, dict):
                return found
            known = {"request_id": request.get("request_id") or "unknown"}
            said = "x" * 5_000_000 + json.dumps(request.get("inputs"))
            return as_json(self.failure(known, "VALIDATION_ERROR", said), found.status)

    assert "no-echo" in await broken_rules(assay, Quotes())


async def broken_rules(assay: Assay, agent: PlainAgent) -> set[str]:
    """The rules that `assay check` fails an agent for."""
    async with running(agent) as url:
        done = await asyncio.to_thread(assay, "check", f"{url}={agent.task}", "--json")
    checks = json.loads(done.stdout)["targets"][0]["checks"]
    broken = [each for each in checks if each["verdict"] == "fail"]
    assert done.returncode == bool(broken)
    assert all(each["remedy"] and each["repeat"].startswith("curl ") for each in broken)
    return {each["name"] for each in broken}
