"""`assay data import`, `check`, `sample` and `rekey`: data sets from and into files."""

from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from assay.cli.console import print_json, progress_bar, say, show, show_unwrapped, warn
from assay.cli.options import ArchiveOption, ColumnsOption, JsonOption, option, switch
from assay.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from assay.data.dataset import Dataset, Document
    from assay.data.rekey import RekeyMatch, RekeyResult


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
            "The documents: a table (doc_id, text and optionally title), or a file or folder "
            "of a TREC collection (<DOC> blocks, JSON lines, collection.tsv; .gz too).",
            "ASSAY_CORPUS",
            "FILE|DIR",
        ),
    ] = None,
    qrels: Annotated[
        Path | None,
        option(
            "Judgments, TREC or BEIR: SRC is then a file of TREC topics.",
            "ASSAY_TOPICS_QRELS",
            "FILE",
        ),
    ] = None,
    archive: ArchiveOption = None,
    as_json: JsonOption = False,
) -> None:
    """Convert a data set to a folder in BEIR format."""
    from assay.data.beir import write_new_beir
    from assay.data.load import load_dataset
    from assay.data.text_file import Findings
    from assay.data.trec_corpus import read_corpus, read_trec

    if qrels is not None:
        if columns or archive:
            raise UsageError(
                "--columns and --archive have no effect on topics (--qrels); leave them out"
            )
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


_SHOWN = 5


def rekey(
    old: Annotated[
        str,
        typer.Argument(
            help="The data set with the labels, and the texts that they were given to.",
            metavar="OLD",
            show_default=False,
        ),
    ],
    new: Annotated[
        str,
        typer.Argument(
            help="The new documents: a data set, or a table, file or folder of documents.",
            metavar="NEW",
            show_default=False,
        ),
    ],
    matches: Annotated[
        Path, option("Where to write the proposals.", "ASSAY_REKEY_LIST", "FILE.csv", "--list")
    ] = Path("rekey.csv"),
    accept: Annotated[
        Path | None,
        option(
            "Carry over what this list accepts: the file that --list wrote, corrected.",
            metavar="FILE.csv",
        ),
    ] = None,
    threshold: Annotated[
        float | None,
        option(
            "Carry over all proposals with at least this score, without a review.",
            "ASSAY_REKEY_THRESHOLD",
            "SCORE",
            min=0.5,
            max=1.0,
        ),
    ] = None,
    out: Annotated[
        Path | None,
        option("The new data set's folder, with --accept or --threshold.", "ASSAY_DATA_OUT", "DIR"),
    ] = None,
    as_json: JsonOption = False,
    columns: ColumnsOption = None,
) -> None:
    """Carry labels over to documents with new ids, by text.

    Without --accept or --threshold it only writes the list of proposals, for you to review.
    """
    from assay.data.rekey import carry_over, find_matches, read_accepted, write_matches

    if accept is not None and threshold is not None:
        raise UsageError("proposals are accepted by --accept or by --threshold; omit one of them")
    decides = accept is not None or threshold is not None
    if decides and out is None:
        raise UsageError("add --out DIR, the folder of the new data set")
    if out is not None and not decides:
        raise UsageError(
            "--out needs the proposals to accept: add --accept FILE.csv, the corrected list, or "
            "--threshold SCORE"
        )
    labels, documents = _load(old, new, columns or ())
    if accept is not None:
        pairs = read_accepted(accept)
        _finish(carry_over(labels, documents, pairs), out, as_json)
        return
    found = find_matches(labels, documents)
    write_matches(matches, found)
    if threshold is None:
        _say_found(found, matches, as_json)
        return
    pairs = [(m.old_id, m.new_id) for m in found if m.new_id and m.score >= threshold]
    say(f"wrote {matches}: what was proposed, with both texts")
    _finish(carry_over(labels, documents, pairs), out, as_json)


def _load(old: str, new: str, columns: "Sequence[str]") -> "tuple[Dataset, Mapping[str, Document]]":
    from assay.data.load import load_dataset

    with progress_bar() as progress:
        labels = load_dataset(old, columns=columns, progress=progress)
        path = Path(new).expanduser()
        if path.exists() and not _is_dataset(path):
            from assay.data.trec_corpus import read_corpus

            return labels, read_corpus(path)
        dataset = load_dataset(new, progress=progress)
    dataset.require_documents("assay data rekey")
    return labels, dataset.documents


def _is_dataset(path: Path) -> bool:
    if not path.is_dir():
        return path.suffix.lower() == ".zip"
    return any(path.glob("queries*")) or any(path.glob("*/queries*"))


def _say_found(found: "list[RekeyMatch]", path: Path, as_json: bool) -> None:
    from assay.report.numbers import count, counted

    documents = {each.old_id: each for each in reversed(found)}
    sure = {each.old_id for each in found if each.sure}
    lost = {doc_id for doc_id, each in documents.items() if each.how == "none"}
    doubtful = len(documents) - len(sure) - len(lost)
    kinds = {"documents": len(documents), "sure": len(sure), "doubtful": doubtful}
    if as_json:
        print_json({"list": str(path), "proposals": len(found), **kinds, "not_found": len(lost)})
        return
    show_unwrapped(
        f"{path}: {counted(len(documents), 'judged document')}, {count(len(sure))} matched with "
        f"certainty, {count(doubtful)} to review, {count(len(lost))} not found"
    )
    say(
        "write yes or no into its column accept, then carry the labels over with: assay data rekey "
        f"OLD NEW --accept {path} --out DIR"
    )


def _finish(result: "RekeyResult", out: Path | None, as_json: bool) -> None:
    from assay.data.beir import write_new_beir
    from assay.report.numbers import count

    assert out is not None
    if not result.carried:
        raise UsageError("no judgment would be carried over; accept some proposals of the list")
    write_new_beir(result.dataset, out)
    lost = result.lost_queries
    if as_json:
        figures = {"judgments": result.judgments, "carried": result.carried}
        print_json({"folder": str(out), **figures, "lost_queries": list(lost)})
    else:
        show_unwrapped(
            f"{out}: {count(result.carried)} of {count(result.judgments)} judgments carried over"
        )
    if lost:
        warn(
            f"questions that have no relevant document any more: {count(len(lost))}, for example "
            f"{', '.join(map(repr, lost[:_SHOWN]))}; they are in no mean"
        )
