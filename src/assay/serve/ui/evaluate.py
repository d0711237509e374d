"""The form that starts an evaluation, the page that waits for its run, and the cancel button.

The fields of the form are those of the table of options: a new option appears here by itself.

Users of the pages on loopback could type the same in a terminal. Beyond loopback, a target must run
no code, start no process and read no file here, and every host that it contacts must be one that
the operator of the server has named. What a target does, its kind says.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Mapping
from functools import partial
from typing import Any, get_args
from urllib.parse import urlencode

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from assay.contract.check import check_agent, parse_check_target
from assay.data import load_dataset
from assay.data.dataset import Dataset
from assay.data.load import KNOWN
from assay.data.public_sources import offline
from assay.errors import AssayError, DownloadError, UsageError
from assay.evaluation.gates import parse_gate
from assay.evaluation.plan import check_target_health, http_request_settings, require_used_settings
from assay.llm.passages import EXTRACTIVE
from assay.net.outbound import OutboundPolicy, split_address
from assay.net.redact import full_text, reveal
from assay.report.html import JudgedDocuments
from assay.run.config import (
    MAY_HOLD_SECRETS,
    RunConfig,
    form_fields,
    form_settings,
    read_form,
    settings,
)
from assay.run.folder import is_path
from assay.run.option import Group
from assay.search.retriever import check_request
from assay.serve.ui.context import Ui, posted, ui_of
from assay.serve.ui.evaluations import ProgressView, StartedEvaluation, event_stream
from assay.targets.health_check import query_of
from assay.targets.rest import require_public
from assay.targets.target_kinds import (
    TARGET_KINDS,
    check_permitted,
    parse_target,
    provider_addresses,
    provider_files,
)

TRY_TIMEOUT_S = 240.0
_MAX_HITS = 10
_PAUSE_S = 0.4
_LISTS = {"dataset": "datasets", "baseline": "targets"}  # suggestions for a field
# A mapping may have blanks around its expression.
_REGULAR_EXPRESSION = re.compile(r"=\s*re:")


def evaluate_page(request: Request) -> Response:
    """The form, filled in from the address."""
    ui = ui_of(request)
    ui.index.refresh()
    asked, defaults = dict(request.query_params), form_fields(RunConfig(target=""))
    shown = defaults | {"judge": environment_judge()}
    if named := ui.named.get(asked.get("target", "")):
        for name, text in form_fields(named).items():
            if name not in MAY_HOLD_SECRETS and text != defaults[name]:
                shown[name] = text
    return _form_page(request, shown | asked)


async def start_evaluation(request: Request) -> Response:
    """Start an evaluation, or try one query on its target, or say what is wrong with the form."""
    ui, given = ui_of(request), dict(await posted(request))
    trying, query = given.pop("try", ""), given.pop("query", "").strip()
    problems = await asyncio.to_thread(form_problems, ui, given)
    if problems:
        return _form_page(request, given, problems)
    config = read_config(ui, given)
    try:
        if trying:
            async with asyncio.timeout(TRY_TIMEOUT_S):
                tried = await try_query(config, query, ui.policy)
            return _form_page(request, given, tried=tried)
        started = await ui.evaluations.start(config)
    except TimeoutError:
        words = f"the agent did not respond within {TRY_TIMEOUT_S:g} s"
        return _form_page(request, given, {"target": words})
    except AssayError as error:
        return _form_page(request, given, {"": str(error)})
    return RedirectResponse(f"/evaluations/{started.id}", 303)


def evaluation_page(request: Request) -> Response:
    """What an evaluation says until it has a run, to whose page this leads; or why it has none."""
    ui, started = ui_of(request), _started(request)
    if run := ui.find_run(started):
        return RedirectResponse(f"/runs/{run}", 303)
    events = "" if started.ended else f"/evaluations/{started.id}/events"
    show = partial(ui.page, request, "running.html", line=None, view=started.view)
    return show(started=started, events=events, again=repeat_query(started.config))


async def evaluation_events(request: Request) -> Response:
    """What the process says while it starts, as server-sent events."""
    ui, started = ui_of(request), _started(request)

    async def views() -> AsyncIterator[ProgressView]:
        while not started.ended and await asyncio.to_thread(ui.find_run, started) is None:
            yield started.view
            await asyncio.sleep(_PAUSE_S)

    return event_stream(views(), f"/evaluations/{started.id}")


async def cancel_evaluation(request: Request) -> Response:
    """Cancel an evaluation: what was answered is reported and kept."""
    started = _started(request)
    started.cancel()
    return RedirectResponse(f"/evaluations/{started.id}", 303)


def _started(request: Request) -> StartedEvaluation:
    started = ui_of(request).evaluations.get(request.path_params["id"])
    if started is None:
        raise HTTPException(404, "no such evaluation; look for its run in the list of runs")
    return started


def _form_page(
    request: Request,
    given: Mapping[str, str],
    problems: Mapping[str, str] | None = None,
    tried: Mapping[str, object] | None = None,
) -> Response:
    ui, problems, defaults = ui_of(request), problems or {}, form_fields(RunConfig(target=""))
    groups = {title: [s for s in form_settings() if s.group == title] for title in get_args(Group)}
    opened = [
        title
        for title, settings in groups.items()
        if any(s.name in problems or given.get(s.name, "") != defaults[s.name] for s in settings)
    ]
    examples = [one for kind in TARGET_KINDS.values() for one in kind.examples]
    allowed = [one for one in examples if not _problem(require_permitted, one, ui.policy)]
    known = sorted({line.target for line in ui.index.lines() if line.target})
    return ui.page(
        request,
        "evaluate.html",
        status=422 if problems else 200,
        given=given,
        groups=[(title, settings) for title, settings in groups.items() if settings],
        opened=opened,
        defaults=defaults,
        problems=problems,
        named={name: str(config.target) for name, config in ui.named.items()},
        targets=dict.fromkeys([*ui.named, *allowed, *known]),
        datasets=KNOWN,
        lists=_LISTS,
        tried=tried,
    )


def environment_judge() -> str:
    """The judge that the environment names: it is shown in the form before it is used."""
    from assay.llm.providers.opening import configured_spec

    spec = configured_spec() or ""
    return "" if spec == EXTRACTIVE else spec


def read_config(ui: Ui, given: Mapping[str, str]) -> RunConfig:
    """The settings of a form. Raises `UsageError` for what the run would refuse.

    If a target of assay.toml was entered, the file gives its address and what may hold secrets.
    """
    if not given.get("answers") and given.get("judge", "").strip() == environment_judge():
        # It was filled in by default, and the visitor did not request answers.
        given = {**given, "judge": ""}
    if named := ui.named.get(given.get("target", "").strip()):
        defaults = form_fields(RunConfig(target=""))
        for name in MAY_HOLD_SECRETS:  # the page does not show these
            value = getattr(named, name)
            if name == "target" or given.get(name, "") in ("", defaults[name]):
                texts = [value] if isinstance(value, str) else value
                given = {**given, name: "\n".join(map(full_text, texts))}
    return read_form(given)


def form_problems(ui: Ui, given: Mapping[str, str]) -> dict[str, str]:
    """What is wrong with a form, by the name of the field; "" for what is about several."""
    wrong = {
        setting.name: _problem(setting.read, given[setting.name].strip())
        for setting in form_settings()
        if setting.name in given
    }
    if problems := {name: problem for name, problem in wrong.items() if problem}:
        return problems  # what fields have to do with each other needs fields that can be read
    try:
        return config_problems(read_config(ui, given), ui.policy)
    except AssayError as error:
        first = str(error).partition(" ")[0]  # messages begin with the name of the setting
        fields = (each.name for each in form_settings() if each.name in (first, f"{first}s"))
        return {next(fields, ""): str(error)}


def _problem(check: Callable[..., object], *given: Any, **named: Any) -> str:
    try:
        check(*given, **named)
    except AssayError as error:
        return str(error)
    return ""


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


# --- what a visitor may ask for ------------------------------------------------------------------


def require_permitted(target: str, policy: OutboundPolicy) -> None:
    """Raise `UsageError` for a target that may not be evaluated from these pages."""
    if not target:
        raise UsageError("enter a target, such as builtin:hybrid or http://localhost:9010")
    check_permitted(parse_target(target), policy)


def config_problems(config: RunConfig, policy: OutboundPolicy) -> dict[str, str]:
    """The fields that would fail or are not permitted, each with what is wrong."""
    from assay.llm.providers.opening import open_model

    problems: dict[str, str] = {}

    def note(name: str, check: Callable[..., object], *given: Any, **named: Any) -> None:
        if problem := _problem(check, *given, **named):
            problems.setdefault(name, problem)

    for name in ("target", "baseline", "search"):
        if name == "target" or getattr(config, name):
            note(name, require_permitted, getattr(config, name), policy)
    if policy.public_only:
        for name in _forbidden(config, policy):
            problems.setdefault(
                name, f"remote visitors may not use this {name}; ask the operator to run it"
            )
        note("request", require_public, http_request_settings(config), "")
    for gate in config.gates:
        note("gates", parse_gate, gate, config.top_k, config.compare_to)
    note("target", require_used_settings, config, given=settings())
    if config.judge:  # a wrong name is reported before the run, not after it
        note("judge", open_model, config.judge)
    return problems


def _forbidden(config: RunConfig, policy: OutboundPolicy) -> list[str]:
    """Fields in which a visitor from another machine names a file, a host or code."""
    addresses = [split_address(address) for address in provider_addresses(config.judge)]
    found = {
        "criteria": config.criteria,
        "judge_set": config.judge_set.calibration,
        "references": config.references,
        "faithfulness": config.faithfulness,
        "searches": config.searches,
        "embedder": config.embedder,
        "dataset": config.dataset not in KNOWN,
        "compare_to": is_path(config.compare_to),
        "judge": provider_files(config.judge)
        or not all(policy.names(*address) for address in addresses),
        # A regular expression can keep the server busy for hours.
        "mapping": any(map(_REGULAR_EXPRESSION.search, config.mapping)),
    }
    return [name for name, is_forbidden in found.items() if is_forbidden]


# --- one query before the run --------------------------------------------------------------------


async def try_query(config: RunConfig, query: str, policy: OutboundPolicy) -> dict[str, object]:
    """Ask the target of an evaluation as the run would; by default a query of the data set.

    The template shows the `hits`, ids of documents, and what was found on the way: `health`, and
    `contract` if it is checked.

    The data set adds titles and grades if it is on this machine. An agent of the contract is also
    checked against it. Raises `TargetError` if the agent cannot be reached.
    """
    data, target = None, parse_target(reveal(config.target))
    is_builtin = TARGET_KINDS[target.kind].searches_dataset
    try:
        # One query is not worth waiting for a download of gigabytes.
        with offline():
            data = await asyncio.to_thread(load_dataset, config.dataset, columns=config.columns)
    except DownloadError:
        if is_builtin:
            raise
    asked = query or query_of(data)
    known = data.queries.values() if data else ()
    query_id = next((one.id for one in known if one.text == asked), "")
    docs = JudgedDocuments(_MAX_HITS, config.split, data, None)
    tried = {"query": asked, "query_id": query_id, "docs": docs, "health": None, "contract": None}
    if is_builtin and data is not None:
        found = await asyncio.to_thread(_found, data, target.address, asked)
        return {**tried, "hits": found}
    health = await check_target_health(config, data, query=asked, policy=policy)
    spoken, contract = parse_target(health.target), None
    if spoken.kind == "http" and "://" in spoken.address:
        contract = await check_agent(*parse_check_target(spoken.address), policy=policy)
    doc_ids = next((call.doc_ids for call in health.calls if not call.failure), ())
    return {**tried, "hits": doc_ids[:_MAX_HITS], "health": health, "contract": contract}


def _found(data: Dataset, mode: str, query: str) -> list[str]:
    """What a built-in retriever finds."""
    from assay.search.index import open_retriever

    known = check_request(query, _MAX_HITS, mode)
    with open_retriever(data, known) as retriever:
        return [hit.doc_id for hit in retriever.search(query, _MAX_HITS, mode=known)]
