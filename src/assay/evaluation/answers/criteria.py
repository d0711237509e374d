"""What a judge says about the answers of a run by criteria of the user's own."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from assay.answers.case import AnswerCase
from assay.answers.criteria import Criterion, criterion_failure, rate_answer
from assay.answers.judge import Judge, Judgment, unreliable
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
    """The ratings by one criterion, by query id; `doubt` is why they are not believed."""

    criterion: Criterion
    judge: str
    ratings: Mapping[str, Judgment]
    doubt: str | None = None

    @property
    def values(self) -> dict[str, float]:
        """An answer that was not decided, or is missing, counts as 0."""
        return {query_id: each.value or 0.0 for query_id, each in self.ratings.items()}

    def statistic(self, seed: int) -> AnswerStatistic:
        """The mean with its interval."""
        summary = summarize(np.array(list(self.values.values())), seed=seed)
        undecided = sum(each.value is None for each in self.ratings.values())
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
            differing=sum(each.differs for each in asked.values()),
            counts={level: votes[level] for level in self.criterion.levels},
            lowest=[each for each in lowest if decided[each] != 1.0][:_LOWEST],
        )


async def rate_answers(
    judge: Judge,
    criteria: Sequence[Criterion],
    cases: Sequence[AnswerCase],
    asker: CounterfactualRunner,
) -> list[RatedCriterion]:
    """Rate every answer by every criterion; an application that failed gets no value.

    A criterion whose controls the judge fails is not asked about.
    """
    found = []
    for criterion in criteria:

        async def rate(case: AnswerCase, criterion: Criterion = criterion) -> Judgment:
            if case.answer is None:
                return Judgment((), criterion.levels, by_rule=True)
            about = judge.about(case.query_id)
            return await rate_answer(about, criterion, case.question, case.answer, case.seen_texts)

        tested = asker.config.judge_set.controls > 0
        doubt = await criterion_failure(judge, criterion) if tested else None
        ratings: dict[str, Judgment] = {}
        if doubt is None:
            rated = await gather_for(cases, rate, "rating answers", asker.progress)
            ratings = {case.query_id: each for case, each in zip(cases, rated, strict=True)}
            doubt = unreliable(rated)
        found.append(RatedCriterion(criterion, judge.name, ratings, doubt))
    return found


def believed_ratings(
    rated: Sequence[RatedCriterion],
) -> tuple[list[RatedCriterion], str | None]:
    """The criteria whose ratings are believed, and why others are not."""
    doubts = [f"criterion {each.criterion.name!r}: {each.doubt}" for each in rated if each.doubt]
    return [each for each in rated if not each.doubt], "; ".join(doubts) or None
