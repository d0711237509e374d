"""`assay judge calibrate`: how well a judge agrees with people: answers, ratings, nuggets."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from assay.cli.calibrated_judge import CalibratedJudge, JudgeOptions, ask_judge
from assay.cli.console import print_json, say, show, warn
from assay.cli.options import (
    JsonOption,
    JudgeOption,
    JudgeSetOption,
    MaxCostOption,
    option,
    refuse_unused,
    switch,
)
from assay.errors import UsageError
from assay.run.config import JudgeSettings

if TYPE_CHECKING:
    from rich.console import RenderableType

    from assay.answers.calibration import (
        Calibration,
        LabeledAnswer,
        LabeledNugget,
        LabeledRating,
        NuggetCalibration,
        RatingCalibration,
    )
    from assay.answers.criteria import CriterionRating
    from assay.answers.judge import Judge, Judgment
    from assay.answers.nuggets import NuggetAssignment
    from assay.metrics.statistics import Estimate


_RULES = "rules"
_OF_MODELS = ("judge_set", "max_cost", "out")


def calibrate(
    context: typer.Context,
    labels: Annotated[
        Path,
        typer.Argument(
            help="JSON lines: question, answer, reference, label (true or false, given by "
            "a person), and verdict or verdicts if a judge has already decided. For lines "
            "without a label, the share of right answers is estimated.",
            metavar="LABELS.jsonl",
        ),
    ],
    judge: JudgeOption = None,
    judge_set: JudgeSetOption = None,
    criterion: Annotated[
        Path | None,
        option(
            "Calibrate ratings by this criterion of your own (.md) instead: label is then one "
            "of its levels, and rating or ratings what a judge has said already.",
            metavar="FILE",
        ),
    ] = None,
    nuggets: Annotated[
        bool,
        switch(
            "--nuggets",
            "Calibrate the assignment of nuggets instead: lines have question, answer, nugget "
            "and label (support, partial or none). --judge rules calibrates the rules.",
        ),
    ] = False,
    max_cost: MaxCostOption = None,
    out: Annotated[
        Path | None,
        option(
            "Add the result to this file, for --judge-set calibration=FILE.",
            metavar="FILE",
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Measure how well a judge agrees with people. Prints accuracy, kappa and flip rate."""
    if criterion is not None and nuggets:
        raise UsageError("give --criterion or --nuggets, not both")
    chosen = JudgeSettings.parse(judge_set or (), "judge_set")
    opened = JudgeOptions(judge, max_cost, chosen.timeout, chosen.concurrency)
    if criterion is not None:
        _calibrate_criterion(labels, criterion, opened, out, as_json)
    elif nuggets:
        if judge == _RULES:
            refuse_unused(context, _OF_MODELS, "on --judge rules; leave it out")
        _calibrate_nuggets(labels, opened, chosen.votes, out, as_json)
    else:
        _calibrate_answers(labels, opened, chosen.votes, out, as_json)


def _calibrate_answers(
    labels: Path,
    opened: JudgeOptions,
    votes: int,
    out: Path | None,
    as_json: bool,
) -> None:
    """Compare a judge's verdicts about answers with those of people, and print the result."""
    from assay.answers.calibration import calibrate_judge, read_labels
    from assay.answers.judge import correctness_prompts, unreliable
    from assay.evaluation.gates import CORRECTNESS

    async def ask(judge: "Judge", row: "LabeledAnswer") -> "Judgment":
        return await judge.correctness(row.question, row.answer, row.reference)

    rows = read_labels(labels)
    recorded = [row.recorded for row in rows]
    judgments, asked = ask_judge(rows, recorded, opened, ask, "judging", votes)
    pairs = list(zip(rows, judgments, strict=True))
    result = calibrate_judge(
        [row.label for row in rows if row.label is not None],
        [judgment for row, judgment in pairs if row.label is not None],
        [judgment for row, judgment in pairs if row.label is None],
    )
    doubt = unreliable(judgments)
    if out is not None:
        labeled = [row for row in rows if row.label is not None]
        _refuse_recorded(row.recorded for row in labeled)
        questions, prompts = [row.question for row in labeled], correctness_prompts(asked.votes)
        kappa = (result.kappa, result.kappa_low)
        _keep(out, CORRECTNESS, asked, prompts, questions, result.accuracy, kappa, result.bias)
    if as_json:
        judge = asked.to_json(with_prompts=True)
        print_json({"judge": judge, **asdict(result), "unreliable": doubt})
    else:
        show(*_rendered_answers(result))
        _warn_few_labels(result.labelled)
        _show_warnings(result)
    if doubt:
        warn(f"assay eval would not accept this judge: {doubt}")


