"""`assay doctor`: the health of an agent, or of this installation."""

import asyncio
import logging
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from importlib import metadata
from importlib.util import find_spec
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.table import Table
from rich.text import Text

from assay.cli.options import read_config, use_named_target
from assay.cli.settings import read_settings
from assay.cli.verb import Result, VerbGroup, argument, is_on_command_line, option, with_settings
from assay.data import load_dataset
from assay.data.cache import cache_folder
from assay.errors import AssayError, TargetError
from assay.evaluation.plan import check_target_health, require_used_settings
from assay.extras import PACKAGES, Plugin, installed_plugins, missing_extra
from assay.privacy import private_mode
from assay.report.console import labeled
from assay.report.numbers import counted
from assay.run.config import settings
from assay.targets.target_kinds import TARGET_KINDS, redact_target

if TYPE_CHECKING:
    from rich.console import RenderableType

    from assay.targets.health_check import HealthReport, SampleCall


_TARGET = ("mapping", "request", "headers", "preset", "answers")
_SETTINGS = ("dataset", "columns", "top_k", "timeout", *_TARGET)
_HELP = {
    "dataset": "Send a query of this data set, and check that it knows the ids of the response: "
    "a name, a folder or a table, as in assay eval. Default: one query about vitamin D, ids are "
    "not checked.",
    "top_k": "How many documents to request in the sample call.",
    "timeout": "Timeout of the sample call, in seconds.",
    "answers": "Also ask for an answer, and show what is read from the response.",
}


@with_settings(_SETTINGS, _HELP)
def doctor(
    context: click.Context,
    url: str | None = argument(
        "URL",
        "The agent's URL, plain or with its protocol (http://host:9010, a2a:URL), or any other "
        "target. If omitted: show the current settings, the kinds of targets, plug-ins and "
        "extras.",
        default=None,
    ),
    query: str | None = option(
        None,
        "The query of the sample call. Default: one of --dataset, else one about vitamin D.",
        metavar="TEXT",
    ),
    **options: Any,
) -> Result:
    """Diagnose an agent or this installation. Each problem comes with its remedy.

    Exit codes: 0 success, 1 something must be fixed, 2 usage or input error, 3 the agent could not
    be reached.
    """
    if url is None:
        root = context.find_root().command
        assert isinstance(root, VerbGroup)
        found = examine_installation(root)
        return Result(found, _rendered_installation(found), 1 if found.problems else 0)
    target = use_named_target(context, url, options) or ""
    dataset = options["dataset"]
    options["dataset"] = dataset or "none"
    config = read_config(context, _SETTINGS, options, target=target)
    flags = [name for name in _SETTINGS if is_on_command_line(context, settings()[name].param)]
    require_used_settings(config, flags)
    # The agent's warnings are in the list of problems already.
    logging.getLogger("assay.targets.a2a").setLevel(logging.ERROR)
    with private_mode(config.private):
        data = load_dataset(config.dataset, columns=config.columns) if dataset else None
    try:
        health = asyncio.run(check_target_health(config, data, query=query or ""))
    except TargetError as error:
        value = {"url": redact_target(target), "reached": False, "error": str(error)}
        return Result(value, [], error.exit_code, notes=[f"error: {error}"])
    value = {**asdict(health), "reached": True, "healthy": health.healthy}
    return Result(value, _rendered(health), 0 if health.healthy else 1)


def _rendered(found: "HealthReport") -> Iterator["RenderableType"]:
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
    if (card := found.card) is not None:
        name = f"{card.get('name') or 'unnamed'!s} {card.get('version') or ''!s}".strip()[:80]
        yield "card", f"{name}, from {found.card_place}"
        capabilities = card.get("capabilities")
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
    if found.known_ids is not None and (total := len(found.calls[0].doc_ids)):
        yield "data set", f"{found.known_ids} of {total} ids are documents of {found.dataset!r}"


def _outcome(call: "SampleCall") -> str:
    took = f"{call.milliseconds:.0f} ms"
    if call.failure:
        return f"failed after {took}"
    first = ", ".join(each[:40] for each in call.doc_ids[:3])
    more = ", ..." if len(call.doc_ids) > 3 else ""
    return f"{counted(len(call.doc_ids), 'id')} in {took}: {first}{more}"


def _answer_text(call: "SampleCall") -> str:
    if not call.answer:
        return "none was read; --answers needs one"
    more = "..." if call.answer_length > len(call.answer) else ""
    sizes = f"{counted(call.answer_length, 'character')}, {counted(call.citations, 'citation')}"
    return f"{sizes}: {call.answer}{more}"


# Read directly, without an option.
_PLAIN_VARIABLES = {
    "ASSAY_CACHE",
    "ASSAY_TOKEN",
    "ASSAY_ADMIN_TOKEN",
    "ASSAY_ALLOWED_HOSTS",
    "ASSAY_THREADS",
    "ASSAY_DEVICE",
    "ASSAY_GGUF_MODEL",
    "ASSAY_NOTE_MAPPING",
    "ASSAY_EMBEDDER_KEY",
}
_SECRET = ("TOKEN", "PASSWORD", "SECRET", "KEY")


