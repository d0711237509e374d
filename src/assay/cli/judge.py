"""`assay judge`: how good judges are, and pools of documents for people to grade."""

import asyncio
import random
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from assay.cli.console import print_json, progress_bar, say, show, warn
from assay.cli.help import verbs
from assay.cli.judge_calibrate import calibrate
from assay.cli.judge_grade import grade, read_sources
from assay.cli.options import (
    ColumnsOption,
    JsonOption,
    JudgeConcurrencyOption,
    JudgeTimeoutOption,
    MaxCostOption,
    RunsOption,
    option,
    refuse_unused,
)
from assay.errors import UsageError
from assay.llm.provider_kinds import PROVIDER_FORMS

if TYPE_CHECKING:
    from rich.console import RenderableType

    from assay.answers.judge_bench import BenchResult, LabeledClaim
    from assay.labels.grading.agreement import GraderAgreement
    from assay.progress import Progress

judge_app = verbs("judge", "Measure judges; grade documents by model or by people.")

_MODEL_FREE = "words, rules, small-model"
_OF_MODELS = ("judge_votes", "judge_timeout", "judge_concurrency", "max_cost")


def bench_judges(
    context: typer.Context,
    sets: Annotated[
        list[str] | None,
        typer.Argument(
            help="Labeled claims: notes (made from the bundled notes), BEIR's SciFact archive, or "
            "a table with claim, doc and label (1 or 0), as LLM-AggreFact has them. Default: "
            "notes.",
            metavar="SET",
        ),
    ] = None,
    judges: Annotated[
        list[str] | None,
        option(
            f"Which judge: {_MODEL_FREE}, or a model, {PROVIDER_FORMS}. Repeatable. Default: "
            f"{_MODEL_FREE}.",
            None,
            "SPEC",
            "--judge",
        ),
    ] = None,
    judge_votes: Annotated[
        int,
        option(
            "How often to ask a model about each claim; every second vote shows the claim first.",
            "ASSAY_JUDGE_VOTES",
            "N",
            min=1,
        ),
    ] = 2,
    judge_timeout: JudgeTimeoutOption = None,
    judge_concurrency: JudgeConcurrencyOption = None,
    limit: Annotated[
        int | None, option("Draw at most N claims of each set.", metavar="N", min=2)
    ] = None,
    max_cost: MaxCostOption = None,
    as_json: JsonOption = False,
) -> None:
    """Measure judges on labeled claims. Prints balanced accuracy, kappa, flips and cost.

    A judge is asked whether documents support a claim. A coin, or a judge that always gives the
    same verdict, has a balanced accuracy of 0.5.
    """
    from assay.answers.judge_bench import MODEL_FREE, read_claims
    from assay.llm.provider_kinds import split_provider

    for spec in set(judges or ()).difference(MODEL_FREE):
        try:
            split_provider(spec)
        except UsageError as error:
            raise UsageError(f"{error}; or, without a model, {', '.join(MODEL_FREE)}") from None
    if set(judges or ()) <= set(MODEL_FREE):
        refuse_unused(context, _OF_MODELS, "on judges without a model; leave it out")
    claims = {name: _drawn(read_claims(name), limit) for name in sets or ["notes"]}
    opened = {"max_cost": max_cost, "timeout": judge_timeout, "concurrency": judge_concurrency}
    results: list[tuple[BenchResult, dict[str, Any] | None]] = []
    with progress_bar() as progress:
        for spec in judges or MODEL_FREE:
            results += asyncio.run(_bench(spec, claims, judge_votes, opened, progress))
    if as_json:
        print_json([{**asdict(result), "spending": cost} for result, cost in results])
        return
    show(_bench_table(results), wide=True)
    for result, _ in results:
        if result.unparseable_votes:
            votes = result.unparseable_votes
            warn(f"{result.judge} on {result.claims}: {votes} votes were neither TRUE nor FALSE")


