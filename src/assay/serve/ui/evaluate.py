"""The form that starts an evaluation, the page that follows it, and the button that cancels it."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from assay.data.load import KNOWN
from assay.errors import AssayError
from assay.run.folder import RunFolder
from assay.run.state import RunState
from assay.serve.ui.check import LONGEST_S, TargetRules, TriedQuery, try_query
from assay.serve.ui.context import Ui, ui_of
from assay.serve.ui.evaluation_form import (
    SHOWN,
    allowed_targets,
    environment_judge,
    form_defaults,
    form_groups,
    form_problems,
    in_web_words,
    read_config,
    repeat_query,
    shown_settings,
    unchecked,
    with_named_target,
)
from assay.serve.ui.evaluations import ProgressView, StartedEvaluation, event_stream, follow

_PAUSE_S = 0.4
_CANCELING = "canceling"


def evaluation_routes() -> list[BaseRoute]:
    """The form, and for each evaluation its page, its progress and its cancel button."""
    return [
        Route("/evaluate", evaluate_page, methods=["GET"]),
        Route("/evaluate", start_evaluation, methods=["POST"]),
        Route("/evaluate/problems", validate_form, methods=["POST"]),
        *(Route(path, _moved) for path in ("/evaluations/new", "/search", "/check")),
        Route("/evaluations/{id}", evaluation_page),
        Route("/evaluations/{id}/events", evaluation_events),
        Route("/evaluations/{id}/cancel", cancel_evaluation, methods=["POST"]),
    ]


async def _moved(request: Request) -> Response:
    query = f"?{request.url.query}" if request.url.query else ""
    return RedirectResponse(f"/evaluate{query}", 308)


async def evaluate_page(request: Request) -> Response:
    """The form, filled in from the address."""
    ui = ui_of(request)
    await ui.refresh()
    asked = dict(request.query_params)
    given = {**form_defaults(), "judge": environment_judge()}
    return _form_page(request, ui, given | shown_settings(ui, asked.get("target", "")) | asked)


async def start_evaluation(request: Request) -> Response:
    """Start an evaluation, or try one query on its target, or say what is wrong with the form."""
    ui = ui_of(request)
    given = await ui.form(request)
    trying, query = given.pop("try", ""), given.pop("query", "").strip()
    shown = {**unchecked(form_defaults()), **given}
    problems = await asyncio.to_thread(form_problems, ui, given)
    if problems:
        return _form_page(request, ui, shown, problems)
    config = read_config(with_named_target(ui, given))
    try:
        if trying:
            async with asyncio.timeout(LONGEST_S):
                tried = await try_query(config, query, ui.policy)
            return _form_page(request, ui, shown, tried=tried)
        started = await ui.evaluations.start(config)
    except TimeoutError:
        words = f"the agent did not respond within {LONGEST_S:g} s"
        return _form_page(request, ui, shown, {"target": words})
    except AssayError as error:
        return _form_page(request, ui, shown, {"": in_web_words(str(error))})
    return RedirectResponse(f"/evaluations/{started.id}", 303)


async def validate_form(request: Request) -> Response:
    """What is wrong with a form, by field, while it is filled in. Nothing is started."""
    ui = ui_of(request)
    given = await ui.form(request)
    return JSONResponse(await asyncio.to_thread(form_problems, ui, given))


async def evaluation_page(request: Request) -> Response:
    """How far an evaluation is; its run where it has ended."""
    ui, started = ui_of(request), _started(request)
    await _find_run(ui, started)
    if started.ended and started.run is not None:
        return RedirectResponse(f"/runs/{started.run}", 303)
    return ui.page(
        request,
        "evaluation.html",
        started=started,
        failure=in_web_words(started.message),
        view=ProgressView(message=started.message, log=started.output),
        again=repeat_query(started.config),
    )


async def evaluation_events(request: Request) -> Response:
    """The progress of an evaluation, as server-sent events."""
    ui, started = ui_of(request), _started(request)
    return event_stream(_follow(ui, started), f"/evaluations/{started.id}")


async def cancel_evaluation(request: Request) -> Response:
    """Cancel an evaluation: what was answered is reported and kept."""
    await ui_of(request).form(request)
    started = _started(request)
    started.cancel()
    return RedirectResponse(f"/evaluations/{started.id}", 303)


async def _follow(ui: Ui, started: StartedEvaluation) -> AsyncIterator[ProgressView]:
    """What the process says while it starts, the progress of its run, then what it says again.

    After its run, the process examines the answers or asks the baseline.
    """
    view = ProgressView()
    while not started.ended and not await _is_running(ui, started):
        yield replace(view, message=started.message, log=started.output)
        await asyncio.sleep(_PAUSE_S)
    if not started.ended and started.run is not None:
        folder = RunFolder(ui.runs / started.run)
        dataset = await ui.datasets.of(folder.read_header())
        async for view in follow(folder, dataset):
            yield replace(view, message=_CANCELING if started.canceled else view.message)
    while not started.ended:
        yield replace(view, message=_CANCELING if started.canceled else started.message)
        await asyncio.sleep(_PAUSE_S)


async def _is_running(ui: Ui, started: StartedEvaluation) -> bool:
    await _find_run(ui, started)
    line = ui.index.get(started.run) if started.run else None
    return line is not None and line.state == RunState.RUNNING


async def _find_run(ui: Ui, started: StartedEvaluation) -> None:
    await ui.refresh()
    line = ui.index.of_process(started.process.pid, started.since)
    started.run = line.name if line else None


def _started(request: Request) -> StartedEvaluation:
    started = ui_of(request).evaluations.get(request.path_params["id"])
    if started is None:
        raise HTTPException(404, "no such evaluation; look for its run in the list of runs")
    return started


def _form_page(
    request: Request,
    ui: Ui,
    given: Mapping[str, str],
    problems: Mapping[str, str] | None = None,
    tried: TriedQuery | None = None,
) -> Response:
    found = problems or {}
    allowed = allowed_targets(ui)
    known = sorted({line.target for line in ui.index.lines() if line.target})
    return ui.page(
        request,
        "evaluate.html",
        status=422 if found else 200,
        target=given.get("target", ""),
        settings_of=given.get(SHOWN, ""),
        groups=form_groups(given, found),
        problems=found,
        named=allowed,
        targets=list(dict.fromkeys([*allowed, *TargetRules(ui.policy).examples(), *known])),
        datasets=list(KNOWN),
        tried=tried,
    )
