"""Options that several verbs share, and what they stand for: data sets, judgments, judges."""

from collections.abc import Container, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from assay.cli.console import progress_bar, say, warn
from assay.cli.verb import is_given, is_on_command_line, option, setting_option, switch
from assay.errors import DownloadError, UsageError
from assay.llm.provider_kinds import PROVIDER_FORMS
from assay.run.config import JudgeSettings, RunConfig, named_target, settings, without_unneeded
from assay.search import MODES

if TYPE_CHECKING:
    from assay.data.dataset import Dataset, Judgments

RUNS_OPTION = option(Path("runs"), "Folder of the runs.", "ASSAY_OUT", "DIR", "--runs")
OUT_OPTION = option(
    Path("runs"), "Folder of the runs.", "ASSAY_OUT", "DIR", "--runs", "--out", group="Output"
)
DATASET_OPTION = option(
    "nfcorpus", "nfcorpus, notes, or a path in BEIR format.", "ASSAY_DATASET", "NAME|PATH"
)
COLUMNS_OPTION = setting_option("columns")
QRELS_OPTION = option(
    None, "Judgments instead of --dataset: TREC qrels or BEIR tsv.", "ASSAY_QRELS", "FILE"
)
JUDGED_DATASET_OPTION = option(None, "The data set with judgments.", "ASSAY_DATASET", "NAME|PATH")
SPLIT_OPTION = setting_option("split")
METRICS_OPTION = option(
    None,
    "Which metrics to show: all, or names. Default: nDCG, Recall, MRR and Hit.",
    "ASSAY_METRICS",
    "NAME,…|all",
    group="Usual options",
    separator=",",
)
ENGINE_OPTION = option(
    None,
    "Run on a Ray cluster: that at RAY_ADDRESS, else on this machine.",
    "ASSAY_ENGINE",
    "ray",
    choices=("ray",),
    group="Run",
    usual=False,
)
JUDGE_OPTION = option(
    None,
    f"The model that judges: {PROVIDER_FORMS}. Default: ollama.",
    "RAG_EVAL_PROVIDER",
    "SPEC",
    "--judge",
    "--provider",
)
MAX_COST_OPTION = option(
    None, "Stop before spending more than this many US dollars.", "ASSAY_MAX_COST", "USD", min=0
)
HOST_OPTION = option(
    "127.0.0.1", "Address to listen on; 0.0.0.0 for all network interfaces.", "ASSAY_HOST", "HOST"
)


def port_option(default: int, variable: str = "ASSAY_PORT") -> Any:
    """Where a server listens."""
    return option(
        default, "Port to listen on; 0 picks a free one.", variable, "PORT", min=0, max=65535
    )


ALLOW_HOSTS_OPTION = option(
    "",
    "Private hosts, host:port or networks that may be evaluated, if not listening on loopback.",
    "ASSAY_ALLOWED_HOSTS",
    "HOST,...",
)
CARD_URL_OPTION = option(
    None, "The URL in the agent card. Default: the URL of the request.", "ASSAY_CARD_URL", "URL"
)
OPEN_OPTION = switch(
    "--open", "Listen beyond this machine without ASSAY_TOKEN: anyone may call.", "ASSAY_OPEN"
)
SEARCH_MODE_OPTION = option(
    "hybrid", f"How to search: {', '.join(MODES)}.", "ASSAY_MODE", "MODE", choices=MODES
)
EMBEDDER_OPTION = setting_option("embedder")


def choose_dataset(
    name: str | None, columns: Sequence[str] = (), *, fallback: bool = True
) -> "Dataset":
    """What was asked for; if nothing was, NFCorpus, or else the bundled set with a warning.

    Without `fallback` there is no other set: a foreign agent does not know the bundled documents.
    """
    try:
        dataset = load_with_warnings(name or "nfcorpus", columns)
    except DownloadError as error:
        if name is not None:
            raise
        if not fallback:
            raise UsageError(
                f"NFCorpus is not available: {error}; name the data of the target with --dataset"
            ) from None
        warn(f"NFCorpus is not available: {error}")
        warn("evaluating on the bundled set 'notes' instead; its scores are not comparable")
        dataset = load_with_warnings("notes")
    if not dataset.documents:
        say(f"note: {dataset.name!r} has no documents: misspelled ids cannot be detected")
    return dataset


