"""`--private`: a canary in every query, document, reference and answer reaches no file, no output.

Agents put it wherever a protocol has room: answers, ids, titles, error messages. What is written is
searched afterwards, and what is opened for writing is watched, so that a temporary file that is
gone again counts as well.
"""

import asyncio
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.hostile.catalogue import ANSWER, MISBEHAVIORS, in_group
from tests.hostile.driver import PROTOCOLS, REQUESTS
from tests.hostile.protocols import Content
from tests.hostile.server import HostileServer
from tests.hostile.wire import instead
from tests.phi.recording import CANARY, Recording
from tests.serve.serving import serving

import assay
from assay.cli.app import app
from assay.data import Dataset, Document, Query
from assay.data.beir import write_beir
from assay.data.dataset import Fact, ReferenceAnswer
from assay.errors import TargetError, UsageError
from assay.evaluation.evaluation import Evaluation
from assay.privacy import is_private, private_mode
from assay.run.config import RunConfig
from assay.serve.green.request import EvalRequest, to_config
from assay.serve.listening import bind, url_of
from assay.serve.ui.app import ui_app
from assay.serve.ui.context import Ui
from assay.serve.ui.evaluate import read_config
from assay.targets.python_call import as_agent

ROOT = Path(__file__).parents[2]
DATA = Dataset(
    "ward",
    {
        "d1": Document("d1", f"Note about {CANARY}", f"{CANARY} slept well after aspirin."),
        "d2": Document("d2", "Soup", "Soup begins with onions."),
    },
    {"q1": Query("q1", f"Did {CANARY} sleep well?"), "q2": Query("q2", f"What did {CANARY} take?")},
    {"test": {"q1": {"d1": 1}, "q2": {"d1": 1}}},
    {
        "q1": ReferenceAnswer(
            "q1", f"{CANARY} slept well.", (Fact(f"{CANARY} slept", ("slept",)),)
        ),
        "q2": ReferenceAnswer(
            "q2", f"{CANARY} took aspirin.", (Fact(f"{CANARY} aspirin", ("aspirin",)),)
        ),
    },
)
ERROR = json.dumps({"error": {"message": CANARY, "code": -32000}, "jsonrpc": "2.0"}).encode()
CASES = in_group(
    "canary",
    (
        "canary",
        ANSWER,
        Content(ids=["d1", CANARY], title=CANARY, text=CANARY, answer=f"{CANARY} slept."),
    ),
    ("canary-prose", ANSWER, instead(CANARY.encode())),
    ("canary-error", ANSWER, instead(ERROR)),
)


@pytest.fixture(scope="module")
def agent() -> Iterator[str]:
    """An agent that says the canary in every protocol."""
    before = dict(MISBEHAVIORS)
    MISBEHAVIORS.update({case.name: case for case in CASES})
    with bind("127.0.0.1", 0) as listener:
        url, loop = url_of(listener), asyncio.new_event_loop()
        serving_task = loop.create_task(HostileServer(url).serve(listener))

        def work() -> None:
            try:
                loop.run_until_complete(serving_task)
            except asyncio.CancelledError:
                loop.close()

        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        yield url
        loop.call_soon_threadsafe(serving_task.cancel)
        thread.join()
    MISBEHAVIORS.clear()
    MISBEHAVIORS.update(before)


class Watch:
    """What the process opens for writing, from an audit hook that is there once and for all."""

    def __init__(self) -> None:
        self.on = False
        self.written: set[str] = set()
        sys.addaudithook(self._hear)

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self.on:
            return
        if event == "open" and isinstance(arguments[0], str | bytes):
            flags = arguments[2] or 0
            if flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
                self.written.add(os.fsdecode(arguments[0]))
        elif event == "sqlite3.connect":
            self.written.add(str(arguments[0]))

    def outside(self, folder: Path) -> set[str]:
        allowed = (str(folder), os.devnull, ":memory:")
        others = {path for path in self.written if not path.startswith(allowed)}
        harmless = ("/cache/models/", "/__pycache__/")  # weights and compiled code, no texts
        return {path for path in others if not any(each in path for each in harmless)}


WATCH = Watch()


@pytest.fixture
def watch() -> Iterator[Watch]:
    WATCH.written.clear()
    WATCH.on = True
    yield WATCH
    WATCH.on = False


def expect_no_canary(folder: Path) -> None:
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert files
    for path in files:
        assert CANARY.encode() not in path.read_bytes(), path
        assert CANARY not in path.name
    if sys.platform != "win32":
        assert {oct(path.stat().st_mode & 0o777) for path in files} == {"0o600"}
        folders = {path.parent for path in files}
        assert {oct(path.stat().st_mode & 0o777) for path in folders} == {"0o700"}