def _drawn(claims: "Sequence[LabeledClaim]", limit: int | None) -> "list[LabeledClaim]":
    """A sample that is the same for every judge."""
    if limit is None or len(claims) <= limit:
        return list(claims)
    return random.Random(0).sample(list(claims), limit)


async def _bench(
    spec: str,
    sets: "dict[str, list[LabeledClaim]]",
    votes: int,
    opened: dict[str, Any],
    progress: "Progress",
) -> "list[tuple[BenchResult, dict[str, Any] | None]]":
    from assay.answers.judge_bench import (
        MODEL_FREE,
        AskedJudge,
        LexicalJudge,
        bench_judge,
    )

    if spec in MODEL_FREE:
        judge = LexicalJudge(spec)
        return [(await bench_judge(judge, sets[name], name, progress), None) for name in sets]
    from assay.answers.judge import Judge
    from assay.llm.providers.opening import open_provider

    async with open_provider(spec, **opened) as provider:
        asked = AskedJudge(Judge(provider), votes)
        return [
            (await bench_judge(asked, claims, name, progress), asdict(provider.spending))
            for name, claims in sets.items()
        ]


def _bench_table(
    results: "Sequence[tuple[BenchResult, dict[str, Any] | None]]",
) -> "RenderableType":
    from rich.table import Table

    from assay.report.numbers import count, dollars, figure, interval, percent

    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("judge")
    table.add_column("claims")
    figures = ("n", "balanced accuracy", "95% interval", "kappa", "flips", "undecided", "ms")
    for heading in (*figures, "cost"):
        table.add_column(heading, justify="right")
    for result, spending in results:
        cost = (spending or {}).get("cost")
        table.add_row(
            result.judge,
            result.claims,
            count(result.number),
            figure(result.balanced_accuracy),
            interval(result.low, result.high),
            figure(result.kappa),
            "" if result.flip_rate is None else percent(result.flip_rate),
            count(result.undecided),
            f"{1000 * result.seconds_per_claim:.1f}",
            "" if spending is None else "unknown" if cost is None else dollars(cost),
        )
    return table


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
    with grades from 0, or a model with `assay judge grade`. `assay judge labels` reads it back.
    """
    from assay.labels.grading.pool import write_pool

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
        Path | None, option("Write the judgments as qrels.", None, "FILE", "--out")
    ] = None,
    dataset: Annotated[
        str | None, option("The data set to add the judgments to.", metavar="NAME|PATH")
    ] = None,
    columns: ColumnsOption = None,
    split: Annotated[str, option("Which of its judgments to add to.", metavar="NAME")] = "test",
    dataset_out: Annotated[
        Path | None, option("Write the data set with the new judgments here.", metavar="DIR")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Turn graded tables into judgments. With several graders, prints their agreement.

    Where graders differ, the median of their grades counts; of two in the middle, the lower one.
    """
    from itertools import combinations

    from assay.data.qrels import write_trec_qrels
    from assay.labels.grading.agreement import grader_agreement
    from assay.labels.grading.pool import combine_labels, label_rows

    if (dataset is None) != (dataset_out is None):
        raise UsageError("--dataset-out extends the data set of --dataset; pass both, or neither")
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
    from assay.labels.grading.human_grades import TABLE_GRADER, GradedPool

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

    from assay.cli.dataset_and_judge import choose_dataset
    from assay.data.beir import write_new_beir

    data = choose_dataset(name, None, columns)
    known = {query_id: dict(grades) for query_id, grades in data.judgments.get(split, {}).items()}
    for (query_id, doc_id), label in judged.items():
        if query_id not in data.queries:
            raise UsageError(f"query {query_id!r} of the labels is not in data set {name!r}")
        known.setdefault(query_id, {})[doc_id] = label
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


judge_app.command("bench")(bench_judges)
judge_app.command("grade")(grade)
judge_app.command("pool")(pool)
judge_app.command("labels")(labels)
judge_app.command("calibrate")(calibrate)
