"""The parts of `assay judge calibrate` for nuggets and for a criterion of the user."""

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from assay.cli.console import print_json, show, warn
from assay.errors import UsageError

if TYPE_CHECKING:
    from rich.console import RenderableType

    from assay.measure.answers.calibration import NuggetCalibration, RatingCalibration
    from assay.measure.answers.calibration_files import LabeledNugget, LabeledRating
    from assay.measure.answers.criteria import Criterion, CriterionRating
    from assay.measure.answers.nuggets import NuggetAssignment
    from assay.measure.statistics import Estimate
    from assay.progress import Progress


_RULES = "rules"


def require_asked(recorded: int) -> None:
    """A record names a judge, so nothing in it may come from verdicts that were recorded."""
    if recorded:
        raise UsageError(
            f"{recorded} labeled lines have recorded verdicts, and nobody knows which judge gave "
            "them; for --out, remove these and let the judge judge"
        )


def calibrate_nuggets(
    labels: Path, opened: dict[str, Any], votes: int, out: Path | None, as_json: bool
) -> None:
    """Compare a judge's labels of nuggets with those of people, and print the result."""
    from assay.answer.prompt import load_prompt
    from assay.cli.console import progress_bar
    from assay.evaluation.gates import NUGGETS
    from assay.measure.answers.calibration import MIN_LABELS, calibrate_assignments
    from assay.measure.answers.calibration_files import add_record, make_record, read_nugget_labels
    from assay.measure.answers.nuggets import PROMPT, assign_by_rules

    rows = read_nugget_labels(labels)
    record: dict[str, Any] = {"provider": _RULES}
    if opened["spec"] == _RULES:
        assigned = [assign_by_rules(row.question, row.answer, row.nugget) for row in rows]
    else:
        with progress_bar() as progress:
            assigned, record = asyncio.run(_assigned(rows, opened, votes, progress))
    result = calibrate_assignments([row.label for row in rows], assigned)
    if out is not None and opened["spec"] != _RULES:
        prompts = (load_prompt(PROMPT).id,)
        questions = [row.question for row in rows]
        found = (result.agreement.mean, result.kappa)
        judge, number = record["provider"], int(record["votes"])
        add_record(out, make_record(NUGGETS, judge, number, prompts, questions, *found))
    if as_json:
        print_json({"judge": record, **asdict(result)})
    else:
        show(*_rendered_nuggets(result))
    if result.labelled < MIN_LABELS:
        warn(f"only {result.labelled} labels: below {MIN_LABELS} the interval is not reliable")


async def _assigned(
    rows: "Sequence[LabeledNugget]", opened: dict[str, Any], votes: int, progress: "Progress"
) -> "tuple[list[NuggetAssignment], dict[str, Any]]":
    from assay.answer.providers.opening import open_provider
    from assay.measure.answers.judge import Judge
    from assay.measure.answers.nuggets import assign_by_judge
    from assay.net.gather import gather_for

    async with open_provider(**opened) as provider:
        judge = Judge(provider, votes)

        async def one(row: "LabeledNugget") -> "NuggetAssignment":
            (found,) = await assign_by_judge(judge, row.question, row.answer, [row.nugget])
            return found

        assigned = await gather_for(rows, one, "assigning nuggets", progress)
        facts = {"provider": provider.name, "votes": judge.votes}
        return assigned, {**facts, "spending": asdict(provider.spending)}


def _rendered_nuggets(result: "NuggetCalibration") -> "Iterator[RenderableType]":
    from assay.report.console import confusion_table, facts_table
    from assay.report.numbers import count, figure, percent

    yield facts_table(
        [
            ("labeled nuggets", count(result.labelled)),
            ("same label", estimate_words(result.agreement)),
            ("Cohen's kappa", figure(result.kappa)),
            ("kappa, quadratic weights", figure(result.weighted_kappa)),
            ("flip rate", percent(result.flip_rate)),
            ("undecided", count(result.undecided)),
            ("recall, by people", figure(result.labels_mean)),
            ("recall, by the judge", figure(result.judged_mean)),
        ]
    )
    yield from ("", confusion_table(result.confusion))


def calibrate_criterion(
    labels: Path, criterion: Path, opened: dict[str, Any], as_json: bool, out: Path | None = None
) -> None:
    """Compare a judge's ratings by one criterion with those of people, and print the result."""
    from assay.cli.console import progress_bar
    from assay.measure.answers.calibration import MIN_LABELS, calibrate_ratings
    from assay.measure.answers.calibration_files import read_rating_labels
    from assay.measure.answers.criteria import read_criteria

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
        from assay.measure.answers.calibration_files import add_record, make_record
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
    from assay.net.gather import gather_for

    async with open_provider(**opened) as provider:
        judge = Judge(provider)

        async def one(row: "LabeledRating") -> "CriterionRating":
            if row.recorded is not None:
                return row.recorded
            return await rate_answer(judge, criterion, row.question, row.answer, row.sources)

        ratings = await gather_for(rows, one, "rating answers", progress)
        return ratings, {"provider": provider.name, "spending": asdict(provider.spending)}


def _rendered(result: "RatingCalibration") -> Iterator["RenderableType"]:
    from assay.report.console import confusion_table, facts_table
    from assay.report.numbers import count, difference, figure, percent

    facts = [
        ("criterion", result.criterion),
        ("labeled answers", count(result.labelled)),
        ("same level", estimate_words(result.agreement)),
        ("within one level", estimate_words(result.within_one)),
        ("weighted kappa", figure(result.kappa)),
    ]
    if bias := result.bias:
        words = "levels above people" if bias.mean >= 0 else "levels below people"
        facts.append(("bias", f"{difference(bias.mean)} {words}, {estimate_words(bias)}"))
    facts += [
        ("mean distance", f"{figure(result.error)} levels"),
        ("otherwise in the other order", percent(result.differing)),
        ("undecided", count(result.undecided)),
    ]
    yield facts_table(facts)
    yield from ("", confusion_table(result.confusion), "")
    means = [("mean, by the labels alone", estimate_words(result.labels_mean))]
    if result.corrected is not None:
        means += [
            ("unlabeled answers", count(result.unlabelled)),
            ("mean, by the judge alone", figure(result.uncorrected)),
            ("mean, judge corrected by the labels", estimate_words(result.corrected)),
        ]
    yield facts_table(means)


def estimate_words(estimate: "Estimate") -> str:
    """A mean with its interval."""
    from assay.report.numbers import with_interval

    return with_interval(estimate.mean, estimate.low, estimate.high)
