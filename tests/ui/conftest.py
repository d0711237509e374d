"""The web UI as users meet it: the command in a process of its own, and a real browser."""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from starlette.testclient import TestClient
from tests import forked
from tests.once import once
from tests.system.running import environment
from tests.tiny_dataset import tiny_dataset
from tests.ui.run_history import make_history

from assay import Document, evaluate, load_dataset
from assay.data.beir import write_beir
from assay.serve.ui.app import ui_app

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

Search = Callable[..., list[dict[str, Any]]]
SCRIPT = "<script>document.title = 'owned'</script><img src=x onerror=\"document.title='owned'\">"

_FLAGS = [
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update"),
]

TARGET = """
import os, time

def right(query, top_k):
    return [f"d{query.split()[1]}"]

def nothing(query, top_k):
    return {"doc_ids": [], "answer": "I do not know."}

def waits(query, top_k):
    '''Answers as soon as the file `go` is there.'''
    while not os.path.exists("go"):
        time.sleep(0.01)
    return right(query, top_k)

def first_then_waits(query, top_k):
    return right(query, top_k) if int(query.split()[1]) < 5 else waits(query, top_k)
"""


@pytest.fixture(scope="package")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Holds `target.py` and `tiny`, a BEIR folder of 30 queries whose texts mean harm."""
    folder = tmp_path_factory.mktemp("ui")
    (folder / "target.py").write_text(TARGET)
    tiny = tiny_dataset(30, query=f"query {{}} {SCRIPT}")
    documents = {
        f"d{i}": Document(f"d{i}", f"Title {i} {SCRIPT}", f"text {i} {SCRIPT}") for i in range(31)
    }
    write_beir(replace(tiny, documents=documents), folder / "tiny")
    return folder


@pytest.fixture(scope="package")
def runs(folder: Path) -> Path:
    """Runs of three targets; `first`, `second` and `third` are good, worse and worst."""
    out = folder / "runs"
    dataset = load_dataset(folder / "tiny")

    def make(name: str, good: int) -> None:
        def answer(query: str, top_k: int) -> list[str]:
            number = int(query.split()[1])
            if number == 29:
                raise ValueError(f"refused {SCRIPT}")
            ids = [f"d{number}", f"d{number + 1}"] if number < good else ["d0", "d0", "d3"]
            return [*ids, f"no{SCRIPT}"]

        answer.__qualname__ = name
        evaluate(answer, dataset, out=out, retries=0, gates=("ndcg@5>=0.5",))

    for name, good in (("first", 28), ("second", 16), ("second", 18), ("third", 2)):
        make(name, good)
    for run in out.iterdir():  # the data set was given as an object: say where it is
        header = run / "run.json"
        place = f'"dataset": "{folder / "tiny"}"'
        header.write_text(header.read_text().replace('"dataset": "tiny"', place))
    return out


@pytest.fixture(scope="package")
def answer_runs(folder: Path) -> Path:
    """On the bundled notes: `bm25`, asked again in other contexts; `liar`, who means harm; `mute`,
    who fails; `hasty` and `careful`, whose searches are recorded.
    """
    out = folder / "answer-runs"

    def liar(query: str, top_k: int) -> dict[str, object]:
        return {
            "doc_ids": ["note-001", "note-002"],
            "answer": f"Nothing {SCRIPT} [1], <b>bold</b>.",
            "citations": ["note-001", f"no{SCRIPT}"],
        }

    liar.__qualname__ = "liar"
    settings: dict[str, Any] = {"out": out, "answers": True, "num_queries": 60}
    evaluate("builtin:bm25", "notes", counterfactuals=True, **settings)
    evaluate(liar, "notes", **settings)

    def hasty(query: str, top_k: int, search: Search) -> list[str]:
        return [hit["doc_id"] for hit in search(query, top_k=top_k)]

    def careful(query: str, top_k: int, search: Search) -> list[str]:
        found = [hit["doc_id"] for words in (query, "plug") for hit in search(words, top_k=3)]
        return found[:top_k]

    def mute(query: str, top_k: int) -> list[str]:
        raise ConnectionError("the index is offline")

    mute.__qualname__ = "mute"
    evaluate(mute, "notes", out=out, num_queries=3, retries=0)
    for agent in (hasty, careful):
        agent.__qualname__ = agent.__name__
        evaluate(agent, "notes", out=out, num_queries=12, search="builtin:bm25")
    return out


@contextmanager
def running(folder: Path, *arguments: str, **variables: str) -> Iterator[httpx.Client]:
    """`assay serve ui` until the block ends; the client knows its address."""
    command = (forked.ASSAY, "serve", "ui", "--port", "0", *arguments)
    env = environment(**variables)
    with (
        (folder / "server.log").open("w") as log,
        forked.started(*command, cwd=folder, env=env, stderr=log) as process,
    ):
        url = process.stdout.readline().strip()
        assert url, "the server did not say where it is"
        with httpx.Client(base_url=url, headers={"origin": url}, timeout=60) as client:
            yield client
        process.terminate()
        process.wait(timeout=30)


def open_pages(runs: Path, **options: Any) -> TestClient:
    origin = "http://localhost"
    app = ui_app(runs, **options)
    return TestClient(app, origin, headers={"origin": origin}, follow_redirects=False)


@pytest.fixture(scope="package")
def server(folder: Path, runs: Path) -> Iterator[httpx.Client]:
    cache = str(folder / "cache")
    options = ("--runs", str(runs))
    with running(folder, *options, ASSAY_CACHE=cache) as client:
        yield client


@pytest.fixture(scope="package")
def answer_server(folder: Path, answer_runs: Path) -> Iterator[httpx.Client]:
    with running(folder, "--runs", str(answer_runs)) as client:
        yield client


@pytest.fixture(scope="session")
def history(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six weeks of runs on two branches, and other agents on the same data."""

    def make() -> str:
        return str(make_history(tmp_path_factory.mktemp("history") / "runs"))

    return Path(once(tmp_path_factory, "run_history", make))


