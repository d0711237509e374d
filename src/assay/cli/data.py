"""`assay data`: the contents of a data set, what a score on it can show, and new questions."""

from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from assay.cli.console import print_json, progress_bar, say, show
from assay.cli.data_files import check_data, import_dataset, sample
from assay.cli.help import verbs
from assay.cli.made_questions import questions
from assay.cli.options import ArchiveOption, ColumnsOption, JsonOption, option

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from assay.metrics.describe import DatasetFacts

data_app = verbs("data", "List, describe, check, import, sample and make data sets.")

_LABEL_WIDTH = 22

data_app.command("import")(import_dataset)
data_app.command("check")(check_data)
data_app.command("sample")(sample)
data_app.command("questions")(questions)


@data_app.command("list")
def list_datasets(as_json: JsonOption = False) -> None:
    """List the data sets that Assay knows by name."""
    from assay.data.load import KNOWN, SOURCES

    if as_json:
        print_json(KNOWN)
        return
    show(*(_fact(name, what) for name, what in KNOWN.items()))
    show(*(_fact(f"{prefix}:NAME", each.what) for prefix, each in SOURCES.items()))
    say("Every command also takes the path of a folder or zip in BEIR format, or of a table.")


@data_app.command("info")
def info(
    name: Annotated[
        str,
        typer.Argument(
            help="nfcorpus, notes, beir:NAME, hf:ORG/NAME, ir_datasets:NAME, or the path of a "
            "BEIR or MTEB folder, a BEIR zip or a table.",
            metavar="NAME|PATH",
        ),
    ],
    columns: ColumnsOption = None,
    split: Annotated[
        str, option("Which split of the judgments to describe.", "ASSAY_SPLIT", "NAME")
    ] = "test",
    archive: ArchiveOption = None,
    std: Annotated[
        float | None,
        option(
            "Standard deviation of the paired per-query differences "
            "between two systems, if you have measured it. Default: 0.2.",
            "ASSAY_STD",
            "SD",
            min=0.0,
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Describe a data set: counts, grades, ceilings, queries needed."""
    from assay.data import load_dataset
    from assay.metrics.describe import ASSUMED_STD, describe_dataset

    with progress_bar() as progress:
        dataset = load_dataset(name, archive=archive, columns=columns or (), progress=progress)
    facts = describe_dataset(dataset, split, std=ASSUMED_STD if std is None else std)
    if as_json:
        print_json(asdict(facts))
    else:
        show(*_rendered(facts))


def _rendered(facts: "DatasetFacts") -> Iterator["RenderableType"]:
    from rich.text import Text

    yield Text(f"data set {facts.name}", style="bold")
    for label, words in _content(facts):
        yield _fact(label, words)
    yield from ("", _splits(facts))
    if facts.ceilings:
        yield from ("", Text(f"the highest means that any system can reach on {facts.split}"))
        yield _ceilings(facts)
    yield from ("", Text("queries needed to distinguish two systems"), _resolution(facts))
    yield Text(
        f"assumed: paired differences with a standard deviation of {facts.assumed_std:g} (--std); "
        "power 0.8, significance 0.05",
        style="dim",
    )
    for warning in facts.warnings:
        yield from ("", Text(f"warning: {warning}", style="yellow"))


def _content(facts: "DatasetFacts") -> Iterator[tuple[str, str]]:
    from assay.report.numbers import count, percent

    if facts.documents:
        empty = count(facts.empty_documents)
        yield "documents", f"{count(facts.documents)}, of which empty: {empty}"
        median, longest = count(round(facts.median_length)), count(facts.longest)
        yield "words in a document", f"{median} in the median, {longest} at most"
    else:
        yield "documents", "none: for a service that has its own"
    yield "queries", count(facts.queries)
    if facts.answers:
        yield "reference answers", count(facts.answers)
    if facts.tags:
        yield "tags of queries", ", ".join(f"{tag} {count(n)}" for tag, n in facts.tags.items())
    if overlap := facts.overlap_with_train:
        seen, relevant = overlap.seen_in_train, overlap.relevant_documents
        known = f"{count(seen)} of {count(relevant)} documents relevant in {facts.split}"
        yield "seen in train", f"{known} ({percent(overlap.share_seen)})"
        similar = count(overlap.queries_like_a_train_query)
        yield "", f"{similar} queries of {facts.split} nearly repeat a train query"
    yield "fingerprint", facts.fingerprint[:16]


def _splits(facts: "DatasetFacts") -> "Table":
    from rich.text import Text

    from assay.report.numbers import count

    table = _table("split", "queries", "with relevant", "judgments")
    table.add_column("grade: judgments", overflow="fold")
    for name, split in facts.splits.items():
        figures = (count(n) for n in (split.queries, split.measurable, split.judgments))
        grades = ", ".join(f"{grade}: {count(n)}" for grade, n in split.grades.items())
        table.add_row(Text(name), *figures, grades)
    return table


def _ceilings(facts: "DatasetFacts") -> "Table":
    from assay.metrics.describe import CUTOFFS
    from assay.report.numbers import figure

    table = _table("metric", *(f"@{k}" for k in CUTOFFS))
    for metric in ("Recall", "Precision"):
        table.add_row(metric, *(figure(facts.ceilings[f"{metric}@{k}"]) for k in CUTOFFS))
    return table


def _resolution(facts: "DatasetFacts") -> "Table":
    from assay.report.numbers import count, figure

    has = f"{facts.split} has {count(facts.splits[facts.split].measurable)}"
    table = _table("difference", "queries", has)
    for row in facts.resolution:
        verdict = "enough" if row.enough else "too few"
        table.add_row(figure(row.difference, 2), count(row.queries_needed), verdict)
    return table


def _fact(label: str, words: str) -> "Table":
    from assay.report.console import labeled

    return labeled(label, words, width=_LABEL_WIDTH)


def _table(first: str, *figures: str) -> "Table":
    from assay.report.console import figures_table

    return figures_table((first, _LABEL_WIDTH), *figures)
