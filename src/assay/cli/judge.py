"""`assay judge calibrate`: compare a judge with people's labels."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import click

from assay.answers.calibration import (
    MIN_KAPPA,
    MIN_LABELS,
    Calibration,
    CalibrationRecord,
    LabeledRow,
    add_record,
    compare_with_labels,
    read_labels,
)
from assay.answers.criteria import VOTES, Criterion, rate_answer, read_criteria
from assay.answers.judge import TRUTH, Judge, Judgment, correctness_prompts, unreliable
from assay.answers.nuggets import PROMPT, SUPPORT, assign_by_judge, assign_by_rules
from assay.cli.console import progress_bar
from assay.cli.options import JudgeOption, MaxCostOption, require_used
from assay.cli.verb import Result, argument, option, setting_option, switch
from assay.errors import UsageError
from assay.evaluation.gates import CORRECTNESS, NUGGETS
from assay.llm.prompt import load_prompt
from assay.llm.providers.opening import open_provider
from assay.net.gather import gather_for
from assay.net.json import JsonObject
from assay.report.console import confusion_table, facts_table
from assay.report.numbers import count, difference, figure, percent, with_interval
from assay.run.config import JudgeSettings

if TYPE_CHECKING:
    from rich.console import RenderableType

    from assay.metrics.statistics import Estimate

_RULES = "rules"
_OF_MODELS = ("judge_set", "max_cost", "out")


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
    chosen = JudgeSettings.read(judge_set or (), "judge_set")
    if nuggets:
        subject = _nuggets()
        if judge == _RULES:
            require_used(context, _OF_MODELS, "on --judge rules; leave it out")
    elif criterion is not None:
        subject = _criterion(criterion)
    else:
        subject = _correctness()
    rows = read_labels(labels, subject.levels, subject.needs)
    votes = subject.votes or chosen.votes + chosen.votes % 2
    asked: JsonObject = {"provider": "recorded"}
    if nuggets and judge == _RULES:
        judgments = [assign_by_rules(row.question, row.answer, row.nugget) for row in rows]
        asked = {"provider": _RULES}
    elif left := [row for row in rows if row.recorded is None]:
        # No model is opened if nothing is left to ask.
        fresh, asked = _ask(left, subject, judge, votes, chosen, max_cost)
        judgments = [row.recorded or next(fresh) for row in rows]
    else:
        judgments = [row.recorded for row in rows if row.recorded]
    pairs = list(zip(rows, judgments, strict=True))
    result = compare_with_labels(
        [row.label for row in rows if row.label is not None],
        [judgment for row, judgment in pairs if row.label is not None],
        [judgment for row, judgment in pairs if row.label is None],
        subject.value,
    )
    if out is not None and asked["provider"] != _RULES:
        _keep(out, subject, rows, asked["provider"], votes, result)
    doubt = unreliable(judgments, max_flips=chosen.max_flips)
    notes = [*_notes(result)]
    if doubt:
        notes.append(f"warning: assay eval would not accept this judge: {doubt}")
    value = {"kind": subject.kind, "judge": asked, **asdict(result), "unreliable": doubt}
    return Result(value, _rendered(result), notes=notes)


@dataclass(frozen=True, slots=True)
class _Subject:
    """What is calibrated: its levels, how the judge is asked about a row, and by which prompts.

    `needs` is the field that a row needs; `votes` is 0 if the user decides.
    """

    kind: str
    levels: tuple[str, ...]
    needs: str
    ask: Callable[[Judge, LabeledRow], Coroutine[Any, Any, Judgment]]
    prompts: Callable[[int], tuple[str, ...]]
    votes: int = 0
    value: Callable[[Judgment], float | None] = lambda judgment: judgment.value


def _correctness() -> _Subject:
    async def ask(judge: Judge, row: LabeledRow) -> Judgment:
        return await judge.correctness(row.question, row.answer, row.reference)

    return _Subject(CORRECTNESS, TRUTH, "reference", ask, correctness_prompts)


def _criterion(path: Path) -> _Subject:
    rated: Criterion
    (rated, *more) = read_criteria(path)
    if more:
        raise UsageError(f"--criteria takes one criterion here, {path} has {len(more) + 1}")

    async def ask(judge: Judge, row: LabeledRow) -> Judgment:
        return await rate_answer(judge, rated, row.question, row.answer, row.sources)

    return _Subject(rated.metric, rated.levels, "", ask, lambda votes: rated.prompts, VOTES)


def _nuggets() -> _Subject:
    async def ask(judge: Judge, row: LabeledRow) -> Judgment:
        return (await assign_by_judge(judge, row.question, row.answer, [row.nugget]))[0]

    def credit(judgment: Judgment) -> float | None:
        return None if judgment.worst is None else SUPPORT.index(judgment.worst) / 2

    prompt = load_prompt(PROMPT).id
    return _Subject(NUGGETS, SUPPORT, "nugget", ask, lambda votes: (prompt,), value=credit)


def _ask(
    rows: list[LabeledRow],
    subject: _Subject,
    spec: str | None,
    votes: int,
    settings: JudgeSettings,
    max_cost: float | None,
) -> tuple[Iterator[Judgment], JsonObject]:
    """A judgment of each row, and what `--json` says of the judge."""

    async def run() -> tuple[Iterator[Judgment], JsonObject]:
        async with open_provider(
            spec,
            max_cost=max_cost,
            timeout=settings.timeout,
            concurrency=settings.concurrency,
        ) as provider:
            judge = Judge(provider, votes)
            found = await gather_for(rows, lambda row: subject.ask(judge, row), "judging", progress)
            prompts = {each.partition("@")[0]: each for each in subject.prompts(votes)}
            spending = provider.spending.model_dump()
            asked = {"provider": judge.name, "votes": votes, "prompts": prompts}
            return iter(found), {**asked, "spending": spending}

    with progress_bar() as progress:
        return asyncio.run(run())


def _keep(
    out: Path,
    subject: _Subject,
    rows: list[LabeledRow],
    judge: str,
    votes: int,
    result: Calibration,
) -> None:
    """Add the result to a file, if the judge itself gave every verdict that it rests on."""
    labeled = [row for row in rows if row.label is not None]
    if recorded := sum(row.recorded is not None for row in labeled):
        raise UsageError(
            f"{recorded} labeled lines have recorded verdicts of an unknown judge; --out records "
            "this judge's own: delete those verdicts from the file, and the judge gives new ones"
        )
    questions = [row.question for row in labeled]
    prompts = subject.prompts(votes)
    add_record(out, CalibrationRecord.of(subject.kind, judge, votes, prompts, questions, result))


def _notes(result: Calibration) -> Iterator[str]:
    if result.labelled < MIN_LABELS:
        yield (
            f"warning: only {result.labelled} labels: below {MIN_LABELS} the interval is not "
            "reliable"
        )
    if result.unparseable_votes:
        yield (
            f"warning: {result.unparseable_votes} votes were not one of the allowed words: this "
            "model explains instead of deciding; choose another one"
        )
    if result.kappa is None:
        yield "Cohen's kappa is undefined here: judge and labels always give the same single value."
    if result.corrected is None:
        yield (
            "To estimate unlabeled answers too, add lines without a label, such as those of a run."
        )


def _rendered(result: Calibration) -> Iterator["RenderableType"]:
    facts = [
        ("labeled answers", count(result.labelled)),
        ("accuracy", _interval(result.accuracy)),
        ("Cohen's kappa", _kappa(result)),
        ("judge above people", difference(result.bias)),
        ("flip rate", percent(result.flip_rate)),
        ("undecided", count(result.undecided)),
        ("votes that could not be parsed", count(result.unparseable_votes)),
    ]
    yield facts_table(facts)
    yield from ("", confusion_table(result.confusion), "")
    means = [("mean, by the labels alone", _interval(result.labels_mean))]
    if result.corrected is not None:
        means += [
            ("unlabeled answers", count(result.unlabelled)),
            ("mean, by the judge alone", figure(result.uncorrected)),
            ("mean, judge corrected by the labels", _interval(result.corrected)),
        ]
    yield facts_table(means)


def _kappa(result: Calibration) -> str:
    """Kappa, and whether its lower end reaches what a gate needs."""
    if result.kappa is None or result.kappa_low is None:
        return figure(result.kappa)
    enough = "enough" if result.kappa_low >= MIN_KAPPA else "too little"
    return f"{figure(result.kappa)}, at least {figure(result.kappa_low)}: {enough} for a gate"


def _interval(estimate: "Estimate") -> str:
    """A mean with its interval."""
    return with_interval(estimate.mean, estimate.low, estimate.high)