@pytest.mark.parametrize("case", [case.name for case in CASES])
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_no_protocol_leaves_a_text(
    protocol: str, case: str, agent: str, tmp_path: Path, watch: Watch, log: Recording
) -> None:
    target = PROTOCOLS[protocol].format(url=f"{agent}/{case}")
    request = REQUESTS[protocol].body if protocol in REQUESTS else ""
    run = assay.evaluate(
        target, DATA, top_k=2, retries=0, request=request, private=True, out=tmp_path / "runs"
    )
    assert run.report.summary.total_queries == 2
    expect_no_canary(tmp_path / "runs")
    assert watch.outside(tmp_path / "runs") == set()
    assert log.leaks(log.ours.getvalue()) == []
    if case == "canary":
        ids = [row.retrieved_docs for row in run.rows()]
        assert all(found[0] == "d1" and found[1].startswith("unknown-") for found in ids)


def asked(query: str, top_k: int) -> dict[str, object]:
    if "take" in query:
        raise RuntimeError(f"cannot search for {query}")
    shown = [{"id": query, "doc_id": "d1", "text": query}]
    answer = f"{CANARY} slept well."
    return {"doc_ids": ["d1", query], "answer": answer, "citations": [query], "contexts": shown}


def test_answers_are_measured_and_not_kept(tmp_path: Path, watch: Watch, log: Recording) -> None:
    run = assay.evaluate(
        asked, DATA, top_k=2, answers=True, baseline="builtin:bm25", private=True, out=tmp_path
    )
    open_run = assay.evaluate(asked, DATA, top_k=2, answers=True, out=tmp_path.parent / "open")
    assert run.report.answers is not None
    assert open_run.report.answers is not None
    assert run.report.answers.metrics == open_run.report.answers.metrics
    assert run.report.metrics == open_run.report.metrics
    assert run.report.answers.metrics["correctness"] == 0.5
    expect_no_canary(tmp_path)
    assert log.leaks(log.ours.getvalue() + log.raw.getvalue()) == []
    rows = list(run.folder.read_answers())
    assert [(row.answer, row.query_text, row.facts) for row in rows] == [(None, "", [])] * 2


class Judge:
    name = "canary-judge"

    async def generate(self, prompt: str, max_tokens: int = 100) -> str:
        raise RuntimeError(f"cannot judge {prompt}")


def test_a_judge_that_fails_is_not_quoted(tmp_path: Path) -> None:
    assay.evaluate(asked, DATA, answers=True, judge=Judge(), private=True, out=tmp_path)
    expect_no_canary(tmp_path)


async def test_a_resumed_run_asks_again_where_answers_were_forgotten(tmp_path: Path) -> None:
    for answers, calls in ((False, 2), (True, 4)):
        config = RunConfig("python:x:asked", "ward", top_k=2, answers=answers, private=True)
        evaluation = Evaluation.plan(config, DATA)
        first = await evaluation.start(as_agent(asked, name="asked"), tmp_path / str(answers))
        again = await evaluation.resume(as_agent(asked, name="asked"), first.folder)
        assert first.folder.calls_file.read_bytes().count(b"\n") == calls
        assert again.report.metrics == first.report.metrics
        assert (again.report.answers is None) is not answers
        if again.report.answers and first.report.answers:
            assert again.report.answers.metrics == first.report.answers.metrics
        expect_no_canary(tmp_path / str(answers))


def test_a_builtin_index_is_refused_and_bm25_works(tmp_path: Path, watch: Watch) -> None:
    for target in ("builtin:hybrid", "purple:bm25"):
        with pytest.raises(UsageError, match="private run"):
            assay.evaluate(target, DATA, private=True, out=tmp_path / "runs")
    run = assay.evaluate("builtin:bm25", DATA, private=True, out=tmp_path / "runs")
    assert run.report.metrics["ndcg@5"] == 1.0
    assert watch.outside(tmp_path / "runs") == set()
    expect_no_canary(tmp_path / "runs")


async def test_pages_of_a_private_run_have_no_text(tmp_path: Path, http: httpx.AsyncClient) -> None:
    write_beir(DATA, tmp_path / "ward")
    runs = tmp_path / "runs"
    run = await asyncio.to_thread(
        assay.evaluate, asked, str(tmp_path / "ward"), answers=True, private=True, out=runs
    )
    async with serving(ui_app(runs)) as url:
        for page in ("", "?tab=queries&query=q1", "/report.html", "?tab=answers", "?tab=settings"):
            answer = await http.get(f"{url}/runs/{run.name}{page}")
            assert CANARY not in answer.text, page
        front = await http.get(f"{url}/runs/{run.name}")
    assert front.status_code == 200


