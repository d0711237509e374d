"""A search box over the reference index, which shows what each signal found."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from assay.errors import AssayError
from assay.search.retriever import Hit
from assay.serve.ui.context import ui_of
from assay.serve.ui.live import event_stream
from assay.serve.ui.search_desk import MODES, SearchDesk

_PAUSE_S = 0.4


@dataclass(frozen=True, slots=True)
class Found:
    hits: list[Hit]
    signals: list[str]
    """Those that found anything, the most telling first."""


def search_routes() -> list[BaseRoute]:
    return [
        Route("/search", search),
        Route("/search/open", open_index, methods=["POST"]),
        Route("/search/events", events),
    ]


async def search(request: Request) -> Response:
    ui = ui_of(request)
    query, mode = request.query_params.get("q", ""), request.query_params.get("mode", MODES[0])
    found, problem = None, ""
    if query.strip() and ui.search.status == "ready":
        try:
            found = _found(await ui.search.search(query, mode))
        except AssayError as error:
            problem = str(error)
    return ui.page(
        request,
        "search.html",
        status=422 if problem else 200,
        query=query,
        mode=mode,
        modes=await ui.search.modes(),
        desk=ui.search,
        found=found,
        problem=problem,
        events=f"/search/events?{urlencode({'q': query, 'mode': mode})}",
    )


async def open_index(request: Request) -> Response:
    ui = ui_of(request)
    given = await ui.form(request)
    ui.search.open()
    wanted = {"q": given.get("q", ""), "mode": given.get("mode", MODES[0])}
    return RedirectResponse(f"/search?{urlencode(wanted)}", 303)


async def events(request: Request) -> Response:
    return event_stream(_stages(ui_of(request).search, f"/search?{request.url.query}"))


async def _stages(desk: SearchDesk, location: str) -> AsyncIterator[dict[str, Any]]:
    while desk.status == "loading":
        stage = desk.stage
        done, total = stage.get("done"), stage.get("total")
        yield {
            "message": stage.get("what", "opening"),
            "share": done / total if done is not None and total else None,
            "done": f"{done:,} of {total:,}" if done is not None and total else "",
        }
        await asyncio.sleep(_PAUSE_S)
    yield {"location": location}


def _found(hits: list[Hit]) -> Found:
    return Found(hits, list(dict.fromkeys(signal for hit in hits for signal in hit.signals)))
