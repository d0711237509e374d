"""Tasks that outlive the server that ran them: their files, their runs, and what is left out."""

import os
import signal
import time
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.serve.serving import NEW, call, request_1_0, send, words
from tests.serve.test_green_rest import both
from tests.serve.test_serve_command import started

from assay.data import Dataset
from assay.evaluation.run import load_run
from assay.serve.green.task_files import FOLDER, JobState, TaskFiles, TaskRecord


async def test_a_finished_task_is_found_after_a_restart(
    http: httpx.AsyncClient, tiny: Dataset, out: Path
) -> None:
    async with both(tiny, out) as (url, order):
        before = await send(http, url, order)
        plain = (await http.post(f"{url}/tasks", json=order)).headers["location"]
        async with http.stream("GET", f"{url}{plain}/events") as events:
            assert [line async for line in events.aiter_lines()]
        shown = (await http.get(url + plain)).json()
    async with both(tiny, out) as (url, _):
        after = (await call(http, url, "GetTask", id=before["id"]))["result"]
        assert after["status"]["state"] == "TASK_STATE_COMPLETED"
        assert words(after) == words(before) == "evaluated 10 queries"
        assert after["contextId"] == before["contextId"]
        (old,), (new,) = before["artifacts"], after["artifacts"]
        assert (new["name"], new["parts"]) == (old["name"], old["parts"])
        again = (await http.get(url + plain)).json()
        figures = ("done", "total", "failed", "mean", "metric")
        assert again == {key: value for key, value in shown.items() if key not in figures}
        assert (await http.get(f"{url}/tasks/{before['id']}")).json()["state"] == "completed"
        second = request_1_0(order)
        second["params"]["message"]["taskId"] = before["id"]
        refused = (await http.post(url, json=second, headers=NEW)).json()
        assert refused["error"]["code"] == -32004
        canceled = await call(http, url, "CancelTask", id=before["id"])
        assert canceled["error"]["code"] == -32002


def test_a_task_whose_server_was_killed_has_failed_and_says_where_its_run_is(
    tmp_path: Path,
) -> None:
    purple = ["purple", "--port", "0", "--dataset", "notes", "--mode", "bm25"]
    green = ["green", "--port", "0", "--dataset", "notes", "--out", str(tmp_path)]
    with (
        started(*purple, folder=tmp_path) as (stopped, agent),
        started(*green, folder=tmp_path) as (killed, url),
    ):
        _wait_until(lambda: httpx.get(f"{agent}/health/ready", trust_env=False).status_code == 200)
        order = {"participants": {"retrieval_agent": agent}, "config": {"num_queries": 100}}
        task = httpx.post(f"{url}/tasks", json=order, trust_env=False, timeout=60).json()["id"]
        _wait_until(lambda: any(tmp_path.glob("*/calls.jsonl")))
        os.kill(stopped.pid, signal.SIGSTOP)  # the agent hangs, so the evaluation cannot end
        killed.kill()
        killed.wait()
        os.kill(stopped.pid, signal.SIGCONT)
    with started(*green, folder=tmp_path) as (_, url):
        found = httpx.get(f"{url}/tasks/{task}", trust_env=False, timeout=60).json()
    (run,) = [path.parent for path in tmp_path.glob("*/run.json")]
    assert found["state"] == "failed"
    assert found["message"] == f"the server stopped during this evaluation; kept as run {run.name}"


def test_only_so_many_files_are_kept_and_only_for_so_long(tmp_path: Path) -> None:
    files = TaskFiles(tmp_path, limit=3, lifetime=60)
    for number in range(5):
        files.write(_record(f"task-{number}"))
        written = time.time() - 30 + number
        os.utime(tmp_path / FOLDER / f"task-{number}.json", (written, written))
    files.write(_record("task-5"))
    kept = sorted(path.stem for path in (tmp_path / FOLDER).glob("*.json"))
    assert kept == ["task-3", "task-4", "task-5"]
    old = time.time() - 61
    os.utime(tmp_path / FOLDER / "task-3.json", (old, old))
    assert files.read("task-3") is None
    assert files.read("task-4") is not None


@pytest.mark.parametrize("task_id", ["../secret", "..", "", "a/b", "a" * 200, "unknown"])
def test_an_id_of_a_caller_names_no_other_file(tmp_path: Path, task_id: str) -> None:
    (tmp_path / "secret.json").write_text(_record("x").model_dump_json())
    assert TaskFiles(tmp_path / "runs", limit=3, lifetime=60).read(task_id) is None


@pytest.mark.parametrize("content", [b"{", b"{}", b"[]", b"x" * 100_000])
def test_a_damaged_file_is_an_unknown_task(tmp_path: Path, content: bytes) -> None:
    files = TaskFiles(tmp_path, limit=3, lifetime=60)
    files.write(_record("t"))
    (tmp_path / FOLDER / "t.json").write_bytes(content)
    assert files.read("t") is None


def test_a_folder_that_cannot_be_written_fails_no_task(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    TaskFiles(tmp_path / "file", limit=3, lifetime=60).write(_record("t"))


async def test_a_task_whose_run_was_resumed_meanwhile_is_complete(
    http: httpx.AsyncClient, tiny: Dataset, out: Path
) -> None:
    async with both(tiny, out) as (url, order):
        done = await send(http, url, order)
    (run,) = [path.parent.name for path in out.glob("*/run.json")]
    files = TaskFiles(out, limit=3, lifetime=60)
    files.write(_record(done["id"], state=JobState.WORKING, run=run))
    found = files.read(done["id"])
    assert found is not None
    assert found.state is JobState.COMPLETED
    assert found.folder is not None
    assert load_run(found.folder.path).report.summary.total_queries == 10


def _record(task_id: str, **fields: Any) -> TaskRecord:
    known = {"state": JobState.COMPLETED, "message": "done", "context_id": "c"}
    return TaskRecord(id=task_id, **{**known, **fields})


def _wait_until(holds: Any) -> None:
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.parametrize("task_id", ["../escaped", "a/b", "..", "", ".hidden", "x" * 300, "a\x00b"])
def test_an_id_that_is_no_file_name_is_neither_written_nor_read(
    tmp_path: Path, task_id: str
) -> None:
    files = TaskFiles(tmp_path / "runs", limit=3, lifetime=60)
    (tmp_path / "escaped.json").write_text(
        TaskRecord(id=task_id, state=JobState.COMPLETED, message="x").model_dump_json()
    )
    before = sorted(tmp_path.rglob("*"))
    files.write(TaskRecord(id=task_id, state=JobState.COMPLETED, message="done"))
    assert sorted(tmp_path.rglob("*")) == before
    assert files.read(task_id) is None
