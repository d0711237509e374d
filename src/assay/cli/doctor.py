"""`assay doctor`: the health of an agent, or of this installation."""

from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from assay.agents.targets import complete_target, open_target, redact_target
from assay.cli.console import print_json, show
from assay.errors import TargetError

if TYPE_CHECKING:
    from rich.console import RenderableType

    from assay.agents.health_check import HealthReport, SampleCall


def doctor(
    context: typer.Context,
    url: Annotated[
        str | None,
        typer.Argument(
            help="The agent's URL, plain or with its protocol (http://host:9010, a2a:URL), "
            "or any other target. If omitted: show the current settings, the kinds of targets, the "
            "versions and the local data sets.",
            autocompletion=complete_target,
            metavar="[URL]",
        ),
    ] = None,
    query: Annotated[
        str, typer.Option(help="The query of the sample call.", metavar="TEXT")
    ] = "Does vitamin D lower blood pressure?",
    top_k: Annotated[
        int, typer.Option(help="How many documents to request.", envvar="ASSAY_TOP_K", min=1)
    ] = 5,
    timeout: Annotated[
        float,
        typer.Option(
            help="Timeout of the sample call in seconds.", envvar="ASSAY_TIMEOUT", min=0.001
        ),
    ] = 60.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Diagnose an agent or this installation. Each problem is shown with its remedy.

    Exit codes: 0 good, 1 something must be fixed, 3 the agent could not be reached.
    """
    if url is None:
        from assay.cli.installation import examine_installation

        raise typer.Exit(examine_installation(context.find_root(), as_json))
    raise typer.Exit(_examine_agent(url, query, top_k, timeout, as_json))


def _examine_agent(url: str, query: str, top_k: int, timeout: float, as_json: bool) -> int:
    import asyncio
    import logging

    from assay.agents.health_check import SampleQuery, check_health
    from assay.data.dataset import Dataset

    # The agent's warnings are in the list of problems already.
    logging.getLogger("assay.agents.a2a.agent").setLevel(logging.ERROR)
    nothing = Dataset(name="none", documents={}, queries={}, judgments={})
    sample = SampleQuery(query, top_k, timeout)
    try:
        found = asyncio.run(check_health(url, sample, lambda target: open_target(target, nothing)))
    except TargetError as error:
        if not as_json:
            raise
        print_json({"url": redact_target(url), "reached": False, "error": str(error)})
        return error.exit_code
    if as_json:
        print_json({**asdict(found), "reached": True, "healthy": found.healthy})
    else:
        show(*_rendered(found))
    return 0 if found.healthy else 1


def _rendered(found: "HealthReport") -> Iterator["RenderableType"]:
    from rich.text import Text

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


def labeled(label: str, words: str, style: str = "") -> "RenderableType":
    """A label and its text, which wraps beside the label."""
    from rich.table import Table
    from rich.text import Text

    line = Table.grid(padding=(0, 1, 0, 0))
    line.add_column(width=20)
    line.add_column(overflow="fold")
    line.add_row(Text(label, style=style or "dim"), Text(words))
    return line
