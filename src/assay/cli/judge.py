"""`assay judge`: how reliable the language model is that judges answers."""

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from assay.answer.provider_kinds import PROVIDER_FORMS
from assay.cli.console import print_json, say, show, warn
from assay.cli.help import verbs
from assay.cli.judge_bench import bench_judges
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

    from assay.measure.answers.calibration import Calibration, LabeledAnswer
    from assay.measure.answers.judge import Judgment
    from assay.progress import Progress

judge_app = verbs("judge", "Measure what judges answers.")


judge_app.command("bench")(bench_judges)
judge_app.command("grade")(grade)
judge_app.command("pool")(pool)
judge_app.command("labels")(labels)


@judge_app.command("calibrate")
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
    from assay.measure.answers.calibration import calibrate_judge, read_labels
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
    from assay.evaluation.calibrated import CORRECTNESS
    from assay.measure.answers.calibration_record import add_record, make_record
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
