"""`assay data import`, `check` and `sample`: data sets from and into files."""

from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from assay.cli.console import print_json, progress_bar, say, show, show_unwrapped, warn
from assay.cli.options import ArchiveOption, ColumnsOption, JsonOption, option, switch

if TYPE_CHECKING:
    from assay.data.dataset import Dataset


Source = Annotated[
    str,
    typer.Argument(
        help="A table of questions (.csv, .tsv, .jsonl, .parquet), a BEIR or MTEB folder, a BEIR "
        "zip, nfcorpus, notes, beir:NAME, hf:ORG/NAME or ir_datasets:NAME.",
        metavar="SRC",
        show_default=False,
    ),
]
NewFolder = Annotated[
    Path, option("The new folder, in BEIR format.", "ASSAY_DATA_OUT", "DIR", "--out")
]


def import_dataset(
    source: Source,
    out: NewFolder,
    columns: ColumnsOption = None,
    corpus: Annotated[
        Path | None,
        option(
            "The documents: a table with doc_id, text and optionally title.",
            "ASSAY_CORPUS",
            "FILE",
        ),
    ] = None,
    archive: ArchiveOption = None,
    as_json: JsonOption = False,
) -> None:
    """Convert a data set to a folder in BEIR format."""
    from assay.data.beir import read_documents, write_new_beir
    from assay.data.load import load_dataset
    from assay.data.text_file import Findings

    with progress_bar() as progress:
        dataset = load_dataset(source, archive=archive, columns=columns or (), progress=progress)
    if corpus is not None:
        expected, findings = dataset.known_ids, Findings()
        documents = read_documents([corpus.expanduser()], findings)
        dataset = replace(
            dataset, documents=documents, warnings=(*dataset.warnings, *findings.messages)
        )
        lacking = expected - dataset.documents.keys()
        if lacking:
            every = "; all of them: is it another collection?" if lacking == expected else ""
            warn(
                f"expected ids that {corpus} does not have: {len(lacking):,}, for example "
                f"{min(lacking)!r}{every}"
            )
    for warning in dataset.warnings:
        warn(warning)
    write_new_beir(dataset, out)
    _show_written(dataset, out, as_json)


def check_data(
    source: Source,
    columns: ColumnsOption = None,
    archive: ArchiveOption = None,
    strict: Annotated[bool, switch("--strict", "Exit with 1 for warnings as well.")] = False,
    as_json: JsonOption = False,
) -> None:
    """List the errors in a data set, with line numbers.

    Exit codes: 0 no errors, 1 errors, 2 usage error or no such data set.
    """
    from assay.data.load import check_dataset
    from assay.report.numbers import count, counted

    with progress_bar() as progress:
        found = check_dataset(source, archive=archive, columns=columns or (), progress=progress)
    if as_json:
        print_json(asdict(found))
    else:
        for message in found.errors:
            show_unwrapped(f"error: {message}")
        if found.error_count > len(found.errors):
            show_unwrapped(f"and {count(found.error_count - len(found.errors))} more errors")
        for message in found.warnings:
            show_unwrapped(f"warning: {message}")
        show(
            f"{counted(found.error_count, 'error')}, {counted(len(found.warnings), 'warning')}: "
            f"{count(found.queries)} queries, {count(found.judgments)} judgments and "
            f"{count(found.documents)} documents were read"
        )
    raise typer.Exit(1 if found.error_count or (strict and found.warnings) else 0)


def sample(
    source: Source,
    out: NewFolder,
    queries: Annotated[
        int,
        option("How many queries to keep.", "ASSAY_NUM_QUERIES", "N", "--num-queries", "-n", min=1),
    ] = 50,
    documents: Annotated[
        int,
        option(
            "How many documents to keep: all that are judged for the queries, then others.",
            "ASSAY_SAMPLE_DOCUMENTS",
            "N",
            min=0,
        ),
    ] = 1000,
    split: Annotated[
        str, option("Which split of the judgments to draw from.", "ASSAY_SPLIT", "NAME")
    ] = "test",
    seed: Annotated[int, option("Random seed of the sample.", "ASSAY_SEED", "S", min=0)] = 42,
    columns: ColumnsOption = None,
    archive: ArchiveOption = None,
    as_json: JsonOption = False,
) -> None:
    """Draw a small data set from a large one."""
    from assay.data.beir import write_new_beir
    from assay.data.dataset import sample_dataset
    from assay.data.load import load_dataset

    with progress_bar() as progress:
        dataset = load_dataset(source, archive=archive, columns=columns or (), progress=progress)
    small = sample_dataset(dataset, queries, split=split, documents=documents, seed=seed)
    write_new_beir(small, out)
    _show_written(small, out, as_json)
    if len(small.documents) < len(dataset.documents):
        say("note: scores on fewer documents are higher; compare them only with each other")


def _show_written(dataset: "Dataset", out: Path, as_json: bool) -> None:
    from assay.report.numbers import counted

    judgments = sum(len(each) for split in dataset.judgments.values() for each in split.values())
    sizes = {
        "queries": len(dataset.queries),
        "judgments": judgments,
        "documents": len(dataset.documents),
        "answers": len(dataset.answers),
    }
    if as_json:
        print_json({"folder": str(out), **sizes})
        return
    words = [
        counted(sizes["queries"], "query", "queries"),
        counted(judgments, "judgment"),
        counted(sizes["documents"], "document"),
    ]
    show_unwrapped(f"{out}: {', '.join(words)}")
    say(f"evaluate on it with: assay eval TARGET --dataset {out}")
