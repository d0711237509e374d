"""The agent HTTP contract sentence by sentence: our agents and `assay check` keep to each.

Each test is named after a sentence of the document; the table in docs/contract.md has them all.
"""

import asyncio
import json
import os
import subprocess
import sys
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

SCRIPT = Path(__file__).parents[2] / "scripts" / "check-agent-contract.py"
CANARY = "canary-5f1c77"
GROUNDING = {"chunks": [{"chunk_id": "c1", "text": "Blood pressure did not change."}]}
INPUTS: dict[str, dict[str, Any]] = {
    "RAG_RETRIEVE": {"query": "allotment club annual meeting"},
    "RAG_INGEST": {"documents": [{"docId": "d", "text": "tea"}], "knowledgeBase": "document"},
    "LIT_RETRIEVAL": {"query": "allotment club"},
    "POLICY_REVIEW": {"resource_id": "r1"},
    "CLAIM_VERIFY": {"claims": ["Blood pressure did not change."], "groundingPack": GROUNDING},
}
TERMINAL = ("final", "complete", "done")

all_agents = pytest.mark.parametrize("task", INPUTS)
both_ways = pytest.mark.parametrize("way", ["sync", "stream"])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("agents")


@pytest.fixture(scope="module")
def base(folder: Path) -> Iterator[str]:
    """All agents in one process, each on a path of its own."""
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
    """Names and data, by the rules of the document alone."""
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


def result_of(answer: httpx.Response, way: str) -> dict[str, Any]:
    found: dict[str, Any] = answer.json() if way == "sync" else terminal_of(answer)
    return found


# Overview + endpoints


@all_agents
def test_all_agents_implement_the_same_endpoints_and_shapes(ask: Ask, task: str) -> None:
    fields = {"request_id", "task_type", "status", "ok", "outputs"}
    assert fields <= ask(task).json().keys()
    assert fields <= terminal_of(ask(task, "stream")).keys()


@all_agents
def test_a_sync_run_takes_json_and_answers_json(ask: Ask, task: str) -> None:
    answer = ask(task)
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json")
    assert isinstance(answer.json(), dict)


@all_agents
def test_a_streaming_run_takes_the_same_json_and_answers_events(ask: Ask, task: str) -> None:
    answer = ask(task, "stream")
    assert answer.status_code == 200
    assert answer.headers["content-type"].partition(";")[0] == "text/event-stream"


@both_ways
def test_an_unsupported_task_type_is_rejected_with_a_contract_shaped_4xx(
    ask: Ask, way: str
) -> None:
    answer = ask("RAG_RETRIEVE", way, task_type="SUMMARISE", request_id="doc-4xx")
    body = answer.json()
    assert 400 <= answer.status_code < 500
    assert (body["request_id"], body["ok"], body["outputs"]) == ("doc-4xx", False, {})
    assert body["warnings"] == []


async def test_an_agent_may_take_any_task_type(assay: Assay) -> None:
    class TakesAnyTask(PlainAgent):
        def refusal(self, request: Any) -> Answer | None:
            known = isinstance(request, dict) and bool(request.get("task_type"))
            return super().refusal({**request, "task_type": self.task} if known else request)

    assert await broken_rules(assay, TakesAnyTask()) == set()


# Request schema


def test_the_body_is_the_same_for_both_endpoints(ask: Ask) -> None:
    optional = {"workflow_id": "w", "stage_id": "s", "user_id": "u", "mode": "LIVE"}
    sync = ask("RAG_RETRIEVE", "sync", **optional).json()
    stream = terminal_of(ask("RAG_RETRIEVE", "stream", **optional))
    assert sync["outputs"] == stream["outputs"] != {}


@both_ways
@pytest.mark.parametrize("request_id", [None, "", 7])
def test_request_id_is_a_required_non_empty_string(ask: Ask, way: str, request_id: Any) -> None:
    answer = ask("RAG_RETRIEVE", way, request_id=request_id)
    assert (answer.status_code, answer.json()["ok"]) == (422, False)


@both_ways
@pytest.mark.parametrize("task_type", [None, "", 7])
def test_task_type_is_a_required_string(ask: Ask, way: str, task_type: Any) -> None:
    answer = ask("RAG_RETRIEVE", way, task_type=task_type)
    assert (answer.status_code, answer.json()["ok"]) == (422, False)


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
def test_an_optional_field_may_be_absent_and_has_its_type(
    ask: Ask, field: str, value: Any, wrong: Any
) -> None:
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


def test_budgets_limit_tokens_and_time(ask: Ask) -> None:
    cut = ask("RAG_RETRIEVE", budgets={"max_context_tokens": 1}).json()
    assert (cut["status"], cut["outputs"]["chunks"]) == ("degraded", [])
    assert ask("RAG_RETRIEVE", budgets={"max_time_ms": 0}).status_code == 422


# Sync response shape


@all_agents
def test_request_id_echoes_that_of_the_request(ask: Ask, task: str) -> None:
    assert ask(task, request_id=f"echo-{task}").json()["request_id"] == f"echo-{task}"


