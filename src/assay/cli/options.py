"""Options that several commands share, and those of the table of `RunConfig`."""

import inspect
import os
import re
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from assay.cli.console import progress_bar, warn
from assay.cli.settings import named_target
from assay.errors import UsageError
from assay.llm.provider_kinds import PROVIDER_FORMS
from assay.run.option import convert
from assay.run.settings import RunSetting, settings
from assay.search.modes import MODES

if TYPE_CHECKING:
    from assay.data.dataset import Judgments
    from assay.search.bm25 import Bm25Settings
    from assay.search.embedding import EmbedderSettings


def option(
    help: str,
    variable: str | None = None,
    metavar: str | None = None,
    *flags: str,
    **rules: Any,
) -> Any:
    """An option of a command.

    Parameters:
        help: what it is for.
        variable: the environment variable that sets it.
        metavar: what stands for its value in the help.
        flags: where they do not follow from the name of the parameter.
        rules: what else typer takes, such as `min`.
    """
    return typer.Option(*flags, help=help, envvar=variable, metavar=metavar, **rules)


def switch(flag: str, help: str, variable: str | None = None, **rules: Any) -> Any:
    """An option without a value, and without a `--no-` form."""
    return typer.Option(flag, help=help, envvar=variable, **rules)


def setting_option(name: str, help: str = "", *flags: str, **rules: Any) -> Any:
    """The option of a setting of `assay eval`, for a command that makes no run.

    Parameters:
        name: of the setting, which says its flag, variable, metavar and bounds.
        help: if that of `assay eval` does not fit.
        flags: instead of the setting's own.
        rules: what else typer takes, or takes instead of what the setting says.
    """
    setting = settings()[name]
    of_table = {
        "envvar": setting.env,
        "metavar": setting.option.metavar,
        "min": setting.option.low,
        "max": setting.option.high,
    }
    words = help or setting.option.help
    return typer.Option(*(flags or [setting.flag]), help=words, **{**of_table, **rules})


JsonOption = Annotated[bool, switch("--json", "Print the result as JSON on stdout.")]
RunsOption = Annotated[Path, option("Folder of the runs.", "ASSAY_OUT", "DIR", "--runs")]
OutOption = Annotated[Path, option("Folder of the runs.", "ASSAY_OUT", "DIR", "--runs", "--out")]

# Data
DatasetOption = Annotated[
    str,
    option("nfcorpus, notes, or the path of a BEIR folder or zip.", "ASSAY_DATASET", "NAME|PATH"),
]
ArchiveOption = Annotated[
    Path | None,
    option(
        "A local nfcorpus.zip to use instead of downloading it. [env var: NFCORPUS_ARCHIVE]",
        metavar="FILE",
    ),
]
ColumnsOption = Annotated[list[str] | None, setting_option("columns")]
QrelsOption = Annotated[
    Path | None,
    option(
        "Judgments: TREC qrels or BEIR tsv. Takes precedence over --dataset.", "ASSAY_QRELS", "FILE"
    ),
]
JudgedDatasetOption = Annotated[
    str | None,
    option(
        "The data set with the judgments: a name, a folder or a table, as in assay eval.",
        "ASSAY_DATASET",
        "NAME|PATH",
    ),
]
SplitOption = Annotated[str, setting_option("split")]

# The built-in retriever
EngineOption = Annotated[
    str | None,
    option(
        "Run on a Ray cluster: ray for the one at RAY_ADDRESS or on this machine, or "
        "ray://HOST:PORT.",
        "ASSAY_ENGINE",
        "ray[://ADDRESS]",
        rich_help_panel="Run",
    ),
]

# Models that judge or write
JudgeOption = Annotated[
    str | None,
    option(
        f"The model that judges: {PROVIDER_FORMS}. Default: ollama.",
        "RAG_EVAL_PROVIDER",
        "SPEC",
        "--judge",
        "--provider",
    ),
]
JudgeSetOption = Annotated[list[str] | None, setting_option("judge_set")]
MaxCostOption = Annotated[float | None, setting_option("max_cost")]

