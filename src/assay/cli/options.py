"""Options that several commands share, and those of the table of `RunConfig`."""

import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from assay.cli.console import progress_bar, warn
from assay.cli.settings import named_target
from assay.errors import UsageError
from assay.run.settings import RunSetting

if TYPE_CHECKING:
    from collections.abc import Container, Sequence

    from assay.data.dataset import Judgments


def option(help: str, variable: str | None = None, metavar: str | None = None, **rules: Any) -> Any:
    """An option of a command: what it is for, its environment variable, and what stands for it."""
    return typer.Option(help=help, envvar=variable, metavar=metavar, **rules)


JsonOption = Annotated[bool, typer.Option("--json", help="Print the result as JSON on stdout.")]
RunsOption = Annotated[
    Path, typer.Option("--runs", help="Folder of the runs.", envvar="ASSAY_OUT", metavar="DIR")
]
OutOption = Annotated[Path, option("Folder to write runs to.", "ASSAY_OUT", "DIR")]

# Data
DatasetOption = Annotated[
    str,
    typer.Option(
        help="nfcorpus, notes, or the path of a BEIR folder or zip.",
        envvar="ASSAY_DATASET",
        metavar="NAME|PATH",
    ),
]
ArchiveOption = Annotated[
    Path | None,
    typer.Option(
        help="A local nfcorpus.zip to use instead of downloading it. [env var: NFCORPUS_ARCHIVE]",
        metavar="FILE",
    ),
]
ColumnsOption = Annotated[
    list[str] | None,
    typer.Option(
        help="Which column of a table holds what: query=Frage,ids=docs. Keys: query, ids, grades, "
        "doc_id, grade, query_id, answer, tags.",
        envvar="ASSAY_COLUMNS",
        metavar="KEY=COLUMN",
    ),
]
QrelsOption = Annotated[
    Path | None,
    typer.Option(
        help="Judgments: TREC qrels or BEIR tsv. Takes precedence over --dataset.",
        envvar="ASSAY_QRELS",
        metavar="FILE",
    ),
]
JudgedDatasetOption = Annotated[
    str | None,
    typer.Option(
        help="Use the judgments of a data set, as in assay eval: a name, a folder, or a table of "
        "questions.",
        envvar="ASSAY_DATASET",
        metavar="NAME|PATH",
    ),
]
SplitOption = Annotated[
    str,
    typer.Option(help="Which split of the judgments to use.", envvar="ASSAY_SPLIT", metavar="NAME"),
]

# The built-in retriever
ModelOption = Annotated[
    Path | None,
    typer.Option(
        help="A folder with model.onnx and tokenizer.json. Default: the built-in all-MiniLM-L6-v2.",
        envvar="ASSAY_MODEL",
        metavar="DIR",
    ),
]
EmbedderOption = Annotated[
    str | None,
    typer.Option(
        help="Another embedder than the built-in one: st:NAME|DIR (sentence-transformers), "
        "openai:MODEL[@URL], ollama:MODEL[@URL] or tei:URL. A server's API key is read from "
        "OPENAI_API_KEY or ASSAY_EMBEDDER_KEY.",
        envvar="ASSAY_EMBEDDER",
        metavar="SPEC",
    ),
]
DeviceOption = Annotated[
    str,
    typer.Option(
        help="Where st: and --model embedders run: auto, cpu, cuda, cuda:N or mps.",
        envvar="ASSAY_DEVICE",
        metavar="DEVICE",
    ),
]
RerankerOption = Annotated[
    str | None,
    typer.Option(
        help="A cross-encoder that orders the first 50 documents anew: st:NAME|DIR "
        "(sentence-transformers) or tei:URL. A server's API key is read from ASSAY_RERANKER_KEY.",
        envvar="ASSAY_RERANKER",
        metavar="SPEC",
    ),
]


def _bm25_option(name: str, help_text: str, metavar: str = "") -> Any:
    return typer.Option(
        f"--bm25-{name}",
        help=help_text,
        envvar=f"ASSAY_BM25_{name.replace('-', '_').upper()}",
        metavar=metavar or name.replace("-", "_").upper(),
    )


K1Option = Annotated[float, _bm25_option("k1", "BM25 term-frequency saturation, 0 or more.")]
BOption = Annotated[float, _bm25_option("b", "BM25 length normalization, 0 to 1.")]
DeltaOption = Annotated[
    float, _bm25_option("delta", "What a word is worth to BM25 at least where it occurs (BM25+).")
]
TitleWeightOption = Annotated[
    float, _bm25_option("title-weight", "How often a word of the title counts for BM25 (BM25F).")
]
LanguageOption = Annotated[
    str,
    _bm25_option(
        "language",
        "The language whose stems and stop words BM25 uses, by name or code: auto detects it, "
        "none stems nothing.",
        "NAME",
    ),
]
StopWordsOption = Annotated[
    str,
    _bm25_option(
        "stop-words",
        "The words that BM25 leaves out: default for those of the language, none, or words with "
        "commas between them.",
        "WORDS",
    ),
]
EngineOption = Annotated[
    str | None,
    typer.Option(
        help="Work on a Ray cluster: ray for the one at RAY_ADDRESS or on this machine, or "
        "ray://HOST:PORT.",
        envvar="ASSAY_ENGINE",
        metavar="ray[://ADDRESS]",
        rich_help_panel="Built-in retriever",
    ),
]

