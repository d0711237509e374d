"""The form that starts an evaluation, the page that follows it, and the button that ends it."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any
from urllib.parse import urlencode

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from assay.data.load import KNOWN
from assay.errors import AssayError
from assay.evaluation.plan import TRACKS
from assay.evaluation.run_folder import RunFolder
from assay.evaluation.run_lines import RUNNING
from assay.serve.ui.context import Ui, ui_of
from assay.serve.ui.evaluation_form import (
    DEFAULTS,
    defaults,
    form_fields,
    read_config,
    require_model,
)
from assay.serve.ui.evaluations import Started
from assay.serve.ui.live import event_stream, follow

_PAUSE_S = 0.4


def start_routes() -> list[BaseRoute]:
    return [
        Route("/evaluations/new", form),
        Route("/evaluations", start, methods=["POST"]),
        Route("/evaluations/{id}", show),
        Route("/evaluations/{id}/events", events),
        Route("/evaluations/{id}/cancel", cancel, methods=["POST"]),
    ]


async def form(request: Request) -> Response:
    ui = ui_of(request)
    await ui.refresh()
    given = {name: request.query_params.get(name, value) for name, value in defaults().items()}
    return _form_page(request, ui, given)


async def start(request: Request) -> Response:
    ui = ui_of(request)
    given = {**DEFAULTS, **await ui.form(request)}
    try:
        config = read_config(given)
        ui.rules.check_target(config.target)
        ui.rules.check_dataset(config.dataset)
        if config.baseline:
            ui.rules.check_target(config.baseline)
        ui.rules.check_judge(config.judge)
        require_model(config.judge)
        started = await ui.evaluations.start(config)
    except AssayError as error:
        return _form_page(request, ui, given, problem=str(error))
    return RedirectResponse(f"/evaluations/{started.id}", 303)


async def show(request: Request) -> Response:
    ui, started = ui_of(request), _started(request)
    await _find_run(ui, started)
    if started.ended and started.run is not None:
        return RedirectResponse(f"/runs/{started.run}", 303)
    again = urlencode(form_fields(started.config.to_json()))
    return ui.page(request, "evaluation.html", started=started, again=again)


async def events(request: Request) -> Response:
    return event_stream(_follow(ui_of(request), _started(request)))


async def cancel(request: Request) -> Response:
    await ui_of(request).form(request)
    started = _started(request)
    started.cancel()
    return RedirectResponse(f"/evaluations/{started.id}", 303)


async def _follow(ui: Ui, started: Started) -> AsyncIterator[dict[str, Any]]:
    """What the process says while it makes itself ready, then how far the run is, and what the
    process says while it examines the answers or asks the baseline.
    """
    while not started.ended and not await _is_running(ui, started):
        yield {"message": started.message}
        await asyncio.sleep(_PAUSE_S)
    if not started.ended and started.run is not None:
        async for view in follow(ui, RunFolder(ui.runs / started.run)):
            if "location" not in view:
                yield {**view, "message": "being canceled" if started.canceled else "asking"}
    while not started.ended:
        yield {"message": "being canceled" if started.canceled else started.message}
        await asyncio.sleep(_PAUSE_S)
    yield {"location": f"/evaluations/{started.id}"}


async def _is_running(ui: Ui, started: Started) -> bool:
    await _find_run(ui, started)
    line = ui.index.get(started.run) if started.run else None
    return line is not None and line["state"] == RUNNING


async def _find_run(ui: Ui, started: Started) -> None:
    await ui.refresh()
    line = ui.index.of_process(started.process.pid, started.since)
    started.run = line["name"] if line else None


def _started(request: Request) -> Started:
    started = ui_of(request).evaluations.get(request.path_params["id"])
    if started is None:
        raise HTTPException(404, "there is no such evaluation; its run may be in the list")
    return started


def _form_page(request: Request, ui: Ui, given: Mapping[str, str], problem: str = "") -> Response:
    known = ui.index.choices()["target"]
    return ui.page(
        request,
        "new.html",
        status=422 if problem else 200,
        given=given,
        problem=problem,
        targets=list(dict.fromkeys([*ui.rules.examples(), *known])),
        datasets=list(KNOWN),
        tracks=TRACKS,
    )