# Servers
HostOption = Annotated[
    str, option("Address to listen on; 0.0.0.0 for all network interfaces.", "ASSAY_HOST", "HOST")
]
PortOption = Annotated[
    int, option("Port to listen on; 0 picks a free one.", "ASSAY_PORT", "PORT", min=0, max=65535)
]
CardUrlOption = Annotated[
    str | None,
    option("The URL in the agent card. Default: the URL of the request.", "ASSAY_CARD_URL", "URL"),
]
OpenOption = Annotated[
    bool,
    switch(
        "--open",
        "Listen beyond this machine without ASSAY_TOKEN: anyone who can connect may call.",
        "ASSAY_OPEN",
    ),
]


def _known_mode(mode: str) -> str:
    if mode not in MODES:
        raise UsageError(f"--mode must be one of {', '.join(MODES)}, got {mode!r}")
    return mode


SearchModeOption = Annotated[
    str, option(f"How to search: {', '.join(MODES)}.", "ASSAY_MODE", "MODE", callback=_known_mode)
]


class JudgmentSource(NamedTuple):
    """Judgments and their source; `known` are all document ids, None for a qrels file.

    `judged_by` says in words which of them a model made.
    """

    source: str
    judgments: "Judgments"
    known: Container[str] | None
    judged_by: str = ""


def load_judgments(
    qrels: Path | None,
    dataset: str | None,
    split: str,
    archive: Path | None,
    columns: Sequence[str] = (),
) -> JudgmentSource:
    """The judgments of a TREC or BEIR file, else of one split of a data set. Raises `UsageError`.

    A data set is downloaded where it is missing.
    """
    from assay.data import load_dataset, read_qrels
    from assay.data.qrels import judged_by_model

    if qrels is not None:
        return JudgmentSource(str(qrels), read_qrels(qrels), None, judged_by_model(qrels))
    if dataset is None:
        raise UsageError("no judgments given: pass --qrels FILE, or --dataset NAME with --split")
    with progress_bar() as progress:
        data = load_dataset(dataset, archive=archive, columns=columns, progress=progress)
    for warning in data.warnings:
        warn(warning)
    judgments = data.judgments_in(split)
    return JudgmentSource(f"{data.name} {split}", judgments, data.corpus_ids, data.judged_by)


Command = Callable[..., None]


def with_options(
    table: Sequence[RunSetting], *, conditions: bool = False
) -> Callable[[Command], Command]:
    """Give a command one parameter for each setting, after its first two.

    With `conditions`, the help of an option names the one that it needs.
    """

    def decorate(command: Command) -> Command:
        own = list(inspect.signature(command, eval_str=True).parameters.values())
        fixed = [each for each in own if each.kind is not inspect.Parameter.VAR_KEYWORD]
        given = [_parameter(setting, conditions) for setting in table]
        named = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in fixed]
        parameters = [*named[:2], *given, *named[2:]]
        command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        command.__annotations__ = {each.name: each.annotation for each in parameters}
        return command

    return decorate


def settings_with_help(names: Sequence[str], own: Mapping[str, str]) -> list[RunSetting]:
    """Options of `assay eval`, with the help of `own` if a command uses one otherwise."""
    return [
        replace(setting, option=replace(setting.option, help=own.get(name, setting.option.help)))
        for name, setting in ((name, settings()[name]) for name in names)
    ]


EMBEDDER = ("embedder", "device")


_ABOUT_TARGETS = re.compile(", for builtin (and purple )?targets")


def retriever_settings(*names: str) -> list[RunSetting]:
    """Options of the built-in retriever, which `assay eval` has for its targets."""
    found = []
    for name in names:
        setting = settings()[name]
        words = _ABOUT_TARGETS.sub("", setting.option.help)
        found.append(replace(setting, option=replace(setting.option, help=words)))
    return found


