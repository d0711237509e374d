"""Where the commands that score a file get their judgments: a qrels file or a data set."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from assay.cli.console import progress_bar, warn

if TYPE_CHECKING:
    from collections.abc import Container, Sequence

    from assay.data.dataset import Judgments

Qrels = Annotated[
    Path | None,
    typer.Option(
        help="Judgments: TREC qrels or BEIR tsv. Takes precedence over --dataset.",
        envvar="ASSAY_QRELS",
        metavar="FILE",
    ),
]
DatasetName = Annotated[
    str | None,
    typer.Option(
        help="Use the judgments of a data set, as in assay eval: a name, a folder, or a table of "
        "questions.",
        envvar="ASSAY_DATASET",
        metavar="NAME|PATH",
    ),
]
Split = Annotated[
    str,
    typer.Option(help="Which split of the judgments to use.", envvar="ASSAY_SPLIT", metavar="NAME"),
]
Archive = Annotated[
    Path | None,
    typer.Option(
        help="A local nfcorpus.zip to use instead of downloading it. [env var: NFCORPUS_ARCHIVE]",
        metavar="FILE",
    ),
]


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
