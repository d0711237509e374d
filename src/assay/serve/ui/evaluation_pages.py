"""The form that starts an evaluation, the page that follows it, and the button that cancels it.

The form's fields are those of the table of options: a new option appears here by itself.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, replace
from urllib.parse import urlencode

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from assay.answer.passages import EXTRACTIVE
from assay.data.load import KNOWN
from assay.errors import AssayError, UsageError
from assay.evaluation.gates import parse_gate
from assay.evaluation.plan import http_request_settings
from assay.run.config import RunConfig
from assay.run.folder import RUNNING, RunFolder
from assay.run.options import RunSetting, form_fields, form_settings, read_form
from assay.serve.ui.context import Ui, ui_of
from assay.serve.ui.evaluations import ProgressView, StartedEvaluation, event_stream, follow

_PAUSE_S = 0.4
_CANCELING = "canceling"
_LONG_LABEL = 40
# Settings that are paths on this machine.
_SERVER_FILES = ("ground_truth", "criteria", "nuggets", "judge_calibration")
_COMMAND_LINE = re.compile(r"; exit code \d.*| Repeatable; in the .*| \[env var: \w+\]")
_NEEDED_FLAG = re.compile(r"^With --[a-z-]+: (.)")


@dataclass(frozen=True, slots=True)
class FormField:
    """One field of the form: its setting, its text, and the list that suggests values."""

    setting: RunSetting
    value: str
    suggestions: str = ""

    @property
    def help(self) -> str:
        """The help of the option, without parts that only apply to the command line."""
        words = _COMMAND_LINE.sub("", self.setting.option.help)
        return _NEEDED_FLAG.sub(lambda found: found[1].upper(), words)

    @property
    def wide(self) -> bool:
        """Whether the field takes a row of its own."""
        option = self.setting.option
        return option.widget in ("lines", "checkbox") or len(option.label or "") > _LONG_LABEL

    @property
    def required(self) -> bool:
        """Whether an empty field is an error."""
        return not self.setting.nullable and bool(self.setting.format(self.setting.default))

    @property
    def about_answers(self) -> bool:
        """Whether the field has no meaning unless answers are evaluated."""
        return self.setting.name == "answers" or self.setting.option.needs in ("answers", "judge")


def evaluation_routes() -> list[BaseRoute]:
    """The form, and for each evaluation its page, its progress and its cancel button."""
    return [
        Route("/evaluations/new", new_evaluation_page),
        Route("/evaluations", start_evaluation, methods=["POST"]),
        Route("/evaluations/{id}", evaluation_page),
        Route("/evaluations/{id}/events", evaluation_events),
        Route("/evaluations/{id}/cancel", cancel_evaluation, methods=["POST"]),
    ]


async def new_evaluation_page(request: Request) -> Response:
    """The form, filled in from the address."""
    ui = ui_of(request)
    await ui.refresh()
    given = {**_defaults(), "judge": environment_judge(), **request.query_params}
    return _form_page(request, ui, given)


async def start_evaluation(request: Request) -> Response:
    """Start an evaluation, or show the form again with what is wrong."""
    ui = ui_of(request)
    given = await ui.form(request)
    try:
        config = read_config(given)
        check_allowed(ui, config)
        started = await ui.evaluations.start(config)
    except AssayError as error:
        return _form_page(request, ui, {**_unchecked(_defaults()), **given}, problem=str(error))
    return RedirectResponse(f"/evaluations/{started.id}", 303)


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
        view=ProgressView(message=started.message),
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


def environment_judge() -> str:
    """The judge that the environment names: it is shown in the form before it is used."""
    from assay.answer.providers.opening import configured_spec

    spec = configured_spec() or ""
    return "" if spec == EXTRACTIVE else spec


def read_config(given: Mapping[str, str]) -> RunConfig:
    """The settings of a form. Raises `UsageError` for what the run itself would refuse."""
    fields = dict(given)
    if not fields.get("answers") and fields.get("judge", "").strip() == environment_judge():
        fields["judge"] = ""  # it was filled in by default, and the visitor did not request answers
    config = read_form(fields)
    for gate in config.gates:
        parse_gate(gate, config.top_k, config.compare_to)
    return config


def check_allowed(ui: Ui, config: RunConfig) -> None:
    """Raise `UsageError` for what may not be evaluated from the pages, or could not start."""
    from assay.answer.providers.opening import open_model

    ui.rules.check_target(config.target)
    ui.rules.check_dataset(config.dataset)
    if config.baseline:
        ui.rules.check_target(config.baseline)
    for name in _SERVER_FILES:
        value: str = getattr(config, name)
        if value and ui.rules.policy.public_only:
            raise UsageError(
                f"{name} {value!r} is a file on this server, which remote visitors may not use; "
                "leave it empty, or open the pages on 127.0.0.1"
            )
    ui.rules.check_request(http_request_settings(config), config.mapping)
    ui.rules.check_embedder(config.embedder, config.model, config.device, config.reranker)
    ui.rules.check_judge(config.judge)
    if config.judge:
        open_model(config.judge)  # a wrong name is reported before the run, not after it


def repeat_query(config: RunConfig, hide: Callable[[str], str] = str) -> str:
    """The query of the address at which the form is filled in as for this run.

    Fields with their defaults are left out, but for the judge, which the environment may name.
    `hide` masks secrets in texts.
    """
    defaults = _defaults()
    fields = {
        name: hide(text)
        for name, text in form_fields(config).items()
        if text != defaults[name] or (name == "judge" and config.answers)
    }
    return urlencode(fields)


async def _follow(ui: Ui, started: StartedEvaluation) -> AsyncIterator[ProgressView]:
    """What the process says while it starts, the progress of its run, then what it says again.

    After its run, the process examines the answers or asks the baseline.
    """
    view = ProgressView()
    while not started.ended and not await _is_running(ui, started):
        yield replace(view, message=started.message)
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
    return line is not None and line.state == RUNNING


async def _find_run(ui: Ui, started: StartedEvaluation) -> None:
    await ui.refresh()
    line = ui.index.of_process(started.process.pid, started.since)
    started.run = line.name if line else None


def _started(request: Request) -> StartedEvaluation:
    started = ui_of(request).evaluations.get(request.path_params["id"])
    if started is None:
        raise HTTPException(404, "no such evaluation; look for its run in the list of runs")
    return started


def _defaults() -> dict[str, str]:
    return form_fields(RunConfig(target=""))


def _unchecked(fields: Mapping[str, str]) -> dict[str, str]:
    """Without the boxes: a browser sends nothing for one that is not ticked."""
    boxes = {setting.name for setting in form_settings() if setting.kind is bool}
    return {name: text for name, text in fields.items() if name not in boxes}


def _form_page(request: Request, ui: Ui, given: Mapping[str, str], problem: str = "") -> Response:
    suggestions = {"dataset": "datasets", "baseline": "targets"}
    fields = [
        FormField(setting, given.get(setting.name, ""), suggestions.get(setting.name, ""))
        for setting in form_settings()
    ]
    known = ui.index.choices()["target"]
    return ui.page(
        request,
        "new.html",
        status=422 if problem else 200,
        target=given.get("target", ""),
        fields=fields,
        problem=problem,
        targets=list(dict.fromkeys([*ui.rules.examples(), *known])),
        datasets=list(KNOWN),
    )
