"""`assay judge pool` and `assay judge labels`: documents for people to grade, and their grades."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from assay.cli.console import print_json, say, show
from assay.cli.options import ColumnsOption, RunsOption
from assay.errors import UsageError

if TYPE_CHECKING:
    from assay.measure.grading.agreement import GraderAgreement

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
DatasetOption = Annotated[
    str | None,
    typer.Option(help="The data set, where the runs do not name it.", metavar="NAME|PATH"),
]
SplitOption = Annotated[
    str | None, typer.Option(help="Which judgments are there already.", metavar="NAME")
]


def pool(
    sources: Annotated[
        list[str],
        typer.Argument(
            help="Runs (folders or names), or TREC run files with --dataset.", metavar="RUN"
        ),
    ],
    out: Annotated[
        Path, typer.Option("--out", help="The table to write, a .csv file.", metavar="FILE")
    ],
    depth: Annotated[
        int, typer.Option(help="How many documents of each ranking to take.", min=1, metavar="K")
    ] = 10,
    dataset: DatasetOption = None,
    columns: ColumnsOption = None,
    split: SplitOption = None,
    runs: RunsOption = Path("runs"),
    as_json: AsJson = False,
) -> None:
    """Collect what several runs found and nobody judged.

    The table has a row for each query and document with an empty column label: people fill it in
    with grades from 0, or a model with `assay judge grade`. `assay judge labels` reads it back.
    """
    from assay.cli.judge_grade import read_sources
    from assay.measure.grading.pool import write_pool

    if out.suffix.lower() != ".csv":
        raise UsageError(f"a pool is written to a .csv file, got {out.name!r}")
    if out.exists():
        raise UsageError(f"{out} exists, perhaps with grades in it; choose another --out")
    found = read_sources(sources, dataset, split, runs, depth, 0, columns or (), texts=False)
    if not found.pool.pairs:
        say("every document that these runs return is judged: there is nothing to grade")
        return
    write_pool(out, found.pool.pairs)
    queries = len({pair.query_id for pair in found.pool.pairs})
    if as_json:
        print_json({"pool": str(out), "pairs": len(found.pool.pairs), "queries": queries})
    else:
        show(
            f"{out}: {len(found.pool.pairs):,} unjudged documents of {queries:,} queries; fill in "
            f"the column label, then: assay judge labels {out} --out labels.qrels"
        )
    if found.dataset is not None and not found.dataset.documents:
        say("the data set has no documents: the table has ids and no texts")


def labels(
    tables: Annotated[
        list[Path],
        typer.Argument(
            help="A table of a pool for each person who graded, or one that several graded in the "
            "web UI.",
            metavar="POOL.csv",
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option("--out", help="Write the judgments as qrels.", metavar="FILE"),
    ] = None,
    dataset: Annotated[
        str | None,
        typer.Option(help="The data set to add the judgments to.", metavar="NAME|PATH"),
    ] = None,
    columns: ColumnsOption = None,
    split: Annotated[
        str, typer.Option(help="Which of its judgments to add to.", metavar="NAME")
    ] = "test",
    dataset_out: Annotated[
        Path | None,
        typer.Option(help="Write the data set with the new judgments here.", metavar="DIR"),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Turn graded pools into judgments. With several graders, say how far they agree.

    Where graders differ, the median of their grades counts, the lower one of two in the middle.
    """
    from itertools import combinations

    from assay.data.qrels import write_trec_qrels
    from assay.measure.grading.agreement import grader_agreement
    from assay.measure.grading.pool import combine_labels, label_rows

    if (dataset is None) != (dataset_out is None):
        raise UsageError("--dataset names what --dataset-out adds to: pass both or none")
    read: dict[str, dict[tuple[str, str], int]] = {}
    missing = 0
    for path in tables:
        found, rows = _graders_of(path)
        read |= found
        missing += sum(rows - len(labels) for labels in found.values())
    judged = combine_labels(list(read.values()))
    agreement = [(a, b, grader_agreement(read[a], read[b])) for a, b in combinations(read, 2)]
    if out is not None:
        write_trec_qrels(out, label_rows(judged), instead="--dataset-out")
    if dataset is not None and dataset_out is not None:
        _add_to_dataset(dataset, columns or (), split, judged, dataset_out)
    if as_json:
        print_json(_as_json(read, judged, agreement, missing))
        return
    show(f"{len(judged):,} documents judged by {len(read)} grader{'s' * (len(read) > 1)}")
    for a, b, pair in agreement:
        show(_agreement_line(a, b, pair))
    if missing:
        say(f"{missing:,} rows have no label yet")


def _graders_of(path: Path) -> tuple[dict[str, dict[tuple[str, str], int]], int]:
    """The labels of a table and of those who graded it in the web UI, and how many rows it has."""
    from assay.measure.grading.human_grades import TABLE_GRADER, GradedPool

    pool = GradedPool(path)
    found = {
        str(path) if grader == TABLE_GRADER else f"{grader} in {path}": labels
        for grader, labels in pool.grades().items()
        if labels
    }
    if not found:
        raise UsageError(f"{path} has no label yet; fill in the column label with grades from 0")
    return found, len(pool.pairs)


def _add_to_dataset(
    name: str,
    columns: Sequence[str],
    split: str,
    judged: dict[tuple[str, str], int],
    folder: Path,
) -> None:
    from dataclasses import replace

    from assay.cli.eval import choose_dataset
    from assay.data.beir import write_new_beir

    data = choose_dataset(name, None, columns)
    known = {query_id: dict(grades) for query_id, grades in data.judgments.get(split, {}).items()}
    for (query_id, doc_id), grade in judged.items():
        if query_id not in data.queries:
            raise UsageError(f"query {query_id!r} of the labels is not in data set {name!r}")
        known.setdefault(query_id, {})[doc_id] = grade
    write_new_beir(replace(data, judgments={**data.judgments, split: known}), folder)
    say(f"{folder}: {name} with {len(judged):,} more judgments in {split}")


def _agreement_line(a: str, b: str, found: "GraderAgreement") -> str:
    from assay.report.numbers import figure, percent

    if not found.both:
        return f"{a} and {b} graded no document in common"
    return (
        f"{a} and {b}: {found.both:,} in common, the same grade for {percent(found.same)}, kappa "
        f"{figure(found.kappa)} (relevant or not), {figure(found.weighted_kappa)} (grades)"
    )


def _as_json(
    read: dict[str, dict[tuple[str, str], int]],
    judged: dict[tuple[str, str], int],
    agreement: "Sequence[tuple[str, str, GraderAgreement]]",
    missing: int,
) -> dict[str, Any]:
    from dataclasses import asdict

    return {
        "graders": {path: len(found) for path, found in read.items()},
        "judged": len(judged),
        "unlabelled": missing,
        "agreement": [{"a": a, "b": b, **asdict(found)} for a, b, found in agreement],
    }
