"""`assay data`: the contents of a data set, what a score on it can show, and new ones."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from rich.text import Text

from assay.cli.console import Unwrapped, facts, progress_bar, warn
from assay.cli.options import COLUMNS_OPTION
from assay.cli.verb import Result, argument, option, switch
from assay.data.beir import read_documents, write_new_beir
from assay.data.dataset import Dataset, sample_dataset
from assay.data.load import KNOWN, check_dataset, load_dataset
from assay.data.public_sources import SOURCES
from assay.data.text_file import Findings
from assay.metrics.describe import CUTOFFS, describe_dataset
from assay.net.json import JsonObject
from assay.report.console import figures_table, labeled
from assay.report.numbers import approximate, count, counted, figure

if TYPE_CHECKING:
    from rich.console import RenderableType

_LABEL_WIDTH = 22
SOURCE_ARGUMENT = argument(
    "SRC",
    "A table of questions (.csv, .tsv, .jsonl, .parquet), a folder or zip in BEIR format, or a "
    "name: nfcorpus, notes, beir:NAME, hf:ORG/NAME, ir_datasets:NAME.",
)
NEW_FOLDER_OPTION = option(..., "The new folder, in BEIR format.", "ASSAY_DATA_OUT", "DIR", "--out")
SPLIT_OPTION = option("test", "Which split of the judgments to use.", "ASSAY_SPLIT", "NAME")


def list_datasets() -> Result:
    """List the data sets that Assay knows by name."""
    known = KNOWN | {f"{prefix}:NAME": what for prefix, (_, what) in SOURCES.items()}
    text = [labeled(name, what) for name, what in known.items()]
    note = "Every command also takes the path of a folder or zip in BEIR format, or of a table."
    return Result(KNOWN, text, notes=[note])


def info(
    source: str = SOURCE_ARGUMENT,
    columns: list[str] | None = COLUMNS_OPTION,
    split: str = SPLIT_OPTION,
) -> Result:
    """Describe a data set: counts, grades, ceilings, queries needed."""
    found = describe_dataset(_load(source, columns), split)
    return Result(found, _rendered(found))


def import_dataset(
    source: str = SOURCE_ARGUMENT,
    out: Path = NEW_FOLDER_OPTION,
    columns: list[str] | None = COLUMNS_OPTION,
    corpus: Path | None = option(
        None, "A table of documents: doc_id, text, title.", "ASSAY_CORPUS"
    ),
) -> Result:
    """Convert a data set to a folder in BEIR format."""
    dataset = _load(source, columns)
    if corpus is not None:
        expected, findings = dataset.known_ids, Findings()
        documents = read_documents([corpus.expanduser()], findings)
        dataset = replace(
            dataset, documents=documents, warnings=(*dataset.warnings, *findings.messages)
        )
        if lacking := expected - dataset.documents.keys():
            warn(
                f"{corpus} lacks {len(lacking):,} of {counted(len(expected), 'expected id')}, for "
                f"example {min(lacking)!r}"
            )
    for warning in dataset.warnings:
        warn(warning)
    write_new_beir(dataset, out)
    return _written(dataset, out)


def check_data(
    source: str = SOURCE_ARGUMENT,
    columns: list[str] | None = COLUMNS_OPTION,
    strict: bool = switch("--strict", "Exit with 1 for warnings as well."),
) -> Result:
    """List the errors in a data set, with line numbers.

    Exit codes: 0 no errors, 1 errors, 2 usage error or no such data set.
    """
    with progress_bar() as progress:
        found = check_dataset(source, columns=columns or (), progress=progress)

    lines = [f"error: {message}" for message in found.errors]
    if more := found.error_count - len(found.errors):
        lines.append(f"and {count(more)} more errors")
    lines += [f"warning: {message}" for message in found.warnings]
    read = (
        f"{counted(found.error_count, 'error')}, {counted(len(found.warnings), 'warning')}: "
        f"{count(found.queries)} queries, {count(found.judgments)} judgments and "
        f"{count(found.documents)} documents were read"
    )
    failed = found.error_count or (strict and found.warnings)
    return Result(found, [*map(Unwrapped, lines), read], exit_code=1 if failed else 0)


def sample(
    source: str = SOURCE_ARGUMENT,
    out: Path = NEW_FOLDER_OPTION,
    queries: int = option(
        50, "How many queries to keep.", "ASSAY_NUM_QUERIES", "N", "--num-queries", "-n", min=1
    ),
    documents: int = option(
        1000, "How many documents to keep, first the judged.", "ASSAY_SAMPLE_DOCUMENTS", min=0
    ),
    split: str = SPLIT_OPTION,
    seed: int = option(42, "Random seed of the sample.", "ASSAY_SEED", "S", min=0),
    columns: list[str] | None = COLUMNS_OPTION,
) -> Result:
    """Draw a small data set from a large one."""
    dataset = _load(source, columns)
    small = sample_dataset(dataset, queries, split=split, documents=documents, seed=seed)
    write_new_beir(small, out)
    result = _written(small, out)
    if len(small.documents) == len(dataset.documents):
        return result
    note = "note: scores on fewer documents are higher; compare them only with each other"
    return replace(result, notes=[*result.notes, note])


def _load(source: str, columns: list[str] | None) -> Dataset:
    with progress_bar() as progress:
        return load_dataset(source, columns=columns or (), progress=progress)


def _written(dataset: Dataset, out: Path) -> Result:
    value = {
        "folder": str(out),
        "queries": len(dataset.queries),
        "judgments": sum(len(q) for split in dataset.judgments.values() for q in split.values()),
        "documents": len(dataset.documents),
        "answers": len(dataset.answers),
    }
    return Result(value, notes=[f"evaluate on it with: assay eval TARGET --dataset {out}"])


def _rendered(found: JsonObject) -> Iterator["RenderableType"]:
    yield Text(f"data set {found['name']}", style="bold")
    documents, empty = count(found["documents"]), count(found["empty_documents"])
    middle, longest = found["median_length"], found["longest"]
    shown: JsonObject = {
        "documents": f"{documents}, of which empty: {empty}",
        "words_in_a_document": f"{middle:.0f} in the median, {longest} at most",
        "queries": found["queries"],
        "reference_answers": found["answers"],
        "tags": dict(found["tags"]),
        "fingerprint": found["fingerprint"][:16],
    }
    if not found["documents"]:
        shown |= {"documents": "none: for a service that has its own", "words_in_a_document": None}
    if overlap := found["overlap_with_train"]:
        shown["seen_in_train"] = (
            f"{overlap['seen_in_train']} of {overlap['relevant_documents']} documents relevant in "
            f"{found['split']}; {overlap['queries_like_a_train_query']} queries nearly repeat one"
        )
    yield facts(shown)

    yield ""
    splits = figures_table(("split", _LABEL_WIDTH), "queries", "with relevant", "judgments")
    splits.add_column("grade: judgments", overflow="fold")
    for name, split in found["splits"].items():
        figures = (count(n) for n in (split["queries"], split["measurable"], split["judgments"]))
        grades = ", ".join(f"{grade}: {count(n)}" for grade, n in split["grades"].items())
        splits.add_row(Text(name), *figures, grades)
    yield splits

    if found["ceilings"]:
        yield from ("", Text(f"the highest means that any system can reach on {found['split']}"))
        ceilings = figures_table(("metric", _LABEL_WIDTH), *(f"@{k}" for k in CUTOFFS))
        for metric in ("Recall", "Precision"):
            ceilings.add_row(metric, *(figure(found["ceilings"][f"{metric}@{k}"]) for k in CUTOFFS))
        yield ceilings

    yield from ("", Text("queries needed to distinguish two systems"))
    available = found["splits"][found["split"]]["measurable"]
    has = f"{found['split']} has {count(available)}"
    resolution = figures_table(("difference", _LABEL_WIDTH), "queries", has)
    for difference, needed in found["queries_needed"].items():
        verdict = "enough" if available >= needed else "too few"
        resolution.add_row(difference, approximate(needed), verdict)
    yield resolution
    yield Text(
        f"assumed: paired differences with a standard deviation of {found['assumed_std']:g}; "
        "power 0.8, significance 0.05",
        style="dim",
    )
    for warning in found["warnings"]:
        yield from ("", Text(f"warning: {warning}", style="yellow"))
