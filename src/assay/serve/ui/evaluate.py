"""The form that starts an evaluation, the page that follows it, and the button that cancels it.

The fields of the form are those of the table of options: a new option appears here by itself.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import get_args
from urllib.parse import urlencode

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from assay.data.load import KNOWN
from assay.errors import AssayError, UsageError
from assay.llm.passages import EXTRACTIVE
from assay.net.redact import full_text
from assay.run.config import MAY_HOLD_SECRETS, RunConfig
from assay.run.folder import RunFolder
from assay.run.option import Group
from assay.run.settings import form_fields, form_settings, read_form
from assay.run.state import RunState
from assay.serve.ui.check import (
    TRY_TIMEOUT_S,
    TriedQuery,
    checks_of,
    require_permitted,
    try_query,
)
from assay.serve.ui.context import Ui, ui_of
from assay.serve.ui.evaluations import ProgressView, StartedEvaluation, event_stream, follow
from assay.targets.target_kinds import TARGET_KINDS

_PAUSE_S = 0.4
_CANCELING = "canceling"


def evaluation_routes() -> list[BaseRoute]:
    """The form, and for each evaluation its page, its progress and its cancel button."""
    return [
        Route("/evaluate", evaluate_page, methods=["GET"]),
        Route("/evaluate", start_evaluation, methods=["POST"]),
        Route("/evaluations/new", lambda request: RedirectResponse("/evaluate", 308)),
        Route("/evaluations/{id}", evaluation_page),
        Route("/evaluations/{id}/events", evaluation_events),
        Route("/evaluations/{id}/cancel", cancel_evaluation, methods=["POST"]),
    ]


async def evaluate_page(request: Request) -> Response:
    """The form, filled in from the address."""
    ui = ui_of(request)
    await ui.refresh()
    asked = dict(request.query_params)
    shown = {"judge": environment_judge()}
    if named := ui.named.get(asked.get("target", "")):
        fields, defaults = form_fields(named), form_fields(RunConfig(target=""))
        own = fields.keys() - MAY_HOLD_SECRETS
        shown |= {name: fields[name] for name in own if fields[name] != defaults[name]}
    return _form_page(request, ui, form_fields(RunConfig(target="")) | shown | asked)


async def start_evaluation(request: Request) -> Response:
    """Start an evaluation, or try one query on its target, or say what is wrong with the form."""
    ui = ui_of(request)
    given = await ui.form(request)
    trying, query = given.pop("try", ""), given.pop("query", "").strip()
    problems = await asyncio.to_thread(form_problems, ui, given)
    if problems:
        return _form_page(request, ui, given, problems)
    config = read_config(ui, given)
    try:
        if trying:
            async with asyncio.timeout(TRY_TIMEOUT_S):
                tried = await try_query(config, query, ui.policy)
            return _form_page(request, ui, given, tried=tried)
        started = await ui.evaluations.start(config)
    except TimeoutError:
        words = f"the agent did not respond within {TRY_TIMEOUT_S:g} s"
        return _form_page(request, ui, given, {"target": words})
    except AssayError as error:
        return _form_page(request, ui, given, {"": str(error)})
    return RedirectResponse(f"/evaluations/{started.id}", 303)


async def evaluation_page(request: Request) -> Response:
    """How far an evaluation is; its run when it has ended."""
    ui, started = ui_of(request), _started(request)
    await _find_run(ui, started)
    if started.ended and started.run is not None:
        return RedirectResponse(f"/runs/{started.run}", 303)
    return ui.page(
        request,
        "evaluation.html",
        started=started,
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
    while not started.ended:
        await _find_run(ui, started)
        line = ui.index.get(started.run) if started.run else None
        if line is not None and line.state == RunState.RUNNING:
            break
        yield replace(view, message=started.message, log=started.output)
        await asyncio.sleep(_PAUSE_S)
    if not started.ended and started.run is not None:
        folder = RunFolder(ui.runs / started.run)
        dataset = await ui.dataset(folder.read_header())
        async for view in follow(folder, dataset):
            yield replace(view, message=_CANCELING if started.canceled else view.message)
    while not started.ended:
        yield replace(view, message=_CANCELING if started.canceled else started.message)
        await asyncio.sleep(_PAUSE_S)


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
    groups = {title: [s for s in form_settings() if s.group == title] for title in get_args(Group)}
    examples = [one for kind in TARGET_KINDS.values() for one in kind.examples]
    known = sorted({line.target for line in ui.index.lines() if line.target})
    allowed = [e for e in examples if _holds(partial(require_permitted, e, ui.policy))]
    return ui.page(
        request,
        "evaluate.html",
        status=422 if problems else 200,
        given=given,
        groups={title: settings for title, settings in groups.items() if settings},
        defaults=form_fields(RunConfig(target="")),
        problems=problems or {},
        named={name: str(config.target) for name, config in ui.named.items()},
        targets=dict.fromkeys([*ui.named, *allowed, *known]),
        datasets=KNOWN,
        tried=tried,
    )


def _holds(check: Callable[[], object]) -> bool:
    try:
        check()
    except AssayError:
        return False
    return True


def environment_judge() -> str:
    """The judge that the environment names: it is shown in the form before it is used."""
    from assay.llm.providers.opening import configured_spec

    spec = configured_spec() or ""
    return "" if spec == EXTRACTIVE else spec


def read_config(ui: Ui, given: Mapping[str, str]) -> RunConfig:
    """The settings of a form. Raises `UsageError` for what the run would refuse.

    If a target of assay.toml was entered, the file gives its address and what may hold secrets.
    """
    given = dict(given)
    if not given.get("answers") and given.get("judge", "").strip() == environment_judge():
        given["judge"] = ""  # it was filled in by default, and the visitor did not request answers
    named = ui.named.get(given.get("target", "").strip())
    if named is None:
        return read_form(given)
    defaults, fields = form_fields(RunConfig(target="")), form_fields(named)
    for name in MAY_HOLD_SECRETS:  # the page does not show these
        value = getattr(named, name)
        fields[name] = "\n".join(map(full_text, [value] if isinstance(value, str) else value))
    own = {n: fields[n] for n in MAY_HOLD_SECRETS if given.get(n, "") in ("", defaults[n])}
    return read_form({**given, **own, "target": fields["target"]})


def form_problems(ui: Ui, given: Mapping[str, str]) -> dict[str, str]:
    """What is wrong with a form, by the name of the field; "" for what is about several."""
    problems = {}
    for setting in form_settings():
        try:
            if setting.name in given:
                setting.require_range(setting.parse(given[setting.name]))
        except UsageError as error:
            problems[setting.name] = str(error)
    if problems:
        return problems
    try:
        config = read_config(ui, given)
    except AssayError as error:
        first = str(error).partition(" ")[0]  # messages begin with the name of the setting
        fields = (each.name for each in form_settings() if each.name in (first, f"{first}s"))
        return {next(fields, ""): str(error)}
    for name, check in checks_of(config, ui.policy):
        try:
            check()
        except AssayError as error:
            problems.setdefault(name, str(error))
    return problems


def repeat_query(config: RunConfig) -> str:
    """The query of the address at which the form is filled in as for this run.

    Fields with their defaults are left out, but for the judge, which the environment may name.
    """
    defaults = form_fields(RunConfig(target=""))
    fields = {
        name: str(text)
        for name, text in form_fields(config).items()
        if text != defaults[name] or (name == "judge" and config.answers)
    }
    return urlencode(fields)
