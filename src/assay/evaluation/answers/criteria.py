"""What a judge says by criteria."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from assay.answers.case import AnswerCase
from assay.answers.criteria import (
    Criterion,
    CriterionRating,
    criterion_failure,
    rate_answer,
)
from assay.answers.judge import MAX_FLIPS, Judge
from assay.evaluation.answers.asking_again import CounterfactualRunner
from assay.metrics.statistics import SampleSummary, below, summarize
from assay.net.gather import gather_for
from assay.run.answers import AnswerStatistic, CriterionRecord

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


@dataclass(frozen=True)
class RatedCriterion:
    """The ratings by one criterion, by query id; `failure` is why they are not believed."""

    criterion: Criterion
    judge: str
    ratings: Mapping[str, CriterionRating]
    failure: str | None = None

    def statistic(self, seed: int) -> AnswerStatistic:
        """An answer that was not decided, or is missing, counts as 0."""
        ratings = self.ratings.values()
        summary = summarize(np.array([each.value or 0.0 for each in ratings]), seed=seed)
        undecided = sum(each.value is None for each in ratings)
        doubt = f"; {undecided} undecided, counted as 0" if undecided else ""
        how = f"{self.criterion.text.splitlines()[0][:80]}{doubt}"
        return answer_statistic(summary, 1.0, how)

    def record(self) -> CriterionRecord:
        """What was asked, and how steadily the judge rated by it."""
        asked = {query_id: each for query_id, each in self.ratings.items() if each.votes}
        votes = Counter(vote for each in asked.values() for vote in each.votes)
        decided = {name: each.value for name, each in asked.items() if each.value is not None}
        lowest = sorted(decided, key=lambda query_id: decided[query_id])
        return CriterionRecord(
            name=self.criterion.name,
            text=self.criterion.text,
            levels=list(self.criterion.levels),
            fingerprint=self.criterion.fingerprint,
            judge=self.judge,
            rated=len(asked),
            undecided=len(asked) - len(decided),
            differing=sum(len(set(each.votes)) > 1 for each in asked.values()),
            counts={level: votes[level] for level in self.criterion.levels},
            lowest=[each for each in lowest if decided[each] != 1.0][:_LOWEST],
        )

    @property
    def doubt(self) -> str | None:
        """Why ratings are worth nothing: controls failed, most have no level, or order decides.

        On a scale of numbers, neighboring levels are no contradiction.
        """
        levels = self.criterion.levels
        asked = [each.votes for each in self.ratings.values() if each.votes]
        mute = sum(None in votes for votes in asked)
        if self.failure or 2 * mute > len(asked):
            said = f"the judge gave {mute} of {len(asked)} answers no rating that is one of "
            return self.failure or said + ", ".join(levels)
        places = [[levels.index(vote) for vote in votes if vote is not None] for votes in asked]
        tolerance = 0 if len(levels) == 2 else 1
        flips = sum(max(each) - min(each) > tolerance for each in places if len(each) > 1)
        if flips <= MAX_FLIPS * len(asked):
            return None
        return (
            f"the judge rated {flips} of {len(asked)} answers differently when they stood before "
            f"the question; at most {100 * MAX_FLIPS:g}% are accepted"
        )


def believed_ratings(
    rated: Sequence[RatedCriterion],
) -> tuple[list[RatedCriterion], str | None]:
    """The criteria whose ratings are believed, and why others are not."""
    doubts = [f"criterion {each.criterion.name!r}: {each.doubt}" for each in rated if each.doubt]
    return [each for each in rated if not each.doubt], "; ".join(doubts) or None


async def rate_answers(
    judge: Judge,
    criteria: Sequence[Criterion],
    cases: Sequence[AnswerCase],
    asker: CounterfactualRunner,
) -> list[RatedCriterion]:
    """Rate every answer by every criterion; an application that failed gets no value.

    A criterion whose controls the judge fails is not asked about.
    """

    async def rate(pair: tuple[Criterion, AnswerCase]) -> CriterionRating:
        criterion, case = pair
        if case.answer is None:
            return CriterionRating((), None)
        return await rate_answer(
            judge.about(case.query_id), criterion, case.question, case.answer, case.seen_texts
        )

    tested = asker.config.judge_set.controls > 0
    failures = [await criterion_failure(judge, each) if tested else None for each in criteria]
    believed = [each for each, failure in zip(criteria, failures, strict=True) if not failure]
    pairs = [(criterion, case) for criterion in believed for case in cases]
    ratings = iter(await gather_for(pairs, rate, "rating answers", asker.progress))
    return [
        RatedCriterion(
            criterion,
            judge.name,
            {} if failure else {case.query_id: next(ratings) for case in cases},
            failure,
        )
        for criterion, failure in zip(criteria, failures, strict=True)
    ]
