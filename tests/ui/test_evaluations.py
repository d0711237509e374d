"""Evaluations from a form: started, followed, canceled, refused."""

import asyncio
import re
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from urllib.parse import parse_qsl

import httpx
import orjson
import pytest
from tests.report.page_reading import read_page
from tests.run.test_options import FULL
from tests.ui.conftest import running

from assay import evaluate
from assay.errors import UsageError
from assay.net.outbound import POLICY_VARIABLE, OutboundPolicy
from assay.net.sse import EventReader
from assay.run.config import RunConfig
from assay.run.folder import RunFolder
from assay.serve.ui import evaluations
from assay.serve.ui.context import Ui
from assay.serve.ui.evaluate import read_config, repeat_query
from assay.serve.ui.evaluations import MAX_RUNNING, Evaluations, LiveRun, StartedEvaluation


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
    assert [view for name, view in events(client, f"{place}/events") if name == "final"]
    address = client.get(place).headers["location"]
    assert address.startswith("/runs/")
    return address


def test_a_run_is_followed_to_its_report(client: httpx.Client, folder: Path, out: Path) -> None:
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


def test_one_query_is_tried_before_the_run(server: httpx.Client, folder: Path) -> None:
    def tried(target: str, **more: str) -> tuple[int, str]:
        answer = start(server, folder, target=target, **more, **{"try": "1"})
        return answer.status_code, read_page(answer.text).text

    before = server.get("/").text.count("<tr")
    status, text = tried("python:target:nothing", answers="on")
    assert (status, "no document came back" in text) == (200, True)
    assert "1. Title 3" in tried("python:target:right", query="query 3")[1]
    status, text = tried("python:nowhere:f")
    assert (status, "cannot import 'nowhere'" in text) == (422, True)
    assert "1. " in tried("builtin:bm25")[1]
    assert server.get("/").text.count("<tr") == before


def test_the_log_of_a_run_has_no_secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_a_run_fills_in_the_form_that_makes_it_again(tmp_path: Path) -> None:
    assert read_config(Ui(tmp_path), dict(parse_qsl(repeat_query(FULL)))) == FULL


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


@pytest.mark.parametrize("deaf", [False, True])
async def test_what_runs_is_bounded_and_ended_and_what_ended_is_kept_for_a_while(
    deaf: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Processes that run until they are interrupted; deaf ones have to be killed."""
    child = (
        "import signal, sys, time; "
        f"signal.signal(signal.SIGINT, signal.{'SIG_IGN' if deaf else 'default_int_handler'}); "
        "print('x' * 2000, file=sys.stderr, flush=True); time.sleep(60)"
    )
    monkeypatch.setattr(evaluations, "_START", child)
    monkeypatch.setattr(evaluations, "_MAX_KEPT", 3)
    monkeypatch.setattr(evaluations, "_GRACE_S", 0.05 if deaf else 20)
    queue, started = Evaluations(Path("runs")), []
    for _ in range(3):
        starting = (queue.start(RunConfig("builtin:bm25")) for _ in range(MAX_RUNNING + 2))
        outcomes = await asyncio.gather(*starting, return_exceptions=True)
        made = [each for each in outcomes if isinstance(each, StartedEvaluation)]
        assert len(made) == len(queue.running()) == MAX_RUNNING
        assert all(isinstance(each, UsageError) for each in outcomes if each not in made)
        while not all(each.lines for each in made):
            await asyncio.sleep(0.01)
        started += made
        await queue.close()
        assert queue.running() == []
    assert all((each.process.returncode == -signal.SIGKILL) is deaf for each in started)
    assert all(len(line) <= 500 for each in started for line in each.lines)
    assert len([each for each in started if queue.get(each.id) is each]) <= 3 + MAX_RUNNING
    assert queue.get(started[-1].id) is started[-1]