# Models that judge or write
JudgeTimeoutOption = Annotated[
    float | None,
    typer.Option(
        help="Timeout of one call to the judge in seconds. Default: 120, or 600 for a model on "
        "this machine.",
        envvar="ASSAY_JUDGE_TIMEOUT",
        min=0.1,
        metavar="S",
    ),
]
JudgeConcurrencyOption = Annotated[
    int | None,
    typer.Option(
        help="How many calls to send to the judge at once. Default: 4, or 1 for a model on "
        "this machine.",
        envvar="ASSAY_JUDGE_CONCURRENCY",
        min=1,
        metavar="N",
    ),
]
MaxCostOption = Annotated[
    float | None,
    typer.Option(
        help="Stop before spending more than this many US dollars.",
        envvar="ASSAY_MAX_COST",
        min=0.0,
        metavar="USD",
    ),
]

# Servers
HostOption = Annotated[
    str,
    typer.Option(
        help="Address to listen on; 0.0.0.0 for all network interfaces.",
        envvar="ASSAY_HOST",
        metavar="HOST",
    ),
]
PortOption = Annotated[
    int,
    typer.Option(
        help="Port to listen on; 0 picks a free one.",
        envvar="ASSAY_PORT",
        metavar="PORT",
        min=0,
        max=65535,
    ),
]
CardUrlOption = Annotated[
    str | None,
    typer.Option(
        help="The URL in the agent card. Default: the URL of the request.",
        envvar="ASSAY_CARD_URL",
        metavar="URL",
    ),
]
OpenOption = Annotated[
    bool,
    typer.Option(
        "--open",
        help="Listen beyond this machine without ASSAY_TOKEN: anyone who can connect may call.",
        envvar="ASSAY_OPEN",
    ),
]

MODES = ("hybrid", "tuned", "dense", "bm25")
SearchModeOption = Annotated[
    str, typer.Option(help=f"How to search: {', '.join(MODES)}.", envvar="ASSAY_MODE")
]


def check_mode(mode: str) -> None:
    """Raise `UsageError` for a mode that does not exist."""
    if mode not in MODES:
        raise UsageError(f"--mode must be one of {', '.join(MODES)}, got {mode!r}")


class JudgmentSource(NamedTuple):
    """Judgments and their source; `known` are all document ids, None for a qrels file.

    `judged_by` says in words which of them a model made.
    """

    source: str
    judgments: "Judgments"
    known: "Container[str] | None"
    judged_by: str = ""


def from_qrels(path: Path) -> JudgmentSource:
    """The judgments of a TREC or BEIR file."""
    from assay.data import read_qrels
    from assay.data.qrels import judged_by_model

    return JudgmentSource(str(path), read_qrels(path), None, judged_by_model(path))


def from_dataset(
    name: str, split: str, archive: Path | None, columns: "Sequence[str]" = ()
) -> JudgmentSource:
    """The judgments of one split of a data set, which is downloaded where it is missing."""
    from assay.data import load_dataset

    with progress_bar() as progress:
        dataset = load_dataset(name, archive=archive, columns=columns, progress=progress)
    for warning in dataset.warnings:
        warn(warning)
    source = f"{dataset.name} {split}"
    judgments = dataset.judgments_in(split)
    return JudgmentSource(source, judgments, dataset.corpus_ids, dataset.judged_by)


Command = Callable[..., None]


def with_options(settings: Sequence[RunSetting]) -> Callable[[Command], Command]:
    """Give a command one parameter for each setting, after its first two."""

    def decorate(command: Command) -> Command:
        own = list(inspect.signature(command, eval_str=True).parameters.values())
        fixed = [each for each in own if each.kind is not inspect.Parameter.VAR_KEYWORD]
        table = [_parameter(setting) for setting in settings]
        named = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in fixed]
        parameters = [*named[:2], *table, *named[2:]]
        command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        command.__annotations__ = {each.name: each.annotation for each in parameters}
        return command

    return decorate


def _parameter(setting: RunSetting) -> inspect.Parameter:
    kind: Any = list[str] if setting.kind is tuple else setting.kind
    default = setting.default
    if setting.nullable or setting.option.optional or default in ("", ()):
        kind, default = kind | None, None
    flags = [setting.flag]
    if setting.kind is bool:
        flags = [f"{setting.flag}/{setting.flag.replace('--', '--no-', 1)}"]
    option = typer.Option(
        *flags,
        help=setting.option.help,
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
    context: typer.Context, settings: Sequence[RunSetting], options: Mapping[str, Any]
) -> dict[str, Any]:
    """The values of settings by their names in `RunConfig`, with defaults for what is not given."""
    values = {}
    for setting in settings:
        value = options[setting.param]
        if setting.kind is tuple:
            value = _repeated_values(context, setting, value or [])
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


def _source(context: typer.Context, name: str) -> str:
    source = context.get_parameter_source(name)
    return "" if source is None else source.name
