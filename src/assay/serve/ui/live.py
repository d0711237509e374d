"""How far a run is, read from its `calls.jsonl` while another process writes it."""

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from math import ceil
from pathlib import Path
from typing import Any

import orjson
from sse_starlette import EventSourceResponse
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from assay.data.dataset import Dataset
from assay.evaluation.asking import Call
from assay.evaluation.call_log import from_json
from assay.evaluation.live import LiveFigures, Tick
from assay.evaluation.plan import draw_queries
from assay.evaluation.run_folder import RunFolder
from assay.files import is_locked
from assay.report.numbers import count, counted, duration, figure
from assay.serve.ui.context import Ui, ui_of

_INTERVAL_S = 0.5
_PING_S = 15


def live_routes() -> list[BaseRoute]:
    return [Route("/runs/{name}/events", events)]


async def events(request: Request) -> Response:
    ui = ui_of(request)
    _, folder = await ui.run(request)
    return event_stream(follow(ui, folder))


class LiveRun:
    """Reads what has been added to the log since the last look, never the whole again."""

    def __init__(self, folder: RunFolder, dataset: Dataset | None) -> None:
        self._folder = folder
        self._tail = CallTail(folder.calls)
        self._config = folder.read_config()
        self._done = self._failed = 0
        self._at = 0.0
        self._tick: Tick | None = None
        self._total = self._config.num_queries
        self._figures: LiveFigures | None = None
        if dataset is not None:
            self._total = len(draw_queries(dataset, self._config))
            self._figures = LiveFigures(self._config, dataset, self._total, self._note)

    def look(self) -> dict[str, Any]:
        """Words for a page: every figure is written here, none by the page."""
        calls = self._tail.read()
        self._done += len(calls)
        self._failed += sum(call.failure is not None for call in calls)
        self._at = max([self._at, *(call.at for call in calls)])
        if self._figures is not None and calls:
            self._figures.catch_up(calls)
        share = self._done / self._total if self._total else None
        return {
            "share": share,
            "done": f"{count(self._done)} of {count(self._total)}"
            if self._total
            else count(self._done),
            "mean": f"{self._tick.metric} {figure(self._tick.mean)}" if self._tick else "",
            "failed": counted(self._failed, "failure"),
            "left": self._left(share),
        }

    def _left(self, share: float | None) -> str:
        if not share or share >= 1 or not self._at:
            return ""
        seconds = self._at / share * (1 - share)
        return f"about {f'{ceil(seconds)} s' if seconds < 60 else duration(seconds)} left"

    def _note(self, tick: Tick) -> None:
        self._tick = tick


class CallTail:
    """The complete lines that a growing log has gained; a torn last one waits for its end."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0

    def read(self) -> list[Call]:
        if not self._path.exists():
            return []
        with self._path.open("rb") as log:
            log.seek(self._offset)
            content = log.read()
        end = content.rfind(b"\n") + 1
        self._offset += end
        return [from_json(orjson.loads(line)) for line in content[:end].splitlines()]


def event_stream(views: AsyncIterator[dict[str, Any]]) -> Response:
    """`progress` events, then one `final` with the address to go to."""

    async def events() -> AsyncIterator[dict[str, str]]:
        async for view in views:
            name = "final" if "location" in view else "progress"
            yield {"event": name, "data": orjson.dumps(view).decode()}

    return EventSourceResponse(events(), sep="\n", ping=_PING_S)


async def follow(ui: Ui, folder: RunFolder) -> AsyncIterator[dict[str, Any]]:
    """A view twice a second while the run is being written; the last one has a `location`."""
    dataset = await ui.datasets.of(folder.read_header())
    live = await asyncio.to_thread(LiveRun, folder, dataset)
    while True:
        started = time.monotonic()
        going_on = is_locked(folder.calls)
        view = await asyncio.to_thread(live.look)
        if not going_on:
            yield {**view, "location": f"/runs/{folder.name}"}
            return
        yield view
        await asyncio.sleep(max(0.0, _INTERVAL_S - (time.monotonic() - started)))


def last_look(folder: RunFolder, dataset: Dataset | None) -> Mapping[str, Any]:
    """The same view once, for pages that are read without a script."""
    return LiveRun(folder, dataset).look()
