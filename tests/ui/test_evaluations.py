"""Evaluations from a form: started, followed, canceled, refused."""

import asyncio
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from urllib.parse import parse_qsl

import httpx
import orjson
import pytest
from tests.report.page_reading import read_page
from tests.ui.conftest import running

from assay import evaluate
from assay.net.outbound import POLICY_VARIABLE, OutboundPolicy
from assay.net.sse import EventReader
from assay.run.config import JudgeSettings, RunConfig
from assay.run.folder import RunFolder
from assay.serve.ui import evaluations
from assay.serve.ui.context import Ui
from assay.serve.ui.evaluate import read_config, repeat_query
from assay.serve.ui.evaluations import Evaluations, LiveRun


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "runs"


@pytest.fixture
def client(folder: Path, out: Path) -> Iterator[httpx.Client]:
    (folder / "go").unlink(missing_ok=True)
    with running(folder, "--runs", str(out)) as client:
        yield client
        (folder / "go").touch()


def start(client: httpx.Client, folder: Path, **values: str) -> httpx.Response:
    data = {"dataset": str(folder / "tiny"), "split": "test", "top_k": "5", **values}
    return client.post("/evaluate", data=data)


def events(client: httpx.Client, path: str) -> Iterator[tuple[str, dict[str, object]]]:
    with client.stream("GET", path) as answer:
        reader = EventReader()
        for chunk in answer.iter_bytes():
            for event in reader.feed(chunk):
                yield event.name, orjson.loads(event.data)


def run_of(client: httpx.Client, place: str) -> str:
    """The address of the run of an evaluation, once it has one."""
    assert [view for name, view in events(client, f"{place}/events") if name == "final"]
    address = client.get(place).headers["location"]
    assert address.startswith("/runs/")
    return address


def test_an_evaluation_is_followed_to_its_report(
    client: httpx.Client, folder: Path, out: Path
) -> None:
    answer = start(client, folder, target="python:target:first_then_waits", concurrency="8")
    assert answer.status_code == 303
    run, seen = run_of(client, answer.headers["location"]), []
    for name, view in events(client, f"{run}/events"):
        seen.append(name)
        if view.get("done") == "5 of 30":
            assert view["share"] == pytest.approx(5 / 30)
            assert re.fullmatch(r"nDCG@5 0\.\d{4}", str(view["mean"]))
            running_page = client.get(run).text
            assert "5 of 30" in running_page
            assert "Cancel</button>" in running_page
            (folder / "go").touch()
    assert seen[-1] == "final"
    assert seen.count("final") == 1
    assert "Cancel</button>" not in client.get(run).text
    report = RunFolder(out / run.rpartition("/")[2]).read_report()
    assert report.state == "complete"
    assert report.config.top_k == 5


def test_cancel_keeps_what_was_answered(client: httpx.Client, folder: Path, out: Path) -> None:
    place = start(client, folder, target="python:target:first_then_waits").headers["location"]
    for _, view in events(client, f"{run_of(client, place)}/events"):
        if view.get("done") == "5 of 30" and view["message"] != "canceling":
            client.post(f"{place}/cancel")
    report = RunFolder(next(out.iterdir())).read_report()
    assert report.state == "interrupted"
    assert report.summary.total_queries == 5


def test_what_cannot_be_carried_out_says_why(client: httpx.Client, folder: Path) -> None:
    place = start(client, folder, target="python:nowhere:f").headers["location"]
    assert [name for name, _ in events(client, f"{place}/events")][-1] == "final"
    assert "cannot import &#39;nowhere&#39;" in client.get(place).text


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"target": ""}, "enter a target"),
        ({"target": "builtin:bm25", "top_k": "0"}, "top_k must be between 1 and 1000"),
        ({"target": "builtin:bm25", "gates": "ndcg@99>=0.1"}, "--top-k 99"),
        ({"target": "builtin:bm25", "counterfactuals": "on"}, "needs --answers"),
        ({"target": "builtin:bm25", "answers": "on", "judge": "oracle"}, "unknown provider"),
    ],
)
def test_a_wrong_form_comes_back_with_what_is_wrong(
    server: httpx.Client, folder: Path, runs: Path, values: dict[str, str], words: str
) -> None:
    before = len(list(runs.iterdir()))
    answer = start(server, folder, **values)
    assert answer.status_code == 422
    assert words in answer.text.replace("&gt;", ">")
    assert f'value="{folder / "tiny"}"' in answer.text  # what was typed is still there
    assert len(list(runs.iterdir())) == before