@all_agents
def test_outputs_is_an_object_that_may_be_empty_but_is_present(ask: Ask, task: str) -> None:
    assert isinstance(ask(task).json()["outputs"], dict)
    assert (
        ask(task, inputs={"claims": 1, "documents": 1, "resource_id": []}).json()["outputs"] == {}
    )


@pytest.mark.parametrize(
    ("indicator", "accepted"),
    [
        ({"status": "ok"}, True),
        ({"status": "success"}, True),
        ({"ok": True}, True),
        ({"status": "finished"}, False),
        ({"success": True}, False),
    ],
)
async def test_success_is_a_status_of_ok_or_success_or_ok_true(
    assay: Assay, indicator: Body, accepted: bool
) -> None:
    class Indicates(PlainAgent):
        async def answer(self, path: str, content: bytes) -> Answer | AsyncIterator[bytes]:
            found = await super().answer(path, content)
            if path.endswith("/sync") and isinstance(found, Answer):
                body = json.loads(found.body)
                if body["ok"]:
                    del body["ok"], body["status"]
                    return as_json({**body, **indicator}, found.status)
            return found

    assert await broken_rules(assay, Indicates()) == (set() if accepted else {"sync-success"})


@all_agents
def test_the_canonical_style_is_status_ok_and_outputs(ask: Ask, task: str) -> None:
    assert ask(task).json()["status"] == "ok"


@all_agents
def test_artifacts_provenance_usage_and_warnings_are_recommended(ask: Ask, task: str) -> None:
    assert {"artifacts", "provenance", "usage", "warnings"} <= ask(task).json().keys()


# SSE format


@all_agents
def test_each_event_has_an_event_line_data_lines_and_an_empty_line(ask: Ask, task: str) -> None:
    names = [name for name, _ in events(ask(task, "stream"))]
    assert set(names) <= {"started", "progress", "final"}


def test_data_is_utf_8_json(ask: Ask) -> None:
    document = {"docId": "ü", "title": "Grüne Tees", "text": "Der Tee heißt 绿茶."}
    answer = ask("RAG_INGEST", "stream", inputs={"documents": [document], "knowledgeBase": "u8"})
    answer.content.decode("utf-8")
    assert terminal_of(answer)["outputs"]["docIds"] == ["ü"]


async def test_several_data_lines_are_one_json_value(assay: Assay) -> None:
    class Indents(PlainAgent):
        def event(self, name: str, data: Body) -> bytes:
            lines = json.dumps({**data, "type": name}, indent=1).split("\n")
            return "\n".join([f"event: {name}", *(f"data: {x}" for x in lines), "", ""]).encode()

    assert await broken_rules(assay, Indents()) == set()


# Stream invariant: single terminal event


@all_agents
@pytest.mark.parametrize("inputs", ["valid", "wrong"])
def test_exactly_one_event_is_terminal_and_it_is_the_last(ask: Ask, task: str, inputs: str) -> None:
    wrong = {"inputs": {"claims": 1, "documents": 1, "resource_id": []}}
    names = [
        name for name, _ in events(ask(task, "stream", **(wrong if inputs == "wrong" else {})))
    ]
    assert sum(name in TERMINAL for name in names) == 1
    assert names[-1] in TERMINAL


@all_agents
def test_stream_terminal_event_has_request_id_task_type_status(ask: Ask, task: str) -> None:
    """The unit test that the document names for its agents, by the conditions it lists."""
    found = events(ask(task, "stream", request_id=f"terminal-{task}"))
    assert [name in TERMINAL for name, _ in found].count(True) == 1
    name, data = found[-1]
    assert name in TERMINAL
    assert (data["request_id"], data["task_type"]) == (f"terminal-{task}", task)
    assert data["status"]


@all_agents
def test_the_terminal_event_has_a_success_indicator_and_outputs(ask: Ask, task: str) -> None:
    data = terminal_of(ask(task, "stream"))
    assert (data["ok"], data["status"]) == (True, "ok")
    assert isinstance(data["outputs"], dict)


@pytest.mark.parametrize(
    ("trailing", "rule"),
    [("complete", "terminal-one"), ("progress", "terminal-last")],
)
async def test_nothing_trails_the_terminal_event(assay: Assay, trailing: str, rule: str) -> None:
    class Trails(PlainAgent):
        async def events(self, request: Body) -> AsyncIterator[bytes]:
            async for piece in super().events(request):
                yield piece
            if "query" in request["inputs"]:
                yield self.event(trailing, {})

    assert rule in await broken_rules(assay, Trails())


# Required fields by event type


@all_agents
def test_started_has_request_id_and_task_type(ask: Ask, task: str) -> None:
    name, data = events(ask(task, "stream", request_id=f"started-{task}"))[0]
    assert name == "started"
    assert (data["request_id"], data["task_type"]) == (f"started-{task}", task)


def test_progress_has_a_percent_and_a_step(ask: Ask) -> None:
    found = [data for name, data in events(ask("RAG_RETRIEVE", "stream")) if name == "progress"]
    assert found
    assert all({"percent", "step"} <= data.keys() for data in found)


