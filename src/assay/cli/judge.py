"""`assay judge calibrate`: compare a judge with people's labels."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import click

from assay.answers.calibration import (
    MIN_KAPPA,
    MIN_LABELS,
    Calibration,
    LabeledAnswer,
    LabeledNugget,
    LabeledRating,
    NuggetCalibration,
    RatingCalibration,
    add_record,
    calibrate_assignments,
    calibrate_judge,
    calibrate_ratings,
    make_record,
    read_labels,
    read_nugget_labels,
    read_rating_labels,
)
from assay.answers.criteria import (
    VOTES,
    CriterionRating,
    criterion_prompts,
    rate_answer,
    read_criteria,
)
from assay.answers.judge import Judge, Judgment, correctness_prompts, unreliable
from assay.answers.nuggets import PROMPT, NuggetAssignment, assign_by_judge, assign_by_rules
from assay.cli.console import progress_bar
from assay.cli.options import JudgeOption, MaxCostOption, require_used
from assay.cli.verb import Result, argument, option, setting_option, switch
from assay.errors import UsageError
from assay.evaluation.gates import CORRECTNESS, NUGGETS
from assay.llm.prompt import load_prompt
from assay.llm.providers.opening import CachedProvider, open_provider
from assay.net.gather import gather_for
from assay.net.json import JsonObject
from assay.report.console import confusion_table, facts_table
from assay.report.numbers import count, difference, figure, percent, with_interval
from assay.run.config import JudgeSettings

if TYPE_CHECKING:
    from rich.console import RenderableType

    from assay.llm.providers.provider import Spending
    from assay.metrics.statistics import Estimate
    from assay.progress import Progress

_RULES = "rules"
_OF_MODELS = ("judge_set", "max_cost", "out")
_Row = TypeVar("_Row")
_Said = TypeVar("_Said")


def calibrate(
    context: click.Context,
    labels: Annotated[
        Path,
        argument(
            "LABELS.jsonl",
            "JSON lines: question, answer, reference, label (true or false, given by a person), "
            "and verdict or verdicts if a judge has already decided. For lines without a label, "
            "the share of right answers is estimated.",
        ),
    ],
    judge: JudgeOption = None,
    judge_set: Annotated[list[str] | None, setting_option("judge_set")] = None,
    criterion: Annotated[
        Path | None,
        option(
            "Calibrate ratings by this criterion of your own (.md) instead: label is then one "
            "of its levels, and rating or ratings what a judge has said already.",
            None,
            "FILE",
            "--criteria",
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
) -> Result:
    """Measure how well a judge agrees with people. Prints accuracy, kappa and flip rate."""
    if criterion is not None and nuggets:
        raise UsageError("give --criteria or --nuggets, not both")
    chosen = JudgeSettings.parse(judge_set or (), "judge_set")
    opened = JudgeOptions(judge, max_cost, chosen.timeout, chosen.concurrency)
    if criterion is not None:
        return _calibrate_criterion(labels, criterion, opened, out)
    if not nuggets:
        return _calibrate_answers(labels, opened, chosen.votes, out)
    if judge == _RULES:
        require_used(context, _OF_MODELS, "on --judge rules; leave it out")
    return _calibrate_nuggets(labels, opened, chosen.votes, out)


@dataclass(frozen=True, slots=True)
class JudgeOptions:
    """The options that decide which model is asked, and how."""

    spec: str | None
    max_cost: float | None
    timeout: float | None
    concurrency: int | None

    def open(self) -> CachedProvider:
        """The model; nothing is called before the first prompt."""
        return open_provider(
            self.spec, max_cost=self.max_cost, timeout=self.timeout, concurrency=self.concurrency
        )


@dataclass(frozen=True, slots=True)
class CalibratedJudge:
    """Who gave the verdicts; with nothing else where it was the rules, or all were recorded."""

    provider: str
    votes: int = 0
    prompts: Mapping[str, str] = field(default_factory=dict)
    spending: "Spending | None" = None

    def to_json(self, *, with_prompts: bool = False) -> JsonObject:
        """What `--json` says of the judge."""
        found: JsonObject = {"provider": self.provider}
        if self.spending is not None:
            found["votes"] = self.votes
            if with_prompts:
                found["prompts"] = self.prompts
            found["spending"] = self.spending.model_dump()
        return found


def ask_judge(
    rows: Sequence[_Row],
    recorded: Sequence[_Said | None],
    options: JudgeOptions,
    ask: Callable[[Judge, _Row], Awaitable[_Said]],
    what: str,
    votes: int,
) -> tuple[list[_Said], CalibratedJudge]:
    """A verdict for each row: the recorded one, else what `ask` returns; and who was asked.

    No model is opened if nothing is left to ask.

    Parameters:
        rows: what is judged.
        recorded: the verdict of each row, None where it has none.
        options: how the model is opened.
        ask: asks the judge about one row.
        what: the name of the work in the progress bar.
        votes: how many the judge has.
    """
    left = [row for row, known in zip(rows, recorded, strict=True) if known is None]
    if not left:
        return [known for known in recorded if known is not None], CalibratedJudge("recorded")

    async def run(progress: "Progress") -> tuple[list[_Said], CalibratedJudge]:
        async with options.open() as provider:
            judge = Judge(provider, votes)
            found = await gather_for(left, lambda row: ask(judge, row), what, progress)
            return found, CalibratedJudge(judge.name, judge.votes, judge.prompts, provider.spending)

    with progress_bar() as progress:
        found, asked = asyncio.run(run(progress))
    fresh = iter(found)
    return [next(fresh) if known is None else known for known in recorded], asked


def _calibrate_answers(
    labels: Path,
    opened: JudgeOptions,
    votes: int,
    out: Path | None,
) -> Result:
    """Compare a judge's verdicts about answers with those of people, and print the result."""

    async def ask(judge: Judge, row: LabeledAnswer) -> Judgment:
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
        _require_own_verdicts(row.recorded for row in labeled)
        questions, prompts = [row.question for row in labeled], correctness_prompts(asked.votes)
        kappa = (result.kappa, result.kappa_low)
        _keep(out, CORRECTNESS, asked, prompts, questions, result.accuracy, kappa, result.bias)
    value = {"judge": asked.to_json(with_prompts=True), **asdict(result), "unreliable": doubt}
    notes = [*_few_labels(result.labelled), *_answer_notes(result)]
    if doubt:
        notes.append(f"warning: assay eval would not accept this judge: {doubt}")
    return Result(value, _rendered_answers(result), notes=notes)


