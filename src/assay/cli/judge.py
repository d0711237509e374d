"""`assay judge`: how good judges are, and pools of documents for people to grade."""

from pathlib import Path
from typing import Annotated

import typer

from assay.cli.console import print_json, say, show
from assay.cli.help import verbs
from assay.cli.judge_calibrate import calibrate
from assay.cli.judge_grade import grade, read_sources
from assay.cli.options import ColumnsOption, JsonOption, RunsOption, option
from assay.errors import UsageError

judge_app = verbs("judge", "Calibrate judges; grade documents by model or by people.")


def pool(
    sources: Annotated[
        list[str],
        typer.Argument(
            help="Runs (folders or names), or TREC run files with --dataset.", metavar="RUN"
        ),
    ],
    out: Annotated[Path, option("The table to write, a .csv file.", None, "FILE", "--out")],
    depth: Annotated[
        int, option("How many documents of each ranking to take.", metavar="K", min=1)
    ] = 10,
    dataset: Annotated[
        str | None, option("The data set, where the runs do not name it.", metavar="NAME|PATH")
    ] = None,
    columns: ColumnsOption = None,
    split: Annotated[
        str | None, option("The split whose judged documents are left out.", metavar="NAME")
    ] = None,
    runs: RunsOption = Path("runs"),
    as_json: JsonOption = False,
) -> None:
    """Collect the unjudged documents of runs into a table to grade.

    The table has a row for each query and document with an empty column label: people fill it in
    with grades from 0, or a model with `assay judge grade`. The graded table is a data set.
    """
    from assay.labels.pool import write_pool

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
            f"the column label, then use it as --dataset {out}"
        )
    if found.dataset is not None and not found.dataset.documents:
        say("the data set has no documents: the table has ids and no texts")


judge_app.command("grade")(grade)
judge_app.command("pool")(pool)
judge_app.command("calibrate")(calibrate)
