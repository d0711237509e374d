"""The part of `assay judge calibrate` that is about a criterion of the user's own."""

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from assay.cli.console import print_json, show, warn
from assay.cli.judge_nuggets import require_asked
from assay.errors import UsageError

if TYPE_CHECKING:
    from rich.console import RenderableType

    from assay.measure.answers.criteria import Criterion, CriterionRating
    from assay.measure.answers.rating_calibration import LabeledRating, RatingCalibration
    from assay.progress import Progress


def calibrate_criterion(
    labels: Path, criterion: Path, opened: dict[str, Any], as_json: bool, out: Path | None = None
) -> None:
    """Compare a judge's ratings by one criterion with those of people, and print the result."""
    from assay.cli.console import progress_bar
    from assay.measure.answers.calibration import MIN_LABELS
    from assay.measure.answers.criteria import read_criteria
    from assay.measure.answers.rating_calibration import calibrate_ratings, read_rating_labels

    (asked, *more) = read_criteria(criterion)
    if more:
        raise UsageError(f"--criterion takes one criterion, {criterion} has {len(more) + 1}")
    rows = read_rating_labels(labels, asked)
    with progress_bar() as progress:
        ratings, record = asyncio.run(_ratings(rows, asked, opened, progress))
    pairs = list(zip(rows, ratings, strict=True))
    result = calibrate_ratings(
        asked,
        [row.label for row in rows if row.label is not None],
        [rating for row, rating in pairs if row.label is not None],
        [rating for row, rating in pairs if row.label is None],
    )
    if out is not None:
        from assay.measure.answers.calibration_record import add_record, make_record
        from assay.measure.answers.criteria import VOTES, criterion_prompts

        labeled = [row for row in rows if row.label is not None]
        require_asked(sum(row.recorded is not None for row in labeled))
        questions = [row.question for row in labeled]
        found = (result.agreement.mean, result.kappa)
        judge, prompts = str(record["provider"]), criterion_prompts(asked)
        add_record(out, make_record(asked.metric, judge, VOTES, prompts, questions, *found))
    if as_json:
        print_json({"judge": record, **asdict(result)})
    else:
        show(*_rendered(result))
    if result.labelled < MIN_LABELS:
        warn(f"only {result.labelled} labels: below {MIN_LABELS} the intervals are not reliable")


async def _ratings(
    rows: Sequence["LabeledRating"],
    criterion: "Criterion",
    opened: dict[str, Any],
    progress: "Progress",
) -> tuple[list["CriterionRating"], dict[str, Any]]:
    """Recorded ratings are kept; a model is opened only if something is left to rate."""
    if all(row.recorded is not None for row in rows):
        return [row.recorded for row in rows if row.recorded], {"provider": "recorded"}
    from assay.answer.providers.opening import open_provider
    from assay.measure.answers.criteria import rate_answer
    from assay.measure.answers.judge import Judge
    from assay.net.gather import gather

    done = 0
    async with open_provider(**opened) as provider:
        judge = Judge(provider)

        async def one(row: "LabeledRating") -> "CriterionRating":
            nonlocal done
            rating = row.recorded
            if rating is None:
                rating = await rate_answer(judge, criterion, row.question, row.answer, row.sources)
            done += 1
            progress("rating answers", done, len(rows))
            return rating

        ratings = await gather(map(one, rows))
        return ratings, {"provider": provider.name, "spending": asdict(provider.spending)}


def _rendered(result: "RatingCalibration") -> Iterator["RenderableType"]:
    from rich.table import Table

    from assay.report.numbers import count, difference, figure, percent, with_interval

    facts = Table.grid(padding=(0, 2, 0, 0))
    facts.add_row("criterion", result.criterion)
    facts.add_row("labeled answers", count(result.labelled))
    for name, each in (("same level", result.agreement), ("within one level", result.within_one)):
        facts.add_row(name, with_interval(each.mean, each.low, each.high))
    facts.add_row("weighted kappa", figure(result.kappa))
    if bias := result.bias:
        words = "levels above people" if bias.mean >= 0 else "levels below people"
        size = with_interval(bias.mean, bias.low, bias.high)
        facts.add_row("bias", f"{difference(bias.mean)} {words}, {size}")
    facts.add_row("mean distance", f"{figure(result.error)} levels")
    facts.add_row("otherwise in the other order", percent(result.differing))
    facts.add_row("undecided", count(result.undecided))
    yield facts
    yield ""
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("people say")
    for level in next(iter(result.confusion.values())):
        table.add_column(f"judge: {level}", justify="right")
    for label, ratings in result.confusion.items():
        table.add_row(label, *map(count, ratings.values()))
    yield table
    yield ""
    means = Table.grid(padding=(0, 2, 0, 0))
    mean = result.labels_mean
    means.add_row("mean, by the labels alone", with_interval(mean.mean, mean.low, mean.high))
    if (fixed := result.corrected) is not None:
        means.add_row("unlabeled answers", count(result.unlabelled))
        means.add_row("mean, by the judge alone", figure(result.uncorrected))
        corrected = with_interval(fixed.mean, fixed.low, fixed.high)
        means.add_row("mean, judge corrected by the labels", corrected)
    yield means
