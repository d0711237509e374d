"""`assay doctor`: the health of an agent, or of this installation."""

from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from assay.agents.targets import open_target, redact_target
from assay.cli.console import print_json, show
from assay.cli.run_options import read_values, use_named_target, with_options
from assay.errors import TargetError, UsageError
from assay.run.config import RunConfig
from assay.run.options import settings

if TYPE_CHECKING:
    from rich.console import RenderableType

    from assay.agents.health_check import HealthReport, SampleCall
    from assay.agents.protocol import Agent
    from assay.agents.target_kinds import Target


_SETTINGS = (
    "dataset",
    "columns",
    "mapping",
    "request",
    "method",
    "headers",
    "preset",
    "index",
    "answers",
)


@with_options([settings()[name] for name in _SETTINGS])
def doctor(
    context: typer.Context,
    url: Annotated[
        str | None,
        typer.Argument(
            help="The agent's URL, plain or with its protocol (http://host:9010, a2a:URL), "
            "or any other target. If omitted: show the current settings, the kinds of targets, the "
            "versions and the local data sets.",
            metavar="[URL]",
        ),
    ] = None,
    query: Annotated[
        str | None,
        typer.Option(
            help="The query of the sample call. Default: one of the data set, or one about "
            "vitamin D.",
            metavar="TEXT",
        ),
    ] = None,
    top_k: Annotated[
        int, typer.Option(help="How many documents to request.", envvar="ASSAY_TOP_K", min=1)
    ] = 5,
    timeout: Annotated[
        float,
        typer.Option(
            help="Timeout of the sample call in seconds.", envvar="ASSAY_TIMEOUT", min=0.001
        ),
    ] = 60.0,
    deep: Annotated[
        bool,
        typer.Option(
            "--deep",
            help="Without a URL: read and hash every file of the indexes, the vector cache and the "
            "models, and report damage.",
        ),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    **options: Any,
) -> None:
    """Diagnose an agent or this installation. Each problem is shown with its remedy.

    Exit codes: 0 good, 1 something must be fixed, 3 the agent could not be reached.
    """
    if url is None:
        from assay.cli.installation import examine_installation

        raise typer.Exit(examine_installation(context.find_root(), as_json, deep=deep))
    if deep:
        raise UsageError("--deep checks the files of this installation: pass it without a URL")
    given = {**options, "top_k": top_k, "timeout": timeout}
    url = use_named_target(context, url, given)
    values = read_values(context, [settings()[name] for name in _SETTINGS], given)
    values["dataset"] = given["dataset"] or ""
    config = RunConfig(
        target=url or "",
        top_k=given["top_k"],
        timeout=given["timeout"],
        **{**values, "dataset": values["dataset"] or "none"},
    )
    raise typer.Exit(_examine_agent(config, query, bool(values["dataset"]), as_json))


def _examine_agent(config: RunConfig, query: str | None, with_data: bool, as_json: bool) -> int:
    import asyncio
    import logging

    from assay.agents.health_check import SampleQuery, check_health, query_of
    from assay.agents.mapping import parse_mapping
    from assay.data import load_dataset
    from assay.data.dataset import Dataset
    from assay.evaluation.plan import http_request_settings, refuse_unused_settings
    from assay.net.secret_text import reveal

    # The agent's warnings are in the list of problems already.
    logging.getLogger("assay.agents.a2a.agent").setLevel(logging.ERROR)
    nothing = Dataset(name="none", documents={}, queries={}, judgments={})
    data = load_dataset(config.dataset, columns=config.columns) if with_data else None
    mapping = parse_mapping([reveal(each) for each in config.mapping])
    refuse_unused_settings(config)
    sample = SampleQuery(query or query_of(data), config.top_k, config.timeout, config.answers)

    def build(target: "Target") -> "Agent":
        request = http_request_settings(config)
        return open_target(
            target, data or nothing, mapping=mapping, answers=config.answers, request=request
        )

    try:
        found = asyncio.run(
            check_health(config.target, sample, build, dataset=data, mapping=mapping)
        )
    except TargetError as error:
        if not as_json:
            raise
        print_json({"url": redact_target(config.target), "reached": False, "error": str(error)})
        return error.exit_code
    if as_json:
        print_json({**asdict(found), "reached": True, "healthy": found.healthy})
    else:
        show(*_rendered(found))
    return 0 if found.healthy else 1


def _rendered(found: "HealthReport") -> Iterator["RenderableType"]:
    from rich.text import Text

    from assay.report.console import labeled

    yield Text(found.target, style="bold")
    for label, words in _facts(found):
        yield labeled(label, words)
    for number, problem in enumerate(found.problems, 1):
        style = "red" if problem.grave else "yellow"
        label = f"{'problem' if problem.grave else 'warning'} {number}"
        yield labeled(label, problem.what, style)
        yield labeled("  remedy", problem.remedy)
    if not found.problems:
        yield labeled("problems", "none")


def _facts(found: "HealthReport") -> Iterator[tuple[str, str]]:
    if found.card is not None:
        yield "card", f"{_name(found.card)}, from {found.card_place}"
        capabilities = found.card.get("capabilities")
        offered = isinstance(capabilities, dict) and capabilities.get("streaming") is True
        yield "streaming", "offered" if offered else "not offered"
    for place, interface in enumerate(found.interfaces):
        yield "" if place else "interfaces", interface
    yield "calls use", found.details.partition("; ")[2] or found.details or found.protocol
    for call in found.calls:
        yield f"{call.way} call", _outcome(call)
        if call.raw:
            yield "raw answer", call.raw
        if not call.failure:
            yield "answer text", _answer_text(call)
    if found.known_ids is not None:
        total = len(found.calls[0].doc_ids)
        yield "data set", f"{found.known_ids} of {total} ids are documents of {found.dataset!r}"


def _name(card: dict[str, object]) -> str:
    return f"{card.get('name') or 'unnamed'!s} {card.get('version') or ''!s}".strip()[:80]


def _outcome(call: "SampleCall") -> str:
    took = f"{call.milliseconds:.0f} ms"
    if call.failure:
        return f"failed after {took}: {call.failure}"
    first = ", ".join(each[:40] for each in call.doc_ids[:3])
    more = ", ..." if len(call.doc_ids) > 3 else ""
    number = len(call.doc_ids)
    return f"{number} id{'' if number == 1 else 's'} in {took}: {first}{more}"


def _answer_text(call: "SampleCall") -> str:
    from assay.report.numbers import counted

    if not call.answer:
        return "none was read; --answers needs one"
    more = "..." if call.answer_length > len(call.answer) else ""
    sizes = f"{counted(call.answer_length, 'character')}, {counted(call.citations, 'citation')}"
    return f"{sizes}: {call.answer}{more}"
