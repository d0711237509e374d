"""`assay judge`: how reliable the language model is that judges answers."""

import asyncio
import random
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from assay.answer.provider_kinds import PROVIDER_FORMS
from assay.cli.console import print_json, say, show, warn
from assay.cli.help import verbs
from assay.cli.judge_criterion import (
    calibrate_criterion,
    calibrate_nuggets,
    estimate_words,
    require_asked,
)
from assay.cli.judge_grade import grade
from assay.cli.judge_pool import labels, pool
from assay.cli.options import JsonOption, JudgeConcurrencyOption, JudgeTimeoutOption, MaxCostOption
from assay.errors import UsageError

if TYPE_CHECKING:
    from rich.console import RenderableType

    from assay.measure.answers.calibration import Calibration
    from assay.measure.answers.calibration_files import LabeledAnswer
    from assay.measure.answers.judge import Judgment
    from assay.measure.answers.judge_bench import BenchResult, LabeledClaim
    from assay.progress import Progress


judge_app = verbs("judge", "Measure what judges answers.")


def calibrate(
    labels: Annotated[
        Path,
        typer.Argument(
            help="JSON lines: question, answer, reference, label (true or false, given by "
            "a person), and verdict or verdicts if a judge has already decided. The result "
            "estimates the lines without a label.",
            metavar="LABELS.jsonl",
        ),
    ],
    judge: Annotated[
        str | None,
        typer.Option(
            "--judge",
            "--provider",
            help=f"The model that judges: {PROVIDER_FORMS}. Default: ollama.",
            envvar="RAG_EVAL_PROVIDER",
            metavar="SPEC",
        ),
    ] = None,
    judge_votes: Annotated[
        int,
        typer.Option(
            "--judge-votes",
            "--votes",
            help="How many votes to take per answer, each one call to the model. Half of them show "
            "the reference first, so an odd number is raised by one.",
            envvar="ASSAY_JUDGE_VOTES",
            min=1,
            metavar="N",
        ),
    ] = 2,
    judge_max_flips: Annotated[
        float,
        typer.Option(
            help="The share of answers about which the judge may say both TRUE and FALSE; above "
            "it, a warning.",
            envvar="ASSAY_JUDGE_MAX_FLIPS",
            min=0.0,
            max=1.0,
            metavar="SHARE",
        ),
    ] = 0.2,
    criterion: Annotated[
        Path | None,
        typer.Option(
            help="Calibrate ratings by this criterion of your own (.md) instead: label is then one "
            "of its levels, and rating or ratings what a judge has said already.",
            metavar="FILE",
        ),
    ] = None,
    nuggets: Annotated[
        bool,
        typer.Option(
            "--nuggets",
            help="Calibrate the assignment of nuggets instead: lines have question, answer, nugget "
            "and label (support, partial or none). --judge rules calibrates the rules.",
        ),
    ] = False,
    judge_timeout: JudgeTimeoutOption = None,
    judge_concurrency: JudgeConcurrencyOption = None,
    max_cost: MaxCostOption = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Add the result to this file, for --judge-calibration of assay eval and score.",
            metavar="FILE",
        ),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Measure how well the judge agrees with people. Accuracy, kappa, flips, corrected mean."""
    from assay.cli.console import progress_bar
    from assay.measure.answers.calibration import calibrate_judge
    from assay.measure.answers.calibration_files import read_labels
    from assay.measure.answers.judge import unreliable

    opened = {
        "spec": judge,
        "max_cost": max_cost,
        "timeout": judge_timeout,
        "concurrency": judge_concurrency,
    }
    if criterion is not None and nuggets:
        raise UsageError("give --criterion or --nuggets, not both")
    if nuggets:
        calibrate_nuggets(labels, opened, judge_votes, out, json)
        return
    if criterion is not None:
        calibrate_criterion(labels, criterion, opened, json, out)
        return
    rows = read_labels(labels)
    with progress_bar() as progress:
        judgments, record = asyncio.run(_judgments(rows, opened, judge_votes, progress))
    pairs = list(zip(rows, judgments, strict=True))
    result = calibrate_judge(
        [row.label for row in rows if row.label is not None],
        [judgment for row, judgment in pairs if row.label is not None],
        [judgment for row, judgment in pairs if row.label is None],
    )
    doubt = unreliable(judgments, judge_max_flips)
    if out is not None:
        _keep(out, rows, record, result)
    if json:
        print_json({"judge": record, **asdict(result), "unreliable": doubt})
    else:
        show(*_rendered(result))
        _show_warnings(result)
    if doubt:
        warn(f"assay eval would not accept this judge: {doubt}")


def _keep(
    out: Path, rows: Sequence["LabeledAnswer"], record: dict[str, Any], result: "Calibration"
) -> None:
    from assay.evaluation.gates import CORRECTNESS
    from assay.measure.answers.calibration_files import add_record, make_record
    from assay.measure.answers.judge import correctness_prompts

    labeled = [row for row in rows if row.label is not None]
    require_asked(sum(row.recorded is not None for row in labeled))
    votes = int(record["votes"])
    questions = [row.question for row in labeled]
    found = (result.accuracy.mean, result.kappa)
    add_record(
        out,
        make_record(
            CORRECTNESS, record["provider"], votes, correctness_prompts(votes), questions, *found
        ),
    )


async def _judgments(
    rows: Sequence["LabeledAnswer"],
    opened: dict[str, Any],
    votes: int,
    progress: "Progress",
) -> tuple[list["Judgment"], dict[str, Any]]:
    """Recorded verdicts are kept; a model is opened only if something is left to judge."""
    left = [row for row in rows if row.recorded is None]
    if not left:
        return [row.recorded for row in rows if row.recorded], {"provider": "recorded"}
    from assay.answer.providers.opening import open_provider
    from assay.measure.answers.judge import Judge, JudgeInput, judge_answers

    inputs = [JudgeInput(row.question, row.answer, row.reference) for row in left]
    async with open_provider(**opened) as provider:
        judge = Judge(provider, votes)
        fresh = iter(await judge_answers(judge, inputs, progress))
        facts = {"provider": provider.name, "votes": judge.votes, "prompts": judge.prompts}
        judgments = [row.recorded or next(fresh) for row in rows]
        return judgments, {**facts, "spending": asdict(provider.spending)}


def _rendered(result: "Calibration") -> Iterator["RenderableType"]:
    from assay.report.console import confusion_table, facts_table
    from assay.report.numbers import count, figure, percent

    yield facts_table(
        [
            ("labeled answers", count(result.labelled)),
            ("accuracy", estimate_words(result.accuracy)),
            ("Cohen's kappa", figure(result.kappa)),
            ("flip rate", percent(result.flip_rate)),
            ("undecided", count(result.undecided)),
            ("votes that could not be parsed", count(result.unparseable_votes)),
        ]
    )
    yield from ("", confusion_table(result.confusion), "")
    means = [("correct, by the labels alone", estimate_words(result.labels_mean))]
    if result.corrected is not None:
        means += [
            ("unlabeled answers", count(result.unlabelled)),
            ("correct, by the judge alone", figure(result.uncorrected)),
            ("correct, judge corrected by the labels", estimate_words(result.corrected)),
        ]
    yield facts_table(means)


def _show_warnings(result: "Calibration") -> None:
    from assay.measure.answers.calibration import MIN_LABELS

    if result.labelled < MIN_LABELS:
        warn(f"only {result.labelled} labels: below {MIN_LABELS} the interval is not reliable")
    if result.unparseable_votes:
        warn(
            f"{result.unparseable_votes} votes were neither TRUE nor FALSE: this model "
            "explains instead of deciding; choose another one"
        )
    if result.kappa is None:
        say("Cohen's kappa is undefined here: judge and labels always give the same single value.")
    if result.corrected is None:
        say("To estimate unlabeled answers too, add lines without a label, such as those of a run.")


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
    from assay.answer.provider_kinds import split_provider
    from assay.cli.console import progress_bar
    from assay.measure.answers.judge_bench import MODEL_FREE, read_claims

    for spec in set(judges or ()).difference(MODEL_FREE):
        try:
            split_provider(spec)
        except UsageError as error:
            raise UsageError(f"{error}; or, without a model, {', '.join(MODEL_FREE)}") from None
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


def _bench_table(
    results: "Sequence[tuple[BenchResult, dict[str, Any] | None]]",
) -> "RenderableType":
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


judge_app.command("bench")(bench_judges)
judge_app.command("grade")(grade)
judge_app.command("pool")(pool)
judge_app.command("labels")(labels)
judge_app.command("calibrate")(calibrate)
