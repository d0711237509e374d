"""The part of `assay judge calibrate` that is about nuggets."""

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from assay.cli.console import print_json, show, warn
from assay.errors import UsageError

if TYPE_CHECKING:
    from rich.console import RenderableType

    from assay.measure.answers.nugget_calibration import LabeledNugget, NuggetCalibration
    from assay.measure.answers.nuggets import NuggetAssignment
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
    from assay.evaluation.calibrated import NUGGETS
    from assay.measure.answers.calibration import MIN_LABELS
    from assay.measure.answers.calibration_record import add_record, make_record
    from assay.measure.answers.nugget_calibration import calibrate_assignments, read_nugget_labels
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
        show(*_rendered(result))
    if result.labelled < MIN_LABELS:
        warn(f"only {result.labelled} labels: below {MIN_LABELS} the interval is not reliable")


async def _assigned(
    rows: "Sequence[LabeledNugget]", opened: dict[str, Any], votes: int, progress: "Progress"
) -> "tuple[list[NuggetAssignment], dict[str, Any]]":
    from assay.answer.providers.opening import open_provider
    from assay.measure.answers.judge import Judge
    from assay.measure.answers.nuggets import assign_by_judge
    from assay.net.gather import gather

    done = 0
    async with open_provider(**opened) as provider:
        judge = Judge(provider, votes)

        async def one(row: "LabeledNugget") -> "NuggetAssignment":
            nonlocal done
            (found,) = await assign_by_judge(judge, row.question, row.answer, [row.nugget])
            done += 1
            progress("assigning nuggets", done, len(rows))
            return found

        assigned = await gather(map(one, rows))
        facts = {"provider": provider.name, "votes": judge.votes}
        return assigned, {**facts, "spending": asdict(provider.spending)}


def _rendered(result: "NuggetCalibration") -> "Iterator[RenderableType]":
    from rich.table import Table

    from assay.report.console import facts_table
    from assay.report.numbers import count, figure, percent, with_interval

    same = result.agreement
    yield facts_table(
        [
            ("labeled nuggets", count(result.labelled)),
            ("same label", with_interval(same.mean, same.low, same.high)),
            ("Cohen's kappa", figure(result.kappa)),
            ("kappa, quadratic weights", figure(result.weighted_kappa)),
            ("flip rate", percent(result.flip_rate)),
            ("undecided", count(result.undecided)),
            ("recall, by people", figure(result.labels_mean)),
            ("recall, by the judge", figure(result.judged_mean)),
        ]
    )
    yield ""
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("people say")
    for name in next(iter(result.confusion.values())):
        table.add_column(f"judge: {name}", justify="right")
    for label, found in result.confusion.items():
        table.add_row(label, *map(count, found.values()))
    yield table
