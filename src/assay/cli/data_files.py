"""`assay data import`, `check` and `sample`: data sets from and into files."""

from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from assay.cli.console import print_json, say, show, show_unwrapped, warn
from assay.cli.progress import progress_bar
from assay.errors import UsageError

if TYPE_CHECKING:
    from assay.data.dataset import Dataset

Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON on stdout.")]
Archive = Annotated[
    Path | None,
    typer.Option(
        help="A local nfcorpus.zip to use instead of downloading it. [env var: NFCORPUS_ARCHIVE]"
    ),
]
Columns = Annotated[
    list[str] | None,
    typer.Option(
        help="Which column of a table holds what: query=Frage,ids=docs. Keys: query, ids, grades, "
        "doc_id, grade, query_id, answer, tags.",
        envvar="ASSAY_COLUMNS",
        metavar="KEY=COLUMN",
    ),
]
Source = Annotated[
    str,
    typer.Argument(
        help="A table of questions (.csv, .tsv, .jsonl, .parquet), a BEIR or MTEB folder, a BEIR "
        "zip, nfcorpus, notes, beir:NAME, hf:ORG/NAME or ir_datasets:NAME.",
        metavar="SRC",
        show_default=False,
    ),
]
Out = Annotated[
    Path,
    typer.Option(
        "--out", help="The new folder, in BEIR format.", envvar="ASSAY_DATA_OUT", metavar="DIR"
    ),
]


def import_dataset(
    source: Source,
    out: Out,
    columns: Columns = None,
    corpus: Annotated[
        Path | None,
        typer.Option(
            help="The documents: a table (doc_id, text and optionally title), or a file or folder "
            "of a TREC collection (<DOC> blocks, JSON lines, collection.tsv; .gz too).",
            envvar="ASSAY_CORPUS",
            metavar="FILE|DIR",
        ),
    ] = None,
    qrels: Annotated[
        Path | None,
        typer.Option(
            help="Judgments, TREC or BEIR: SRC is then a file of TREC topics.",
            envvar="ASSAY_TOPICS_QRELS",
            metavar="FILE",
        ),
    ] = None,
    archive: Archive = None,
    json: Json = False,
) -> None:
    """Write a data set into a folder in BEIR format."""
    from assay.data.beir import write_new_beir
    from assay.data.load import load_dataset
    from assay.data.text_file import Findings
    from assay.data.topics import read_trec
    from assay.data.trec_corpus import read_corpus

    if qrels is not None:
        if columns or archive:
            raise UsageError("--columns and --archive have no effect on topics (--qrels)")
        dataset = read_trec(Path(source), qrels)
    else:
        with progress_bar() as progress:
            dataset = load_dataset(
                source, archive=archive, columns=columns or (), progress=progress
            )
    if corpus is not None:
        expected, findings = dataset.known_ids, Findings()
        documents = read_corpus(corpus.expanduser(), findings)
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
    _show_written(dataset, out, json)


def check(
    source: Source,
    columns: Columns = None,
    archive: Archive = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit with 1 for warnings as well.")
    ] = False,
    json: Json = False,
) -> None:
    """List what is wrong with a data set, with line numbers.

    Exit codes: 0 no errors, 1 errors, 2 there is no such data set.
    """
    from assay.data.checking import check_dataset
    from assay.report.numbers import count, counted

    with progress_bar() as progress:
        found = check_dataset(source, archive=archive, columns=columns or (), progress=progress)
    if json:
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
    out: Out,
    queries: Annotated[
        int,
        typer.Option(
            "--num-queries", "-n", help="How many queries to keep.", min=1, metavar="N",
            envvar="ASSAY_NUM_QUERIES",
        ),
    ] = 50,
    documents: Annotated[
        int,
        typer.Option(
            help="How many documents to keep: all that are judged for the queries, then others.",
            min=0, metavar="N", envvar="ASSAY_SAMPLE_DOCUMENTS",
        ),
    ] = 1000,
    split: Annotated[
        str, typer.Option(help="Which judgments to draw from.", envvar="ASSAY_SPLIT")
    ] = "test",
    seed: Annotated[
        int, typer.Option(help="Random seed of the sample.", min=0, envvar="ASSAY_SEED")
    ] = 42,
    columns: Columns = None,
    archive: Archive = None,
    json: Json = False,
) -> None:  # fmt: skip
    """Cut a small data set from a large one."""
    from assay.data.beir import write_new_beir
    from assay.data.load import load_dataset
    from assay.data.sample import sample_dataset

    with progress_bar() as progress:
        dataset = load_dataset(source, archive=archive, columns=columns or (), progress=progress)
    small = sample_dataset(dataset, queries, split=split, documents=documents, seed=seed)
    write_new_beir(small, out)
    _show_written(small, out, json)
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
