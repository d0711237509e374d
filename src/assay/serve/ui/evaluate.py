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
from assay.targets.target_kinds import TARGET_KINDS, parse_target

FILLED_WITH = "settings_of"
"""The field with the name of the target of assay.toml whose settings the form was filled with."""

_PAUSE_S = 0.4
_CANCELING = "canceling"
# Settings of a target that are sent to a baseline as well.
_SENT = ("headers", "request")


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
    given = {**form_defaults(), "judge": environment_judge()}
    return _form_page(request, ui, given | fields_of_target(ui, asked.get("target", "")) | asked)


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
    while not started.ended and not await _is_running(ui, started):
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
    groups = {title: [s for s in form_settings() if s.group == title] for title in _GROUPS}
    examples = [one for kind in TARGET_KINDS.values() for one in kind.examples]
    known = sorted({line.target for line in ui.index.lines() if line.target})
    allowed = [e for e in examples if _holds(partial(require_permitted, e, ui.policy))]
    named = allowed_targets(ui)
    return ui.page(
        request,
        "evaluate.html",
        status=422 if problems else 200,
        given=given,
        groups={title: settings for title, settings in groups.items() if settings},
        defaults=form_defaults(),
        problems=problems or {},
        named=named,
        targets=dict.fromkeys([*named, *allowed, *known]),
        datasets=KNOWN,
        tried=tried,
    )


_GROUPS = get_args(Group)


def _holds(check: Callable[[], object]) -> bool:
    try:
        check()
    except AssayError:
        return False
    return True


def form_defaults() -> dict[str, str]:
    """The text of every field before anybody fills it in."""
    return form_fields(RunConfig(target=""))


def environment_judge() -> str:
    """The judge that the environment names: it is shown in the form before it is used."""
    from assay.llm.providers.opening import configured_spec

    spec = configured_spec() or ""
    return "" if spec == EXTRACTIVE else spec


def read_config(ui: Ui, given: Mapping[str, str]) -> RunConfig:
    """The settings of a form. Raises `UsageError` for what the run itself would refuse."""
    fields = with_named_target(ui, given)
    if not fields.get("answers") and fields.get("judge", "").strip() == environment_judge():
        fields["judge"] = ""  # it was filled in by default, and the visitor did not request answers
    return read_form(fields)


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


def with_named_target(ui: Ui, given: Mapping[str, str]) -> dict[str, str]:
    """The form with the settings of a target of assay.toml, if its name was entered.

    What the visitor has changed wins over the file. A form that was filled in with these settings
    (`FILLED_WITH`) lacks only those that may hold secrets.
    """
    target = given.get("target", "").strip()
    config = ui.named.get(target)
    if config is None:
        return dict(given)
    defaults, fields = form_defaults(), form_fields(config)
    for name in MAY_HOLD_SECRETS:
        value = getattr(config, name)
        fields[name] = "\n".join(map(full_text, [value] if isinstance(value, str) else value))
    own = {
        name: text
        for name, text in fields.items()
        if text != defaults[name]
        and given.get(name, defaults[name]) in ("", defaults[name])
        and (given.get(FILLED_WITH) != target or name in MAY_HOLD_SECRETS)
    }
    baseline, sent = given.get("baseline", "").strip(), [name for name in _SENT if name in own]
    may_tell = sent and baseline and ui.policy.public_only
    if may_tell and not TARGET_KINDS[parse_target(baseline).kind].sends_nothing:
        raise UsageError(
            f"baseline must be a builtin: target here, because the {' and '.join(sent)} of "
            "assay.toml would be sent to it"
        )
    return {**given, **own, "target": fields["target"]}


def fields_of_target(ui: Ui, target: str) -> dict[str, str]:
    """The fields that a target of assay.toml fills in, without what may be secret."""
    if target not in allowed_targets(ui):
        return {}
    defaults, fields = form_defaults(), form_fields(ui.named[target])
    own = {name: text for name, text in fields.items() if text != defaults[name]}
    return {FILLED_WITH: target} | {n: t for n, t in own.items() if n not in MAY_HOLD_SECRETS}


def allowed_targets(ui: Ui) -> dict[str, str]:
    """The targets of assay.toml that may be evaluated here, as they are shown."""
    return {
        name: str(config.target)
        for name, config in ui.named.items()
        if all(_holds(check) for _, check in checks_of(config, ui.policy))
    }


def repeat_query(config: RunConfig) -> str:
    """The query of the address at which the form is filled in as for this run.

    Fields with their defaults are left out, but for the judge, which the environment may name.
    """
    defaults = form_defaults()
    fields = {
        name: str(text)
        for name, text in form_fields(config).items()
        if text != defaults[name] or (name == "judge" and config.answers)
    }
    return urlencode(fields)
