"""What a judge says by criteria: ratings of answers, and which of two runs' answers it prefers."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from assay.answers.case import AnswerCase
from assay.answers.criteria import (
    BETTER,
    AnswerPair,
    Criterion,
    CriterionRating,
    Preference,
    control_failure,
    criterion_failure,
    prefer,
    preference_controls,
    rate_answer,
    read_criteria,
    unreliable_preferences,
)
from assay.answers.judge import MAX_FLIPS, Judge, UnreliableJudge
from assay.data.dataset import Document
from assay.errors import BudgetExceeded, ProviderError, RunError, UsageError
from assay.evaluation.answers.judging import JudgeUse, open_judge
from assay.llm.prompt import load_prompt
from assay.llm.providers.provider import LLMProvider
from assay.metrics.statistics import SampleSummary, below, sign_test, summarize
from assay.net.gather import gather, gather_for
from assay.progress import Progress, silent
from assay.run.answers import (
    AnswerStatistic,
    CriterionRecord,
    PreferenceReport,
    PreferenceRow,
)
from assay.run.config import RunConfig
from assay.run.folder import RunFolder
from assay.run.models import AnswerRow

_LOWEST = 5


def answer_statistic(summary: SampleSummary, ceiling: float | None, how: str) -> AnswerStatistic:
    """One metric of answers, as a report has it."""
    return AnswerStatistic(
        n=summary.n,
        mean=summary.mean,
        low=summary.low,
        high=below(summary.high, 1.0 if ceiling is None else ceiling),
        median=summary.median,
        std=summary.std,
        ceiling=ceiling,
        how=how,
    )


@dataclass
class CriteriaScores:
    """Ratings by metric name, then by query id."""

    criteria: dict[str, Criterion] = field(default_factory=dict)
    ratings: dict[str, dict[str, CriterionRating]] = field(default_factory=dict)
    judge: str = ""
    failed: dict[str, str] = field(default_factory=dict)
    """Metric names whose controls the judge failed, with the reason."""

    def statistics(self, seed: int) -> dict[str, AnswerStatistic]:
        """One for each criterion; an answer that was not decided, or is missing, counts as 0."""
        return {name: self._statistic(name, seed) for name in self.ratings}

    def _statistic(self, name: str, seed: int) -> AnswerStatistic:
        ratings = self.ratings[name].values()
        values = np.array([each.value or 0.0 for each in ratings], dtype=np.float64)
        summary = summarize(values, seed=seed)
        undecided = sum(each.value is None for each in ratings)
        doubt = f"; {undecided} undecided, counted as 0" if undecided else ""
        how = f"{self.criteria[name].text.splitlines()[0][:80]}{doubt}"
        return answer_statistic(summary, 1.0, how)

    def records(self) -> list[CriterionRecord]:
        """What was asked, and how steadily the judge rated by it."""
        return [self._record(name, each) for name, each in self.criteria.items()]

    def _record(self, name: str, criterion: Criterion) -> CriterionRecord:
        by_query = self.ratings[name]
        asked = {query_id: each for query_id, each in by_query.items() if each.votes}
        votes = Counter(vote for each in asked.values() for vote in each.votes)
        decided = [query_id for query_id, each in asked.items() if each.value is not None]
        lowest = sorted(decided, key=lambda query_id: asked[query_id].value or 0.0)
        return CriterionRecord(
            name=criterion.name,
            text=criterion.text,
            levels=list(criterion.levels),
            fingerprint=criterion.fingerprint,
            judge=self.judge,
            rated=len(asked),
            undecided=len(asked) - len(decided),
            differing=sum(len(set(each.votes)) > 1 for each in asked.values()),
            counts={level: votes[level] for level in criterion.levels},
            lowest=[each for each in lowest if asked[each].value != 1.0][:_LOWEST],
        )

    def refuse_unsteady(self) -> str | None:
        """Take out the criteria by which the judge gave no ratings to believe; the reason."""
        doubts = {}
        for name, criterion in self.criteria.items():
            asked = [each for each in self.ratings[name].values() if each.votes]
            if doubt := self.failed.get(name) or _doubt(criterion, asked):
                doubts[name] = f"criterion {criterion.name!r}: {doubt}"
        for name in doubts:
            del self.criteria[name], self.ratings[name]
        return "; ".join(doubts.values()) or None

    def values(self, query_id: str) -> dict[str, float]:
        """The figures of one row."""
        found = {name: by.get(query_id) for name, by in self.ratings.items()}
        return {name: each.value or 0.0 for name, each in found.items() if each is not None}

    def reasons(self, query_id: str) -> dict[str, str]:
        """Why, if the judge said so."""
        found = {name: by.get(query_id) for name, by in self.ratings.items()}
        return {name: each.reason for name, each in found.items() if each and each.reason}


def _doubt(criterion: Criterion, asked: Sequence[CriterionRating]) -> str | None:
    """Why ratings are worth nothing: most have no level, or the order of the texts decides.

    On a scale of numbers, neighboring levels are no contradiction.
    """
    mute = sum(None in each.votes for each in asked)
    if 2 * mute > len(asked):
        allowed = ", ".join(criterion.levels)
        return f"the judge gave {mute} of {len(asked)} answers no rating that is one of {allowed}"
    places = [
        [criterion.levels.index(vote) for vote in each.votes if vote is not None] for each in asked
    ]
    apart = 0 if len(criterion.levels) == 2 else 1
    flips = sum(max(each) - min(each) > apart for each in places if len(each) > 1)
    if asked and flips > MAX_FLIPS * len(asked):
        return (
            f"the judge rated {flips} of {len(asked)} answers differently when they stood before "
            f"the question; at most {100 * MAX_FLIPS:g}% are accepted"
        )
    return None


async def rate_answers(
    judge: Judge,
    criteria: Sequence[Criterion],
    cases: Sequence[AnswerCase],
    documents: Mapping[str, Document],
    *,
    controls: bool = True,
    progress: Progress = silent,
) -> CriteriaScores:
    """Rate every answer by every criterion; an application that failed gets no value.

    A criterion whose `controls` the judge fails is not asked about.
    """
    scores = CriteriaScores(
        {each.metric: each for each in criteria},
        {each.metric: {} for each in criteria},
        judge.name,
    )
    for each in criteria if controls else ():
        if why := await criterion_failure(judge, each):
            scores.failed[each.metric] = why
    believed = [each for each in criteria if each.metric not in scores.failed]
    pairs = [(criterion, case) for criterion in believed for case in cases]

    async def rate(pair: tuple[Criterion, AnswerCase]) -> CriterionRating:
        criterion, case = pair
        if case.answer is None:
            return CriterionRating((), None)
        sources = case.seen_texts(documents)
        return await rate_answer(
            judge.about(case.query_id), criterion, case.question, case.answer, sources
        )

    ratings = await gather_for(pairs, rate, "rating answers", progress)
    for (criterion, case), rating in zip(pairs, ratings, strict=True):
        scores.ratings[criterion.metric][case.query_id] = rating
    return scores


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
            raise RunError("--prefer needs a judge; add --judge SPEC")
        try:
            known = preference_controls(pairs, config.judge_set.controls)
            controls = await gather(prefer(judge, each) for each in known)
            if failure := control_failure(controls):
                raise UnreliableJudge(failure)
            found = await gather_for(
                pairs, lambda pair: prefer(judge, pair, criterion), "comparing answers", progress
            )
            if doubt := unreliable_preferences(found):
                raise UnreliableJudge(doubt)
        except (ProviderError, BudgetExceeded, UnreliableJudge) as error:
            trouble = str(error)
        use = JudgeUse.of(judge)
    return _report(found, controls, use, trouble, criterion, config.seed)


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
        spending=use.spending,
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