@pytest.fixture(scope="package")
def history_server(folder: Path, history: Path) -> Iterator[httpx.Client]:
    with running(folder, "--runs", str(history)) as client:
        yield client


@pytest.fixture(scope="module")
def browser(runs: Path, answer_runs: Path, history: Path) -> Iterator["Browser"]:
    """While it is there, its event loop is in the way of others: the runs are made before."""
    playwright = pytest.importorskip("playwright.sync_api")
    chromium = os.environ.get("ASSAY_CHROMIUM") or shutil.which("chromium")
    if not chromium:
        pytest.skip("there is no Chromium; name one with ASSAY_CHROMIUM")
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=chromium, args=_FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def page(browser: "Browser") -> Iterator["Page"]:
    """Fails the test for whatever the page complained of: a blocked script, a missing file."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    page = context.new_page()
    problems: list[str] = []
    page.on("console", lambda message: problems.append(message.text))
    page.on("pageerror", lambda error: problems.append(str(error)))
    yield page
    context.close()
    assert [each for each in problems if "422" not in each and "404" not in each] == []


@pytest.fixture
def keep() -> Callable[["Page", str], None]:
    """Saves a screenshot under ASSAY_SCREENSHOTS, where that is set."""
    where = os.environ.get("ASSAY_SCREENSHOTS")

    def save(page: "Page", name: str) -> None:
        if where:
            page.screenshot(path=Path(where) / f"{name}.png", full_page=True)

    return save


@pytest.fixture(scope="package")
def axe() -> str:
    path = os.environ.get("ASSAY_AXE")
    if not path or not Path(path).is_file():
        pytest.skip("name axe.min.js of the npm package axe-core with ASSAY_AXE")
    return Path(path).read_text(encoding="utf-8")
