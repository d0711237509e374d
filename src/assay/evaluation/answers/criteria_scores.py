"""Ratings of a run's or a log's answers by criteria of the user's own."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from assay.data.dataset import Document
from assay.measure.answers.answer_metrics import AnswerCase
from assay.measure.answers.criteria import Criterion, CriterionRating, rate_answer
from assay.measure.answers.judge import Judge
from assay.measure.statistics import summarize
from assay.net.gather import for_each
from assay.progress import Progress, silent
from assay.run.answers import AnswerStatistic

_AT_ONCE = 16


@dataclass
class CriteriaScores:
    """Ratings by metric name, then by query id."""

    ratings: dict[str, dict[str, CriterionRating]] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)

    def statistics(self) -> dict[str, AnswerStatistic]:
        """One for each criterion; an answer that was not decided, or is missing, counts as 0."""
        return {name: self._statistic(name) for name in self.ratings}

    def _statistic(self, name: str) -> AnswerStatistic:
        ratings = self.ratings[name].values()
        summary = summarize(np.array([each.value or 0.0 for each in ratings], dtype=np.float64))
        undecided = sum(each.value is None for each in ratings)
        doubt = f"; {undecided} undecided, counted as 0" if undecided else ""
        return AnswerStatistic(
            n=summary.n,
            mean=summary.mean,
            low=summary.low,
            high=summary.high,
            median=summary.median,
            std=summary.std,
            ceiling=1.0,
            how=f"{self.texts[name]}{doubt}",
        )

    def values(self, query_id: str) -> dict[str, float]:
        """The figures of one row."""
        return {name: by[query_id].value or 0.0 for name, by in self.ratings.items()}

    def reasons(self, query_id: str) -> dict[str, str]:
        """Why, where the judge was asked for it."""
        found = {name: by[query_id].reason for name, by in self.ratings.items()}
        return {name: words for name, words in found.items() if words}


async def rate_answers(
    judge: Judge,
    criteria: Sequence[Criterion],
    cases: Sequence[AnswerCase],
    documents: Mapping[str, Document],
    *,
    reasons: bool = False,
    progress: Progress = silent,
) -> CriteriaScores:
    """Rate every answer by every criterion; an application that failed gets no value."""
    scores = CriteriaScores(
        {each.metric: {} for each in criteria},
        {each.metric: each.text.splitlines()[0][:80] for each in criteria},
    )
    done = 0

    async def one(pair: tuple[Criterion, AnswerCase]) -> None:
        nonlocal done
        criterion, case = pair
        rating = CriterionRating((), None)
        if case.answer is not None:
            rating = await rate_answer(
                judge,
                criterion,
                case.question,
                case.answer,
                case.seen_texts(documents),
                reason=reasons,
            )
        scores.ratings[criterion.metric][case.query_id] = rating
        done += 1
        progress("rating answers", done, len(criteria) * len(cases))

    await for_each(((c, case) for c in criteria for case in cases), one, _AT_ONCE)
    return scores
