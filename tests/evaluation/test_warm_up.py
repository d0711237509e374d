"""Ready before timed: an agent that is still loading loses no points."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route
from tests.serve.serving import finds, serving
from tests.tiny_dataset import tiny_dataset

from assay.errors import TargetError
from assay.evaluation.evaluation import Evaluation, Events
from assay.evaluation.plan import open_agent
from assay.evaluation.run import Run
from assay.run.config import RunConfig
from assay.run.folder import list_runs
from assay.run.models import WarmUpRecord
from assay.serve.purple import purple_app


class Service:
    """A search service that needs a while, counted in requests so that no test has to sleep.

    `before` says how each search that comes too early is answered; None hangs until `ready`.
    """

    def __init__(self, before: list[Response | None], *, ready: Response | None = None) -> None:
        self.before = before
        self.ready = ready
        self.searches: list[str] = []
        self.ready_checks = 0
        self.loaded = asyncio.Event()
        self.app = Starlette(
            routes=[Route("/search", self._search), Route("/health/ready", self._ready)]
        )

    async def _search(self, request: Request) -> Response:
        query = request.query_params["q"]
        self.searches.append(query)
        if self.before:
            early = self.before.pop(0)
            if early is not None:
                return early
            await self.loaded.wait()
        number = int(query.split()[1])
        return JSONResponse({"ids": [f"d{number}"]})

    async def _ready(self, _request: Request) -> Response:
        self.ready_checks += 1
        return Response("", 404) if self.ready is None else self.ready


def config_of(url: str, **settings: Any) -> RunConfig:
    return RunConfig(target=f"rest:{url}/search?q={{query}}", mapping=("ids=ids",), **settings)


async def evaluated(
    service: Service, size: int, out: Path, **settings: Any
) -> tuple[Run, list[str]]:
    """A run of `size` queries, and what was said meanwhile."""
    said: list[str] = []
    async with serving(service.app) as url:
        config, data = config_of(url, **settings), tiny_dataset(size)
        events = Events(message=said.append)
        run = await Evaluation.plan(config, data).start(open_agent(config, data), out, events)
    return run, said


def warm_up_of(run: Run) -> WarmUpRecord:
    assert run.report.pacing is not None
    assert run.report.pacing.warm_up is not None
    return run.report.pacing.warm_up


def busy() -> Response:
    return JSONResponse({"detail": "loading"}, 503)


@pytest.mark.parametrize(
    "early",
    [[busy() for _ in range(3)], [JSONResponse({"error": "the model is still loading"}, 500)]],
    ids=["503", "says so"],
)
async def test_an_agent_that_is_starting_scores_as_if_it_were_ready(
    tmp_path: Path, early: list[Response | None]
) -> None:
    run, said = await evaluated(Service(early), 4, tmp_path, retries=0, concurrency=1)
    assert run.report.metrics["mrr@5"] == 1
    assert said[0].startswith("waiting until the agent is ready (HTTP 50")
    assert "no score or latency includes" in said[-1]


async def test_an_agent_that_hangs_at_first_is_not_timed_for_it(tmp_path: Path) -> None:
    service = Service([None])
    asyncio.get_running_loop().call_later(1.8, service.loaded.set)
    run, _ = await evaluated(service, 4, tmp_path, timeout=1.5, retries=0)
    assert run.report.failures == {}
    assert run.report.latency_ms.max < 1500
    assert len(service.searches) == 5


@pytest.mark.parametrize(
    ("ready", "settings", "way", "searches"),
    [
        (JSONResponse({"status": "ready"}), {}, "readiness", 3),
        (HTMLResponse("<html>"), {}, "call", 4),  # a page for every path says nothing
        (None, {"warm_up": 0}, None, 3),
    ],
    ids=["ready", "page", "off"],
)
async def test_what_is_sent_before_the_first_query_is_recorded_and_no_call_of_the_run(
    tmp_path: Path, ready: Response | None, settings: dict[str, Any], way: str | None, searches: int
) -> None:
    service = Service([], ready=ready)
    run, said = await evaluated(service, 6, tmp_path, num_queries=3, **settings)
    assert (len(service.searches), said) == (searches, [])  # it took less than five seconds
    assert len(run.folder.calls_file.read_text().splitlines()) == 3
    pacing = run.report.pacing
    assert (pacing and pacing.warm_up and pacing.warm_up.way) == way
    if way == "call":
        # A query of the data set that the run does not ask: a cache answers no timed query.
        assert service.searches[0] not in service.searches[1:]
        assert (warm_up_of(run).ready, warm_up_of(run).calls) == (True, 1)


@pytest.mark.parametrize(
    ("ready", "before", "why"),
    [
        (JSONResponse({"index": "failed: no model"}, 503), [], "failed: no model"),
        (busy(), [], "HTTP 503 from /health/ready"),
        (None, [JSONResponse({"error": "bad key"}, 401)], "HTTP 401"),
    ],
    ids=["failed", "loading for ever", "refused"],
)
async def test_a_warm_up_that_fails_does_not_end_the_run(
    tmp_path: Path, ready: Response | None, before: list[Response | None], why: str
) -> None:
    run, said = await evaluated(Service(before, ready=ready), 3, tmp_path, warm_up=1)
    assert run.state == "complete"
    assert run.report.summary.successful_queries == 3
    assert why in said[-1]
    assert said[-1].startswith("warning: the agent may not be ready")
    assert not warm_up_of(run).ready
    assert why in warm_up_of(run).message


@pytest.mark.parametrize("ready", [None, JSONResponse({"status": "ready"})], ids=["call", "ready"])
async def test_an_agent_that_refuses_every_credential_is_asked_no_further(
    tmp_path: Path, ready: Response | None
) -> None:
    service = Service([JSONResponse({"error": "bad key"}, 401)] * 7, ready=ready)
    data = tiny_dataset(20)
    async with serving(service.app) as url:
        config = config_of(url, concurrency=1)
        plan = Evaluation.plan(config, data)
        with pytest.raises(TargetError, match="HTTP 401 for 5 queries in a row") as refusal:
            await plan.start(open_agent(config, data), tmp_path)
        assert "--header 'Authorization: Bearer $TOKEN', then continue with" in str(refusal.value)
        assert "; it said: bad key; " in str(refusal.value)
        assert len(service.searches) == 5 + (ready is None)
        # Nothing of the refusals is left once the token is right.
        (folder,) = list_runs(tmp_path)
        assert str(refusal.value).endswith(f"--resume {folder.name}")
        service.before.clear()
        run = await plan.resume(open_agent(config, data), folder)
    assert run.report.failures == {}
    assert run.report.summary.successful_queries == 20


class Gateway:
    """503 for everything, or no response, so many times; then the app."""

    def __init__(self, app: Any, times: int, *, silent: bool = False) -> None:
        self.app, self.times, self.silent = app, times, silent

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http" and self.times:
            self.times -= 1
            while self.silent and (await receive())["type"] != "http.disconnect":
                pass
            await busy()(scope, receive, send)
        else:
            await self.app(scope, receive, send)


async def find(query: str) -> list[str]:
    return [f"d{query.split()[1]}"]


async def test_an_agent_that_shows_progress_is_waited_for_longer(tmp_path: Path) -> None:
    service = Service([])

    async def loading(_request: Request) -> Response:
        service.ready_checks += 1
        if service.ready_checks > 5:  # by then, more than twice the warm-up has passed
            return JSONResponse({"status": "ready"})
        stage = {"what": "embedding", "done": service.ready_checks, "total": 5}
        return JSONResponse({"index": "loading", "stage": stage}, 503)

    service.app.router.routes.insert(0, Route("/health/ready", loading))
    run, said = await evaluated(service, 2, tmp_path, warm_up=1.5)
    assert warm_up_of(run).ready
    assert warm_up_of(run).seconds > 1.5
    assert said[0].startswith("waiting until the agent is ready (embedding), at most ")


@pytest.mark.parametrize("silent", [False, True], ids=["503", "silent"])
async def test_an_agent_that_only_listens_or_whose_proxy_is_up_first_is_waited_for(
    silent: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("assay.targets.a2a._CARD_SECONDS", 1.0)
    data = tiny_dataset(3)
    said: list[str] = []
    async with serving(Gateway(purple_app(finds(find)), 1 + (not silent), silent=silent)) as url:
        config = RunConfig(target=f"a2a:{url}", retries=0)
        run = await Evaluation.plan(config, data).start(
            open_agent(config, data), tmp_path, events=Events(message=said.append)
        )
    assert run.report.failures == {}
    assert said[0].startswith("waiting for the agent, at most 300 s: ")
    assert "the agent is still starting" in said[0]


async def test_a_warm_up_can_be_interrupted(tmp_path: Path) -> None:
    stop = asyncio.Event()
    service = Service([], ready=busy())

    def say(_message: str) -> None:
        stop.set()

    async with serving(service.app) as url:
        config, data = config_of(url), tiny_dataset(3)
        with pytest.raises(KeyboardInterrupt, match="interrupted before the first response"):
            await Evaluation.plan(config, data).start(
                open_agent(config, data), tmp_path, events=Events(message=say, stop=stop)
            )
    assert service.searches == []
