"""`assay doctor`: the health of an agent, or of this installation."""

import asyncio
import logging
import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from importlib import metadata
from importlib.util import find_spec
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.text import Text

from assay.cli.options import read_config, use_named_target
from assay.cli.settings import read_settings
from assay.cli.verb import Result, VerbGroup, argument, is_on_command_line, option, with_settings
from assay.data import load_dataset
from assay.data.cache import cache_folder
from assay.errors import AssayError, TargetError
from assay.evaluation.plan import check_target_health, require_used_settings
from assay.extras import PACKAGES, installed_plugins, missing_extra
from assay.net.json import JsonObject
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


@with_settings(_SETTINGS)
def doctor(
    context: click.Context,
    url: str | None = argument(
        "URL", "Any target. Default: show settings, plug-ins and extras.", default=None
    ),
    query: str | None = option(
        None, "The query to send. Default: one of --dataset, or about vitamin D.", metavar="TEXT"
    ),
    **options: Any,
) -> Result:
    """Diagnose an agent or this installation. Each problem comes with its remedy.

    An agent is sent one query: of --dataset, whose ids are then expected, else about vitamin D.

    Exit codes: 0 success, 1 something must be fixed, 2 usage or input error, 3 the agent could not
    be reached.
    """
    if url is None:
        root = context.find_root().command
        assert isinstance(root, VerbGroup)
        found = examine_installation(root)
        return Result(found, _rendered_installation(found), 1 if found["problems"] else 0)
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
    if (card := found.card) is not None:
        name = f"{card.get('name') or 'unnamed'!s} {card.get('version') or ''!s}".strip()[:80]
        yield labeled("card", f"{name}, from {found.card_place}")
    yield labeled("calls use", found.details.partition("; ")[2] or found.details or found.protocol)
    for call in found.calls:
        yield from _call(call)
    if found.known_ids is not None and (total := len(found.calls[0].doc_ids)):
        known = f"{found.known_ids} of {total} ids are documents of {found.dataset!r}"
        yield labeled("data set", known)
    for number, problem in enumerate(found.problems, 1):
        label = f"{'problem' if problem.grave else 'warning'} {number}"
        yield labeled(label, problem.what, "red" if problem.grave else "yellow")
        yield labeled("  remedy", problem.remedy)
    if not found.problems:
        yield labeled("problems", "none")


def _call(call: "SampleCall") -> Iterator["RenderableType"]:
    took = f"{call.milliseconds:.0f} ms"
    if call.failure:
        yield labeled(f"{call.way} call", f"failed after {took}")
    else:
        first = ", ".join(each[:40] for each in call.doc_ids[:3])
        more = ", ..." if len(call.doc_ids) > 3 else ""
        ids = f"{counted(len(call.doc_ids), 'id')} in {took}: {first}{more}"
        yield labeled(f"{call.way} call", ids)
    if call.raw:
        yield labeled("raw answer", call.raw)
    if call.answer:
        cites = counted(call.citations, "citation")
        sizes = f"{counted(call.answer_length, 'character')}, {cites}"
        more = "..." if call.answer_length > len(call.answer) else ""
        yield labeled("answer text", f"{sizes}: {call.answer}{more}")
    elif not call.failure:
        yield labeled("answer text", "none was read; --answers needs one")


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


def examine_installation(root: VerbGroup) -> JsonObject:
    """What is set up here: the settings of every verb, targets, plug-ins, extras and problems."""
    plugins = list(installed_plugins())
    problems = [plugin["error"] for plugin in plugins if plugin["error"]]
    index = "cannot be used"
    try:
        index = str(cache_folder() / "index")
        if url := os.environ.get("QDRANT_URL"):
            from assay.search.qdrant import connect, shown_addresses

            index = shown_addresses(url)
            connect(url, os.environ.get("QDRANT_API_KEY") or None).close()
        elif path := os.environ.get("QDRANT_PATH"):
            index = path
    except ImportError as error:
        problems.append(str(missing_extra(error) or error))
    except AssayError as error:
        problems.append(str(error))
    owners = metadata.packages_distributions().get("assay", [])
    problems += [  # whichever came last is imported
        f"{name} also installs the package 'assay': pip uninstall {name}, then install agent-assay"
        for name in sorted({each for each in owners if not each.startswith("agent-assay")})
    ]
    packages: dict[str, list[str]] = {}
    for package, extra in sorted(PACKAGES.items()):
        packages.setdefault(extra, []).append(package)
    verbs = sorted(root.all_verbs(), key=itemgetter(0))
    known = {param.envvar for _, verb in verbs for param in verb.params} | _PLAIN_VARIABLES
    from_file = read_settings(root)
    return {
        "index": index,
        "settings": [
            _setting(" ".join(path), param, from_file[path])
            for path, verb in verbs
            for param in verb.params
            if param.name != "as_json"
        ],
        "unread_variables": sorted(  # most often a typo
            name for name in os.environ.keys() - known if name.startswith("ASSAY_")
        ),
        "targets": {
            kind.name: f"{kind.syntax}: {kind.description}" for kind in TARGET_KINDS.values()
        },
        "plugins": plugins,
        "extras": {
            extra: "installed"
            if all(map(find_spec, needed))
            else f"not installed; run: pip install 'agent-assay[{extra}]'"
            for extra, needed in sorted(packages.items())
        },
        "problems": problems,
    }


def _setting(verb: str, param: click.Parameter, in_file: Mapping[str, Any]) -> JsonObject:
    """The value of an option, and where it comes from: default, assay.toml or its variable."""
    name, variable = param.name or "", str(param.envvar or "")
    known = isinstance(param.default, str | int | float | Path)  # not click's mark for none
    value, source = str(param.default) if known else "", "default"
    if name in in_file:
        value, source = str(in_file[name]), "assay.toml"
    if set_to := os.environ.get(variable):
        value, source = set_to, variable
    if source != "default" and any(word in f"{name} {variable}".upper() for word in _SECRET):
        value = "(set, not shown)"
    return {"verb": verb, "option": name, "value": value[:200], "source": source}


def _rendered_installation(found: JsonObject) -> Iterator["RenderableType"]:
    yield Text("settings of assay eval, and those of others that are set", style="bold")
    for each in found["settings"]:
        if each["verb"] == "eval" or each["source"] != "default":
            words = f"{each['value'] or 'none'} ({each['source']})"
            yield labeled(f"{each['verb']} {each['option']}", words, width=28)
    for name in found["unread_variables"]:
        yield labeled("warning", f"{name} is set, but no option uses it", "yellow")
    plugins = {
        each["name"]: f"{each['group']}: {'failed to load' if each['error'] else each['value']}, "
        f"from {each['package']}"
        for each in found["plugins"]
    }
    sections = {"targets": found["targets"], "plug-ins": plugins, "extras": found["extras"]}
    sections["data"] = {"index": found["index"]}
    for title, lines in sections.items():
        if lines:
            yield from ("", Text(title, style="bold"))
            yield from (labeled(name, text) for name, text in lines.items())
    for problem in found["problems"]:
        yield from ("", labeled("problem", problem, "red"))