MODULE = """
import resource

def find(query, top_k):
    assert resource.getrlimit(resource.RLIMIT_CORE)[0] == 0
    return ["d1", query]
"""


def test_the_command_leaves_nothing_behind_anywhere(tmp_path: Path) -> None:
    write_beir(DATA, tmp_path / "data" / "ward")
    (tmp_path / "work").mkdir()
    (tmp_path / "data" / "agent_under_test.py").write_text(MODULE)
    places = {
        name: str(tmp_path / "work")
        for name in ("HOME", "TMPDIR", "XDG_CACHE_HOME", "ASSAY_CACHE", "XDG_CONFIG_HOME")
    }
    paths = [str(ROOT / "src"), str(tmp_path / "data")]
    done = subprocess.run(
        [
            *(sys.executable, "-m", "assay", "eval", "python:agent_under_test:find", "--private"),
            *("--dataset", str(tmp_path / "data" / "ward"), "--baseline", "builtin:bm25", "--json"),
        ],
        cwd=tmp_path / "work",
        env={
            **os.environ,
            **places,
            "PYTHONPATH": os.pathsep.join(paths),
            "ASSAY_CORPUS_IN_MEMORY_MB": "0",  # as of a large corpus, which else stays on the disk
        },
        capture_output=True,
        text=True,
        check=True,
    )
    report = json.loads(done.stdout)
    assert report["summary"]["successful_queries"] == 2, "core dumps were not off"
    assert CANARY not in done.stdout + done.stderr
    expect_no_canary(tmp_path / "work" / "runs")
    for path in (tmp_path / "work").rglob("*"):
        assert not path.is_file() or CANARY.encode() not in path.read_bytes()


def test_a_private_run_uses_no_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ray keeps what is sent to its workers in shared memory, and in files where that is full."""
    monkeypatch.chdir(tmp_path)
    write_beir(DATA, tmp_path / "ward")
    words = ["eval", "builtin:bm25", "--dataset", "ward", "--private", "--engine", "ray"]
    with pytest.raises(UsageError, match="a private run stays in one process"):
        app(words, standalone_mode=False)
    assert not is_private()


def test_a_traceback_shows_places_and_no_message() -> None:
    script = (
        "from assay.privacy import private_mode\n"
        "def lookup(text):\n    raise KeyError(text)\n"
        f"with private_mode():\n    lookup({CANARY[:5]!r} + {CANARY[5:]!r})"
    )
    path = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(
        [sys.executable, "-c", script], env=path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "KeyError" in done.stderr
    assert "in lookup" in done.stderr
    assert CANARY not in done.stderr


def test_private_mode_ends_with_its_block(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    with private_mode(False):
        assert not is_private()
    with private_mode():
        assert is_private()
    assert not is_private()
    monkeypatch.setenv("ASSAY_PRIVATE", "0")
    assert not is_private()


def test_what_a_started_command_prints_is_discarded(tmp_path: Path, watch: Watch) -> None:
    script = tmp_path / "server.py"
    script.write_text(f"import sys\nprint({CANARY!r}, file=sys.stderr)\nsys.exit(1)\n")
    target = f"mcp-stdio:{sys.executable} {script}"
    with pytest.raises(TargetError, match=CANARY):
        assay.evaluate(target, DATA, out=tmp_path / "runs")
    watch.written.clear()
    with pytest.raises(TargetError) as refused:
        assay.evaluate(target, DATA, private=True, out=tmp_path / "runs")
    assert CANARY not in str(refused.value)
    assert watch.outside(tmp_path / "runs") == set()


def test_every_run_of_a_private_process_is_private(monkeypatch: pytest.MonkeyPatch) -> None:
    """A page's box that is not ticked, or a request that does not say, takes nothing back."""
    assert not RunConfig(target="builtin:bm25").private
    monkeypatch.setenv("ASSAY_PRIVATE", "1")
    form = read_config(Ui(Path("runs")), {"target": "builtin:bm25"})
    assert form.private
    participants = {"retrieval_agent": "http://agent.example:9009"}
    request = EvalRequest.model_validate({"participants": participants, "config": {}})
    assert to_config(request, DATA, "ward", 1)[0].private
    assert RunConfig(target="builtin:bm25", private=False).private
    written = {**RunConfig(target="builtin:bm25").to_json(), "private": False}
    assert RunConfig.from_json(written).private