def _refuse_recorded(verdicts: Iterable[object]) -> None:
    """A result is kept only where the judge gave every verdict that it rests on."""
    if recorded := sum(each is not None for each in verdicts):
        raise UsageError(
            f"{recorded} labeled lines have recorded verdicts of an unknown judge; --out records "
            "this judge's own: delete those verdicts from the file, and the judge gives new ones"
        )


def _keep(
    out: Path,
    metric: str,
    asked: CalibratedJudge,
    prompts: Sequence[str],
    questions: Sequence[str],
    agreement: "Estimate",
    kappa: tuple[float | None, float | None],
    bias: float,
) -> None:
    """Add the result to a file; `questions` are those with a label, once for each label."""
    from assay.answers.calibration import add_record, make_record

    given = (metric, asked.provider, asked.votes, prompts, questions)
    add_record(out, make_record(*given, agreement.mean, *kappa, bias))


def _warn_few_labels(labeled: int) -> None:
    from assay.answers.calibration import MIN_LABELS

    if labeled < MIN_LABELS:
        warn(f"only {labeled} labels: below {MIN_LABELS} the interval is not reliable")


def _rendered_answers(result: "Calibration") -> Iterator["RenderableType"]:
    from assay.report.console import confusion_table, facts_table
    from assay.report.numbers import count, percent

    yield facts_table(
        [
            ("labeled answers", count(result.labelled)),
            ("accuracy", _interval(result.accuracy)),
            ("Cohen's kappa", _kappa(result)),
            ("flip rate", percent(result.flip_rate)),
            ("undecided", count(result.undecided)),
            ("votes that could not be parsed", count(result.unparseable_votes)),
        ]
    )
    yield from ("", confusion_table(result.confusion), "", _means("correct", result))


def _means(what: str, result: "Calibration | RatingCalibration") -> "RenderableType":
    """By the labels alone; and by the judge, where there are answers without labels."""
    from assay.report.console import facts_table
    from assay.report.numbers import count, figure

    means = [(f"{what}, by the labels alone", _interval(result.labels_mean))]
    if result.corrected is not None:
        means += [
            ("unlabeled answers", count(result.unlabelled)),
            (f"{what}, by the judge alone", figure(result.uncorrected)),
            (f"{what}, judge corrected by the labels", _interval(result.corrected)),
        ]
    return facts_table(means)


def _show_warnings(result: "Calibration") -> None:
    if result.unparseable_votes:
        warn(
            f"{result.unparseable_votes} votes were neither TRUE nor FALSE: this model "
            "explains instead of deciding; choose another one"
        )
    if result.kappa is None:
        say("Cohen's kappa is undefined here: judge and labels always give the same single value.")
    if result.corrected is None:
        say("To estimate unlabeled answers too, add lines without a label, such as those of a run.")


def _calibrate_nuggets(
    labels: Path, opened: JudgeOptions, votes: int, out: Path | None, as_json: bool
) -> None:
    """Compare a judge's labels of nuggets with those of people, and print the result."""
    from assay.answers.calibration import calibrate_assignments, read_nugget_labels
    from assay.answers.nuggets import PROMPT, assign_by_judge, assign_by_rules
    from assay.evaluation.gates import NUGGETS
    from assay.llm.prompt import load_prompt

    async def ask(judge: "Judge", row: "LabeledNugget") -> "NuggetAssignment":
        (found,) = await assign_by_judge(judge, row.question, row.answer, [row.nugget])
        return found

    rows = read_nugget_labels(labels)
    if opened.spec == _RULES:
        assigned = [assign_by_rules(row.question, row.answer, row.nugget) for row in rows]
        asked = CalibratedJudge(_RULES)
    else:
        fresh = [None] * len(rows)
        assigned, asked = ask_judge(rows, fresh, opened, ask, "assigning nuggets", votes)
    result = calibrate_assignments([row.label for row in rows], assigned)
    if out is not None and opened.spec != _RULES:
        questions, prompts = [row.question for row in rows], (load_prompt(PROMPT).id,)
        kappa, bias = (result.kappa, result.kappa_low), result.judged_mean - result.labels_mean
        _keep(out, NUGGETS, asked, prompts, questions, result.agreement, kappa, bias)
    if as_json:
        print_json({"judge": asked.to_json(), **asdict(result)})
    else:
        show(*_rendered_nuggets(result))
    _warn_few_labels(result.labelled)


