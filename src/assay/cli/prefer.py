"""The part of `assay compare` that asks a judge which answers are better."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from assay.cli.run_options import read_values
from assay.errors import UsageError
from assay.run.options import RunSetting, settings

if TYPE_CHECKING:
    from assay.run.answers import PreferenceReport
    from assay.run.folder import RunFolder

Prefer = Annotated[
    bool,
    typer.Option(
        "--prefer",
        help="Also ask a judge (--judge) which of the two answers to each question is better, in "
        "both orders: wins, ties, flips, a sign test. Exit code 3 if the judge is not to be "
        "believed.",
    ),
]
PreferBy = Annotated[
    Path | None,
    typer.Option(
        "--prefer-by",
        help="With --prefer: a criterion of your own (.md) that says what makes an answer better.",
        metavar="FILE",
    ),
]
_NAMES = ("max_cost",)


def preference_settings() -> list[RunSetting]:
    """The options of `assay eval` that mean the same here: the judge's."""
    chosen = [each for name, each in settings().items() if name.startswith("judge")]
    return [_renamed(each) for each in (*chosen, *(settings()[name] for name in _NAMES))]


def _renamed(setting: RunSetting) -> RunSetting:
    words = setting.option.help.replace("With --answers:", "With --prefer:")
    return replace(setting, option=replace(setting.option, help=words))


def prefer(
    context: typer.Context,
    folders: "list[RunFolder]",
    criterion: Path | None,
    options: dict[str, Any],
) -> "PreferenceReport":
    """Ask the judge about the answers of two runs."""
    if len(folders) != 2:
        raise UsageError("--prefer compares the answers of two runs; name two")
    from assay.cli.eval import judge_spec
    from assay.cli.progress import progress_bar
    from assay.evaluation.answers.preferences import answer_pairs, prefer_answers
    from assay.measure.answers.criteria import read_criteria
    from assay.measure.answers.preference import BETTER
    from assay.run.config import RunConfig

    values = read_values(context, preference_settings(), options)
    values["judge"] = judge_spec(options["judge"], options["max_cost"])
    if not values["judge"]:
        raise UsageError("--prefer asks a judge; add --judge SPEC")
    better = BETTER
    if criterion is not None:
        (found, *more) = read_criteria(criterion)
        if more:
            raise UsageError(f"--prefer-by takes one criterion, {criterion} has {len(more) + 1}")
        better = found.text
    pairs = answer_pairs(*folders)
    config = RunConfig(target="", answers=True, **values)
    with progress_bar() as progress:
        return asyncio.run(prefer_answers(pairs, config, criterion=better, progress=progress))


def refuse_unused(context: typer.Context) -> None:
    """A judge that is named and would not be asked."""
    for name in ("judge", "max_cost", "prefer_by"):
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            flag = f"--{name.replace('_', '-')}"
            raise UsageError(f"{flag} has no effect without --prefer; add it")