def test_one_query_is_tried_before_the_run(server: httpx.Client, folder: Path) -> None:
    before = server.get("/").text.count("<tr")
    answer = start(server, folder, target="python:target:nothing", answers="on", **{"try": "1"})
    page = read_page(answer.text)
    assert answer.status_code == 200
    assert "python:target:nothing" in page.text
    assert "no document came back" in page.text
    hits = read_page(
        start(server, folder, target="python:target:right", query="query 3", **{"try": "1"}).text
    )
    assert "1. Title 3" in hits.text
    missing = start(server, folder, target="python:nowhere:f", **{"try": "1"})
    assert missing.status_code == 422
    assert "cannot import 'nowhere'" in read_page(missing.text).text
    built_in = read_page(start(server, folder, target="builtin:bm25", **{"try": "1"}).text)
    assert re.search(r"words: \w+ \d", built_in.text), built_in.text
    assert server.get("/").text.count("<tr") == before


def test_the_log_has_what_the_agent_says_without_secrets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCS_TOKEN", "hunter2hunter2")
    header = evaluate(lambda query, top_k: ["note-001"], "notes", out=tmp_path, num_queries=2)
    asked = {"at": 0, "latency_ms": 12, "attempts": 1}
    failure = {"kind": "protocol", "message": "wrong key hunter2hunter2", "said": ""}
    calls = [
        {"query_id": "q1", "status": "ok", "doc_ids": ["d1"], "answer": "\x1b[31mYes.", **asked},
        {"query_id": "q2", "status": "failed", "failure": failure, **asked},
    ]
    more = [{**calls[0], "query_id": f"r{i}", "answer": "x" * 9000} for i in range(100)]
    for lines in (calls, more + calls):
        header.folder.calls_file.write_bytes(b"".join(orjson.dumps(x) + b"\n" for x in lines))
        log = LiveRun(header.folder, None).look().log
        assert re.search(
            r"^q2 .* failed, protocol: .*\nq1 · 12 ms · 1 document: d1 · “.\[31mYes\.”", log
        )
        assert "hunter2" not in log
        assert "\x1b" not in log
        assert len(log) < 20 * 201
    private = replace(header.folder.read_config(), private=True)
    head = header.folder.read_header()
    header.folder.write_header(head.model_copy(update={"config": private}))
    log = LiveRun(header.folder, None).look().log
    assert "Yes" not in log
    assert "wrong key" not in log


async def test_a_process_has_no_secret_on_its_command_line_and_may_write_lines_of_any_length(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bar that a target draws has no end of line: its reader must neither fail nor wait."""
    given = tmp_path / "given.json"
    child = (
        "import json, sys; "
        f"json.dump([sys.argv, json.load(sys.stdin)], open({str(given)!r}, 'w')); "
        "sys.stderr.write('x' * 1_000_000 + '\\r 99 %\\r100 %'); sys.stderr.flush()"
    )
    monkeypatch.setattr(evaluations, "_START", child)
    started = await Evaluations(tmp_path).start(RunConfig(target="http://u:hunter2@h.example"))
    try:
        async with asyncio.timeout(20):
            while not (started.ended and started.message == "100 %"):  # read after the process
                await asyncio.sleep(0.02)
    finally:
        if not started.ended:
            started.process.kill()
    argv, read = orjson.loads(given.read_bytes())
    assert "hunter2" not in str(argv)
    assert read["config"]["target"] == "http://u:hunter2@h.example"
    assert started.message == "100 %"
    assert max(map(len, started.lines)) <= 500


FULL = RunConfig(
    target="builtin:bm25",
    dataset="notes",
    gates=("ndcg@5>=0.1", "mrr@5>=0.1"),
    baseline="builtin:dense",
    mapping=("query=q",),
    retries=7,
    answers=True,
    counterfactuals=True,
    references=("truth.jsonl",),
    judge="ollama:small",
    judge_set=JudgeSettings(votes=5, max_cost=1.5),
    timeout=2.5,
)


def test_a_run_fills_in_the_form_that_makes_it_again(tmp_path: Path) -> None:
    assert read_config(Ui(tmp_path), dict(parse_qsl(repeat_query(FULL)))) == FULL


def test_ending_the_server_ends_what_it_started(folder: Path, out: Path) -> None:
    (folder / "go").unlink(missing_ok=True)
    with running(folder, "--runs", str(out)) as client:
        place = start(client, folder, target="python:target:first_then_waits").headers["location"]
        for _, view in events(client, f"{run_of(client, place)}/events"):
            if view.get("done") == "5 of 30":
                break
    run = RunFolder(next(out.iterdir()))
    assert run.state() == "interrupted"


async def test_the_process_is_put_under_the_policy_of_the_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the page did not see, the process refuses: it enforces the policy itself."""
    monkeypatch.delenv(POLICY_VARIABLE, raising=False)
    policy = OutboundPolicy.for_server("0.0.0.0", "allowed.test")
    evaluations = Evaluations(tmp_path, policy)
    started = await evaluations.start(RunConfig("a2a:http://127.0.0.1:1", dataset="notes"))
    await started.process.wait()
    await evaluations.close()
    assert "private or special network" in " ".join(started.lines)