def _rendered_nuggets(result: "NuggetCalibration") -> "Iterator[RenderableType]":
    from assay.report.console import confusion_table, facts_table
    from assay.report.numbers import count, figure, percent

    yield facts_table(
        [
            ("labeled nuggets", count(result.labelled)),
            ("same label", _interval(result.agreement)),
            ("Cohen's kappa", _kappa(result)),
            ("kappa, quadratic weights", figure(result.weighted_kappa)),
            ("flip rate", percent(result.flip_rate)),
            ("undecided", count(result.undecided)),
            ("recall, by people", figure(result.labels_mean)),
            ("recall, by the judge", figure(result.judged_mean)),
        ]
    )
    yield from ("", confusion_table(result.confusion))


def _calibrate_criterion(
    labels: Path, criterion: Path, opened: JudgeOptions, out: Path | None, as_json: bool
) -> None:
    """Compare a judge's ratings by one criterion with those of people, and print the result."""
    from assay.answers.calibration import calibrate_ratings, read_rating_labels
    from assay.answers.criteria import VOTES, criterion_prompts, rate_answer, read_criteria

    (rated, *more) = read_criteria(criterion)
    if more:
        raise UsageError(f"--criterion takes one criterion, {criterion} has {len(more) + 1}")

    async def ask(judge: "Judge", row: "LabeledRating") -> "CriterionRating":
        return await rate_answer(judge, rated, row.question, row.answer, row.sources)

    rows = read_rating_labels(labels, rated)
    recorded = [row.recorded for row in rows]
    ratings, asked = ask_judge(rows, recorded, opened, ask, "rating answers", VOTES)
    pairs = list(zip(rows, ratings, strict=True))
    result = calibrate_ratings(
        rated,
        [row.label for row in rows if row.label is not None],
        [rating for row, rating in pairs if row.label is not None],
        [rating for row, rating in pairs if row.label is None],
    )
    if out is not None:
        labeled = [row for row in rows if row.label is not None]
        _refuse_recorded(row.recorded for row in labeled)
        questions, prompts = [row.question for row in labeled], criterion_prompts(rated)
        kappa = (result.kappa, result.kappa_low)
        bias = result.bias.mean / (len(rated.levels) - 1) if result.bias else 0.0
        _keep(out, rated.metric, asked, prompts, questions, result.agreement, kappa, bias)
    if as_json:
        print_json({"judge": asked.to_json(), **asdict(result)})
    else:
        show(*_rendered_ratings(result))
    _warn_few_labels(result.labelled)


def _rendered_ratings(result: "RatingCalibration") -> Iterator["RenderableType"]:
    from assay.report.console import confusion_table, facts_table
    from assay.report.numbers import count, difference, figure, percent

    facts = [
        ("criterion", result.criterion),
        ("labeled answers", count(result.labelled)),
        ("same level", _interval(result.agreement)),
        ("within one level", _interval(result.within_one)),
        ("weighted kappa", _kappa(result)),
    ]
    if bias := result.bias:
        words = "levels above people" if bias.mean >= 0 else "levels below people"
        facts.append(("bias", f"{difference(bias.mean)} {words}, {_interval(bias)}"))
    facts += [
        ("mean distance", f"{figure(result.error)} levels"),
        ("position flips", percent(result.differing)),
        ("undecided", count(result.undecided)),
    ]
    yield facts_table(facts)
    yield from ("", confusion_table(result.confusion), "", _means("mean", result))


def _kappa(result: "Calibration | RatingCalibration | NuggetCalibration") -> str:
    """Kappa, and whether its lower end reaches what a gate needs."""
    from assay.answers.calibration import MIN_KAPPA
    from assay.report.numbers import figure

    if result.kappa is None or result.kappa_low is None:
        return figure(result.kappa)
    enough = "enough" if result.kappa_low >= MIN_KAPPA else "too little"
    return f"{figure(result.kappa)}, at least {figure(result.kappa_low)}: {enough} for a gate"


def _interval(estimate: "Estimate") -> str:
    """A mean with its interval."""
    from assay.report.numbers import with_interval

    return with_interval(estimate.mean, estimate.low, estimate.high)