@dataclass(frozen=True, slots=True)
class Setting:
    """One option of one verb. `source` is default, assay.toml or the environment's variable."""

    verb: str
    option: str
    value: str
    source: str


@dataclass(frozen=True)
class Installation:
    """What `assay doctor` prints without a URL, as its JSON has it. `index`: a folder, or the
    addresses of a Qdrant server or cluster.
    """

    index: str
    settings: list[Setting]
    unread_variables: list[str]
    targets: dict[str, dict[str, str]]
    plugins: list[Plugin]
    extras: dict[str, str]
    problems: list[str]


def examine_installation(root: VerbGroup) -> Installation:
    """What is set up here."""
    plugins = list(installed_plugins())
    problems = [plugin.error for plugin in plugins if plugin.error]
    index = "cannot be used"
    try:
        index = _index_place()
    except ImportError as error:
        problems.append(str(missing_extra(error) or error))
    except AssayError as error:
        problems.append(str(error))
    owners = metadata.packages_distributions().get("assay", [])
    problems += [  # whichever came last is imported
        f"{name} also installs the package 'assay': pip uninstall {name}, then install agent-assay"
        for name in sorted({each for each in owners if not each.startswith("agent-assay")})
    ]
    verbs = sorted(root.all_verbs(), key=itemgetter(0))
    known = {param.envvar for _, verb in verbs for param in verb.params}
    return Installation(
        index=index,
        settings=list(_option_settings(verbs, read_settings(root))),
        unread_variables=sorted(  # most often a typo
            name for name in os.environ.keys() - known - _PLAIN_VARIABLES if name[:6] == "ASSAY_"
        ),
        targets={
            kind.name: {"syntax": kind.syntax, "description": kind.description}
            for kind in TARGET_KINDS.values()
        },
        plugins=plugins,
        extras={extra: _extra(extra) for extra in sorted(set(PACKAGES.values()))},
        problems=problems,
    )


def _index_place() -> str:
    """Where indexes are kept. Raises `AssayError` for a Qdrant server that cannot be used."""
    cache = cache_folder()
    if url := os.environ.get("QDRANT_URL"):
        from assay.search.qdrant import connect, shown_addresses

        connect(url, os.environ.get("QDRANT_API_KEY") or None).close()
        return shown_addresses(url)
    return os.environ.get("QDRANT_PATH") or str(cache / "index")


def _extra(name: str) -> str:
    packages = [package for package, extra in PACKAGES.items() if extra == name]
    if all(map(find_spec, packages)):
        return "installed"
    return f"not installed; run: pip install 'agent-assay[{name}]'"


def _option_settings(
    verbs: list[tuple[tuple[str, ...], Any]], from_file: dict[tuple[str, ...], Any]
) -> Iterator[Setting]:
    for path, command in verbs:
        for param in command.params:
            if param.name in ("help_all", "as_json"):
                continue
            default, name = param.default, param.name
            known = isinstance(default, str | int | float | Path)  # not click's mark for none
            value, source = str(default) if known else "", "default"
            if name in from_file[path]:
                value, source = str(from_file[path][name]), "assay.toml"
            if set_to := os.environ.get(param.envvar or ""):
                value, source = set_to, param.envvar
            if source != "default":
                shown = source if source != "assay.toml" else name
                hidden = any(word in shown.upper() for word in _SECRET)
                value = "(set, not shown)" if hidden else value[:200]
            yield Setting(" ".join(path), name, value, source)


def _rendered_installation(found: Installation) -> Iterator[Any]:
    yield Text("current settings", style="bold")
    table = Table(box=None, pad_edge=False, header_style="dim")
    for heading in ("verb", "option", "value", "set by"):
        table.add_column(heading, overflow="fold")
    for each in found.settings:
        if each.verb == "eval" or each.source != "default":
            table.add_row(*map(Text, (each.verb, each.option, each.value, each.source)))
    yield table
    yield Text(
        "Options of other commands are listed only if they are set; --json lists all.", "dim"
    )
    for name in found.unread_variables:
        yield labeled("warning", f"{name} is set, but no option uses it", "yellow")
    plugins = {
        each.name: f"{each.group}: {'failed to load' if each.error else each.value}, "
        f"from {each.package}"
        for each in found.plugins
    }
    targets = {n: f"{k['syntax']}: {k['description']}" for n, k in found.targets.items()}
    sections = {
        "targets": targets,
        "plug-ins": plugins,
        "extras": found.extras,
        "data": {"index": found.index},
    }
    for title, lines in sections.items():
        if lines:
            yield from ("", Text(title, style="bold"))
            yield from (labeled(name, text) for name, text in lines.items())
    for problem in found.problems:
        yield from ("", labeled("problem", problem, "red"))
