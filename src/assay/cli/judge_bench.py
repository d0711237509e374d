"""`assay judge bench`: any judge over claims whose labels are known."""

import asyncio
import random
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from assay.answer.provider_kinds import PROVIDER_FORMS
from assay.cli.console import print_json, show, warn
from assay.cli.options import JsonOption, JudgeConcurrencyOption, JudgeTimeoutOption, MaxCostOption

if TYPE_CHECKING:
    from rich.console import RenderableType

    from assay.measure.answers.claim_sets import LabeledClaim
    from assay.measure.answers.judge_bench import BenchResult
    from assay.progress import Progress

_MODEL_FREE = "words, rules, small-model"


def bench_judges(
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
        typer.Option(
            "--judge",
            help=f"Which judge: {_MODEL_FREE}, or a model, {PROVIDER_FORMS}. Repeatable. Default: "
            f"{_MODEL_FREE}.",
            metavar="SPEC",
        ),
    ] = None,
    judge_votes: Annotated[
        int,
        typer.Option(
            help="How many votes a model has about each claim; every second one shows the claim "
            "first.",
            envvar="ASSAY_JUDGE_VOTES",
            min=1,
            metavar="N",
        ),
    ] = 2,
    judge_timeout: JudgeTimeoutOption = None,
    judge_concurrency: JudgeConcurrencyOption = None,
    limit: Annotated[
        int | None,
        typer.Option(help="Draw at most N claims of each set.", min=2, metavar="N"),
    ] = None,
    max_cost: MaxCostOption = None,
    as_json: JsonOption = False,
) -> None:
    """Measure judges on labeled claims. Balanced accuracy, kappa, flips, cost.

    A judge is asked whether documents support a claim. 0.5 is a coin, and a judge that always says
    the same.
    """
    from assay.cli.console import progress_bar
    from assay.measure.answers.claim_sets import read_claims
    from assay.measure.answers.judge_bench import MODEL_FREE

    claims = {name: _drawn(read_claims(name), limit) for name in sets or ["notes"]}
    opened = {"max_cost": max_cost, "timeout": judge_timeout, "concurrency": judge_concurrency}
    results: list[tuple[BenchResult, dict[str, Any] | None]] = []
    with progress_bar() as progress:
        for spec in judges or MODEL_FREE:
            results += asyncio.run(_bench(spec, claims, judge_votes, opened, progress))
    if as_json:
        print_json([{**asdict(result), "spending": cost} for result, cost in results])
        return
    show(_table(results), wide=True)
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
    from assay.measure.answers.judge_bench import (
        MODEL_FREE,
        AskedJudge,
        LexicalJudge,
        bench_judge,
    )

    if spec in MODEL_FREE:
        judge = LexicalJudge(spec)
        return [(await bench_judge(judge, sets[name], name, progress), None) for name in sets]
    from assay.answer.providers.opening import open_provider
    from assay.measure.answers.judge import Judge

    async with open_provider(spec, **opened) as provider:
        asked = AskedJudge(Judge(provider), votes)
        return [
            (await bench_judge(asked, claims, name, progress), asdict(provider.spending))
            for name, claims in sets.items()
        ]


def _table(results: "Sequence[tuple[BenchResult, dict[str, Any] | None]]") -> "RenderableType":
    from rich.table import Table

    from assay.report.numbers import count, figure, interval, percent

    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("judge")
    table.add_column("claims")
    figures = ("n", "balanced accuracy", "95% interval", "kappa", "flips", "undecided", "ms")
    for heading in (*figures, "US dollars"):
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
            "" if spending is None else "unknown" if cost is None else f"{cost:.2f}",
        )
    return table