def embedder_settings(options: Mapping[str, Any]) -> "EmbedderSettings":
    """The embedder, and the reranker if there is such an option, that a command was given."""
    from assay.search.embedding import EmbedderSettings

    names = (*EMBEDDER, "reranker")
    return EmbedderSettings(**{name: options[name] for name in names if options.get(name)})


def bm25_settings(options: Mapping[str, Any]) -> "Bm25Settings":
    """The parameters of BM25 that a command was given."""
    from assay.search.bm25 import Bm25Settings

    return Bm25Settings.parse(options["bm25"] or ())


def _parameter(setting: RunSetting, conditions: bool) -> inspect.Parameter:
    kind: Any = list[str] if setting.repeatable else setting.kind
    default = None if setting.is_part else setting.default
    if setting.is_part or setting.nullable or setting.option.optional or default in ("", ()):
        kind, default = kind | None, None
    flags = [setting.flag]
    if setting.kind is bool:
        flags = [f"{setting.flag}/{setting.flag.replace('--', '--no-', 1)}"]
    option = typer.Option(
        *flags,
        help=setting.help if conditions else setting.option.help,
        envvar=setting.env,
        metavar=setting.option.metavar,
        rich_help_panel=setting.option.group,
    )
    return inspect.Parameter(
        setting.param,
        inspect.Parameter.KEYWORD_ONLY,
        default=default,
        annotation=Annotated[kind, option],
    )


def read_values(
    context: typer.Context, table: Sequence[RunSetting], options: Mapping[str, Any]
) -> dict[str, Any]:
    """The values of settings by their names in `RunConfig`, with defaults for what is not given."""
    values = {}
    for setting in table:
        value = options[setting.param]
        if setting.repeatable:
            value = _repeated_values(context, setting, value or [])
            value = convert(setting.name, value, (setting.kind, False))
        values[setting.name] = setting.default if value is None else value
    return values


def _repeated_values(
    context: typer.Context, setting: RunSetting, given: list[str]
) -> tuple[str, ...]:
    """The values of a repeatable option. typer splits a variable at blanks: it is read here."""
    name = _source(context, setting.param)
    if name == "ENVIRONMENT" and setting.env:
        given = os.environ.get(setting.env, "").split(setting.option.separator)
    if setting.name == "gates" and name not in ("", "COMMANDLINE"):
        from assay.evaluation.gates import split_gates

        given = [gate for each in given for gate in split_gates(each)]
    return tuple(each.strip() for each in given if each.strip())


def use_named_target(
    context: typer.Context, target: str | None, options: dict[str, Any]
) -> str | None:
    """The target of `[target.NAME]` in assay.toml; its settings go into `options`.

    Flags and variables win over the table, the table over what the file says for the command.
    """
    if options.get("columns") and not is_given(context, "columns"):
        # The file names the columns of its own data set, which another one need not have.
        options["columns"] = None if is_given(context, "dataset") else options["columns"]
    found = named_target(target or "")
    if found is None:
        return target
    for param, value in found.options.items():
        other_data = param == "columns" and is_given(context, "dataset")
        if param in options and not is_given(context, param) and not other_data:
            options[param] = value
    return found.target


def is_given(context: typer.Context, name: str) -> bool:
    """Whether it is given by a flag or a variable, not by a default or assay.toml."""
    return _source(context, name) in ("COMMANDLINE", "ENVIRONMENT")


def is_on_command_line(context: typer.Context, name: str) -> bool:
    """Whether it is given by a flag or an argument: a variable may be meant for another run."""
    return _source(context, name) == "COMMANDLINE"


def refuse_unused(context: typer.Context, names: Container[str], why: str) -> None:
    """Raise `UsageError` for the first of these options that is on the command line.

    Parameters:
        context: of the command.
        names: of parameters that have no effect on what was asked for.
        why: ends the sentence "--flag has no effect".
    """
    for param in context.command.params:
        if param.name in names and is_on_command_line(context, param.name or ""):
            raise UsageError(f"{param.opts[0]} has no effect {why}")


def _source(context: typer.Context, name: str) -> str:
    source = context.get_parameter_source(name)
    return "" if source is None else source.name