def load_with_warnings(name: str, columns: Sequence[str] = ()) -> "Dataset":
    """A data set; what is odd about it is said on stderr."""
    from assay.data import load_dataset

    with progress_bar() as progress:
        dataset = load_dataset(name, columns=columns, progress=progress)
    for warning in dataset.warnings:
        warn(warning)
    return dataset


class JudgmentSource(NamedTuple):
    """Judgments and their source; `known` are all document ids, None for a qrels file.

    `judged_by` says which of them a model made.
    """

    source: str
    judgments: "Judgments"
    known: Container[str] | None
    judged_by: str = ""


def load_judgments(
    qrels: Path | None, dataset: str | None, split: str, columns: Sequence[str] = ()
) -> JudgmentSource:
    """The judgments of a TREC or BEIR file, else of one split of a data set. Raises `UsageError`.

    A data set is downloaded if it is missing.
    """
    from assay.data.qrels import judged_by_model, read_qrels

    if qrels is not None:
        return JudgmentSource(str(qrels), read_qrels(qrels), None, judged_by_model(qrels))
    if dataset is None:
        raise UsageError("no judgments given: pass --qrels FILE, or --dataset NAME with --split")
    data = load_with_warnings(dataset, columns)
    judgments = data.judgments_in(split)
    return JudgmentSource(f"{data.name} {split}", judgments, data.corpus_ids, data.judged_by)


def judge_spec(given: str | None, judge_set: Sequence[str] | None = ()) -> str:
    """What `--judge` or `RAG_EVAL_PROVIDER` names; empty if no model judges."""
    from assay.llm.passages import EXTRACTIVE
    from assay.llm.providers.opening import configured_spec, open_provider

    spec = given or configured_spec() or ""
    if spec in ("", EXTRACTIVE):
        return ""
    # A wrong name, or an unknown price, is reported before the run, not after it.
    open_provider(spec, max_cost=JudgeSettings.read(judge_set or (), "judge_set").max_cost)
    return spec


def read_config(
    context: click.Context, names: Iterable[str], options: Mapping[str, Any], **fixed: Any
) -> RunConfig:
    """The settings of a run: those of `names` that a verb was given, and `fixed` ones.

    What a variable or assay.toml says is left out if it needs a setting that is not there: it may
    be meant for other runs. On the command line it is an error.
    """
    values: dict[str, Any] = {}
    for setting in (settings()[name] for name in names):
        value = options[setting.param]
        if setting.repeatable:
            value = setting.read(tuple(value or ()))
        values[setting.name] = setting.default if value is None else value
    typed = {n: v for n, v in values.items() if is_on_command_line(context, settings()[n].param)}
    return RunConfig(**without_unneeded(values | fixed) | typed | fixed)


def use_named_target(
    context: click.Context, target: str | None, options: dict[str, Any]
) -> str | None:
    """The target of `[target.NAME]` in assay.toml; its settings go into `options`.

    Flags and variables win over the table, the table over what the file says for the command.
    """
    other_data = is_given(context, "dataset")
    if other_data and not is_given(context, "columns"):
        options["columns"] = None  # the file names the columns of its own data set
    found = named_target(target or "")
    if found is None:
        return target
    for param, value in found[1].items():
        if param in options and not is_given(context, param):
            options[param] = None if other_data and param == "columns" else value
    return found[0]


def require_used(context: click.Context, names: Container[str], why: str) -> None:
    """Raise `UsageError` for an option on the command line that would change nothing.

    `names` are its parameters, `why` ends the sentence "--flag has no effect".
    """
    for param in context.command.params:
        if param.name in names and is_on_command_line(context, param.name or ""):
            raise UsageError(f"{param.opts[0]} has no effect {why}")
