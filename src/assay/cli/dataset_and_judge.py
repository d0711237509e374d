"""The data set and the judge that the options of a command name, or that stand in for them."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from assay.cli.console import progress_bar, say, warn
from assay.cli.options import option
from assay.errors import DownloadError, UsageError

if TYPE_CHECKING:
    from assay.data.dataset import Dataset

_DEFAULT = "nfcorpus"
_FALLBACK = "notes"

Archive = Annotated[
    Path | None,
    option(
        "A local nfcorpus.zip to use instead of downloading it. [env var: NFCORPUS_ARCHIVE]",
        metavar="FILE",
        rich_help_panel="Data",
    ),
]


def choose_dataset(
    name: str | None,
    archive: Path | None,
    columns: Sequence[str] = (),
    *,
    fallback: bool = True,
) -> "Dataset":
    """What was asked for; if nothing was, NFCorpus, or else the bundled set with a warning.

    Without `fallback` there is no other set: a foreign agent does not know the bundled documents.
    """
    from assay.data import load_dataset

    try:
        with progress_bar() as progress:
            dataset = load_dataset(
                name or _DEFAULT, archive=archive, columns=columns, progress=progress
            )
    except DownloadError as error:
        if name is not None:
            raise
        if not fallback:
            raise UsageError(
                f"NFCorpus is not available: {error}; name the data that the target searches with "
                "--dataset"
            ) from None
        say("")
        warn(f"NFCorpus is not available: {error}")
        warn(
            f"evaluating on the bundled set {_FALLBACK!r} instead; its scores are not comparable "
            "with NFCorpus"
        )
        say("")
        dataset = load_dataset(_FALLBACK)
    for warning in dataset.warnings:
        warn(warning)
    if not dataset.documents:
        say(
            f"note: {dataset.name!r} has questions and ids but no documents: ids that do not exist "
            "are not noticed, answers are checked only against the contexts that the target "
            "returns, and builtin: targets and --counterfactuals are not available"
        )
    return dataset


def judge_spec(given: str | None, max_cost: float | None = None) -> str:
    """What `--judge` or `RAG_EVAL_PROVIDER` names; empty if no model judges."""
    from assay.llm.passages import EXTRACTIVE
    from assay.llm.providers.opening import configured_spec, open_provider

    spec = given or configured_spec() or ""
    if spec in ("", EXTRACTIVE):
        return ""
    # A wrong name, or an unknown price, is reported before the run, not after it.
    open_provider(spec, max_cost=max_cost)
    return spec