async def test_progress_has_no_strict_shape(assay: Assay) -> None:
    class ReportsFreely(PlainAgent):
        async def events(self, request: Body) -> AsyncIterator[bytes]:
            for value in ("[1, 2]", "3", '"half"', "{}"):
                yield f"event: progress\ndata: {value}\n\n".encode()
            async for piece in super().events(request):
                yield piece

    assert await broken_rules(assay, ReportsFreely()) == set()


class ChangesTerminal(PlainAgent):
    """Another name of the terminal event, fields taken from it, and fields put in."""

    def __init__(self, name: str = "final", without: str = "", **more: Any) -> None:
        super().__init__()
        self.name, self.without, self.more = name, without, more

    def event(self, name: str, data: Body) -> bytes:
        if name == "final":
            kept = {key: value for key, value in data.items() if key not in self.without.split()}
            return super().event(self.name, {**kept, **(self.more if data["ok"] else {})})
        return super().event(name, data)


@pytest.mark.parametrize("name", TERMINAL)
async def test_complete_done_and_final_are_terminal(assay: Assay, name: str) -> None:
    assert await broken_rules(assay, ChangesTerminal(name)) == set()


@pytest.mark.parametrize(
    ("without", "rule"),
    [
        ("request_id", "terminal-request-id"),
        ("task_type", "terminal-task-type"),
        ("status", "terminal-status"),
        ("status ok", "terminal-success"),
        ("outputs", "terminal-outputs"),
    ],
)
async def test_the_terminal_event_must_have_each_required_field(
    assay: Assay, without: str, rule: str
) -> None:
    assert rule in await broken_rules(assay, ChangesTerminal(without=without))


async def test_success_true_is_an_indicator_in_the_terminal_event(assay: Assay) -> None:
    agent = ChangesTerminal(without="ok", status="ended", success=True)
    assert await broken_rules(assay, agent) == set()


async def test_the_terminal_event_may_call_its_outputs_data(assay: Assay) -> None:
    class Data(PlainAgent):
        def event(self, name: str, data: Body) -> bytes:
            if name == "final":
                data = {**data, "data": data["outputs"]}
                del data["outputs"]
            return super().event(name, data)

    assert await broken_rules(assay, Data()) == set()


# PHI-safe logging rules


@both_ways
def test_logs_have_identifiers_and_figures_and_no_content(ask: Ask, folder: Path, way: str) -> None:
    request_id = f"logged-{way}"
    document = {"docId": CANARY, "text": f"{CANARY} slept."}
    ask("RAG_INGEST", way, inputs={"documents": [document], "knowledgeBase": "ward"})
    sent = {"query": f"Did {CANARY} sleep?", "knowledgeBase": "ward"}
    found = result_of(ask("RAG_RETRIEVE", way, inputs=sent, request_id=request_id), way)
    assert CANARY in json.dumps(found["outputs"])
    ask("POLICY_REVIEW")  # the line of a request is written after its response
    log = (folder / "server.log").read_text()
    lines = [json.loads(line) for line in log.splitlines() if request_id in line]
    assert lines
    assert {"request_id", "task_type", "duration_ms", "status"} <= lines[0].keys()
    assert CANARY not in log


@both_ways
@pytest.mark.parametrize(
    "changes",
    [
        {"inputs": CANARY},
        {"inputs": {"query": [CANARY]}},
        {"inputs": {"query": "tea", "knowledgeBase": CANARY}},
        {"inputs": {"query": "tea", "topK": CANARY}},
        {"task_type": CANARY},
        {"budgets": {"timeout_ms": CANARY}},
        {"request_id": f"{CANARY}\n"},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_error_messages_and_bodies_have_no_phi(
    ask: Ask, folder: Path, way: str, changes: Any
) -> None:
    answer = ask("RAG_RETRIEVE", way, **changes)
    assert '"ok":false' in answer.text.replace(" ", "")
    assert CANARY not in answer.text
    assert CANARY not in (folder / "server.log").read_text()


# Compatibility notes, and running the check


def test_the_script_checks_sync_and_stream_of_all_targets(base: str) -> None:
    targets = [f"{address(base, task)}={task}" for task in ("LIT_RETRIEVAL", "POLICY_REVIEW")]
    done = script(",".join(targets))
    assert (done.returncode, done.stdout.count("conforms to the contract")) == (0, 2)


async def test_the_script_fails_if_the_terminal_event_lacks_a_field() -> None:
    async with running(ChangesTerminal(without="task_type")) as url:
        done = await asyncio.to_thread(script, f"{url}=RAG_RETRIEVE")
    assert done.returncode == 1
    assert "terminal-task-type" in done.stdout


def script(targets: str) -> "subprocess.CompletedProcess[str]":
    environment = {**os.environ, "AGENT_CONTRACT_TARGETS": targets}
    command = [sys.executable, str(SCRIPT)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


async def broken_rules(assay: Assay, agent: PlainAgent) -> set[str]:
    """The rules that `assay check` fails an agent for."""
    async with running(agent) as url:
        done = await asyncio.to_thread(assay, "check", f"{url}={agent.task}", "--json")
    checks = json.loads(done.stdout)["targets"][0]["checks"]
    return {each["name"] for each in checks if each["verdict"] == "fail"}