def _require_own_verdicts(verdicts: Iterable[object]) -> None:
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
    given = (metric, asked.provider, asked.votes, prompts, questions)
    add_record(out, make_record(*given, agreement.mean, *kappa, bias))


def _few_labels(labeled: int) -> list[str]:
    if labeled >= MIN_LABELS:
        return []
    return [f"warning: only {labeled} labels: below {MIN_LABELS} the interval is not reliable"]


def _rendered_answers(result: Calibration) -> Iterator["RenderableType"]:
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


def _means(what: str, result: Calibration | RatingCalibration) -> "RenderableType":
    """By the labels alone; and by the judge, where there are answers without labels."""
    means = [(f"{what}, by the labels alone", _interval(result.labels_mean))]
    if result.corrected is not None:
        means += [
            ("unlabeled answers", count(result.unlabelled)),
            (f"{what}, by the judge alone", figure(result.uncorrected)),
            (f"{what}, judge corrected by the labels", _interval(result.corrected)),
        ]
    return facts_table(means)


def _answer_notes(result: Calibration) -> Iterator[str]:
    if result.unparseable_votes:
        yield (
            f"warning: {result.unparseable_votes} votes were neither TRUE nor FALSE: this model "
            "explains instead of deciding; choose another one"
        )
    if result.kappa is None:
        yield "Cohen's kappa is undefined here: judge and labels always give the same single value."
    if result.corrected is None:
        yield (
            "To estimate unlabeled answers too, add lines without a label, such as those of a run."
        )


def _calibrate_nuggets(labels: Path, opened: JudgeOptions, votes: int, out: Path | None) -> Result:
    """Compare a judge's labels of nuggets with those of people, and print the result."""

    async def ask(judge: Judge, row: LabeledNugget) -> NuggetAssignment:
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
    value = {"judge": asked.to_json(), **asdict(result)}
    return Result(value, _rendered_nuggets(result), notes=_few_labels(result.labelled))


def _rendered_nuggets(result: NuggetCalibration) -> "Iterator[RenderableType]":
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
    labels: Path, criterion: Path, opened: JudgeOptions, out: Path | None
) -> Result:
    """Compare a judge's ratings by one criterion with those of people, and print the result."""
    (rated, *more) = read_criteria(criterion)
    if more:
        raise UsageError(f"--criteria takes one criterion here, {criterion} has {len(more) + 1}")

    async def ask(judge: Judge, row: LabeledRating) -> CriterionRating:
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
        _require_own_verdicts(row.recorded for row in labeled)
        questions, prompts = [row.question for row in labeled], criterion_prompts(rated)
        kappa = (result.kappa, result.kappa_low)
        bias = result.bias.mean / (len(rated.levels) - 1) if result.bias else 0.0
        _keep(out, rated.metric, asked, prompts, questions, result.agreement, kappa, bias)
    value = {"judge": asked.to_json(), **asdict(result)}
    return Result(value, _rendered_ratings(result), notes=_few_labels(result.labelled))


def _rendered_ratings(result: RatingCalibration) -> Iterator["RenderableType"]:
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


def _kappa(result: Calibration | RatingCalibration | NuggetCalibration) -> str:
    """Kappa, and whether its lower end reaches what a gate needs."""
    if result.kappa is None or result.kappa_low is None:
        return figure(result.kappa)
    enough = "enough" if result.kappa_low >= MIN_KAPPA else "too little"
    return f"{figure(result.kappa)}, at least {figure(result.kappa_low)}: {enough} for a gate"


def _interval(estimate: "Estimate") -> str:
    """A mean with its interval."""
    return with_interval(estimate.mean, estimate.low, estimate.high)
