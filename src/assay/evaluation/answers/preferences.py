"""Pairwise preference between the answers of two runs, by a judge."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np

from assay.answer.prompt import load_prompt
from assay.answer.providers.provider import LLMProvider
from assay.errors import BudgetExceeded, ProviderError, RunError, UsageError
from assay.evaluation.answers.judge_opening import JudgeUse, UnreliableJudge, open_judge
from assay.measure.answers.criteria import (
    BETTER,
    AnswerPair,
    Preference,
    control_failure,
    prefer,
    preference_controls,
    read_criteria,
    unreliable_preferences,
)
from assay.measure.answers.judge import Judge
from assay.measure.statistics import sign_test, summarize
from assay.net.gather import for_each, gather
from assay.progress import Progress, silent
from assay.run.answers import JudgeSpending, PreferenceReport, PreferenceRow
from assay.run.config import RunConfig
from assay.run.folder import RunFolder
from assay.run.models import AnswerRow

_AT_ONCE = 16


def answer_pairs(a: RunFolder, b: RunFolder) -> list[AnswerPair]:
    """The questions that both runs asked, with both answers.

    Raises:
        RunError: a run has no answers, or keeps no text of them.
    """
    for folder in (a, b):
        if folder.read_header().config.private:
            raise RunError(f"run {folder.name!r} is private: it holds no text to compare")
    theirs = {row.query_id: row for row in b.read_answers()}
    pairs = list(_pairs(a.read_answers(), theirs))
    if not pairs:
        raise RunError("the two runs have no answered question in common; run both with --answers")
    return pairs


def _pairs(rows: Iterable[AnswerRow], theirs: dict[str, AnswerRow]) -> Iterator[AnswerPair]:
    for row in rows:
        if other := theirs.get(row.query_id):
            reference = row.reference_answer or ""
            yield AnswerPair(row.query_id, row.query_text, row.answer, other.answer, reference)


async def prefer_runs(
    folders: Sequence[RunFolder],
    config: RunConfig,
    by: Path | None = None,
    *,
    provider: LLMProvider | None = None,
    progress: Progress = silent,
) -> PreferenceReport:
    """Which of two runs answers better, by the judge or by one criterion from a file."""
    better = BETTER
    if by is not None:
        (found, *more) = read_criteria(by)
        if more:
            raise UsageError(f"--prefer-by takes one criterion, {by} has {len(more) + 1}")
        better = found.text
    a, b = folders
    pairs = answer_pairs(a, b)
    return await prefer_answers(
        pairs, config, criterion=better, provider=provider, progress=progress
    )


async def prefer_answers(
    pairs: list[AnswerPair],
    config: RunConfig,
    *,
    criterion: str = BETTER,
    provider: LLMProvider | None = None,
    progress: Progress = silent,
) -> PreferenceReport:
    """Ask the judge that the settings, or the caller, name. A judge that fails is in `trouble`.

    Every choice is in the provider's cache: doing the same again asks only what is left.
    """
    found: list[Preference] = []
    controls: list[Preference] = []
    trouble, use = None, None
    async with open_judge(config, provider) as judge:
        if judge is None:
            raise RunError("preferences are a judge's; add --judge")
        try:
            known = preference_controls(pairs, config.judge_controls)
            controls = await gather(prefer(judge, each) for each in known)
            if failure := control_failure(controls):
                raise UnreliableJudge(failure)
            await _ask(judge, pairs, criterion, found, progress)
            if doubt := unreliable_preferences(found, config.judge_max_flips):
                raise UnreliableJudge(doubt)
        except (ProviderError, BudgetExceeded, UnreliableJudge) as error:
            trouble = str(error)
        use = JudgeUse.of(judge)
    return _report(found, controls, use, trouble, criterion, config.seed)


async def _ask(
    judge: Judge,
    pairs: list[AnswerPair],
    criterion: str,
    found: list[Preference],
    progress: Progress,
) -> None:
    answered: dict[str, Preference] = {}

    async def one(pair: AnswerPair) -> None:
        answered[pair.query_id] = await prefer(judge, pair, criterion)
        progress("comparing answers", len(answered), len(pairs))

    await for_each(pairs, one, _AT_ONCE)
    found += [answered[pair.query_id] for pair in pairs]


_VALUES = {"a": 0.0, "tie": 0.5, "b": 1.0}


def _report(
    found: list[Preference],
    controls: list[Preference],
    use: JudgeUse,
    trouble: str | None,
    criterion: str,
    seed: int,
) -> PreferenceReport:
    asked = [each for each in found if not each.by_rule]
    winners = [each.winner for each in found]
    report = PreferenceReport(
        judge=use.provider,
        votes=use.votes,
        prompt=load_prompt("judge_preference").id,
        criterion=criterion,
        pairs=len(found),
        decided_by_rule=len(found) - len(asked),
        flips=sum(each.flipped for each in asked),
        undecided=sum(each.mute for each in asked),
        controls=len(controls),
        controls_right=sum(each.winner == "a" for each in controls),
        spending=None if use.spending is None else JudgeSpending(**asdict(use.spending)),
        trouble=trouble,
    )
    if trouble or not found:
        return report
    summary = summarize(np.array([_VALUES[each] for each in winners]), seed=seed)
    wins_a, wins_b = winners.count("a"), winners.count("b")
    figures = {
        "wins_a": wins_a,
        "wins_b": wins_b,
        "ties": winners.count("tie"),
        "win_rate_b": summary.mean,
        "low": summary.low,
        "high": summary.high,
        "p_value": sign_test(wins_a, wins_b),
        "rows": [
            PreferenceRow(query_id=each.query_id, winner=each.winner, votes=list(each.votes))
            for each in found
        ],
    }
    return report.model_copy(update=figures)
