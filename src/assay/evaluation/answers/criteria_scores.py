"""Ratings of a run's or a log's answers by criteria of the user's own."""

from collections import Counter
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
from assay.run.answers import AnswerStatistic, CriterionRecord

_AT_ONCE = 16
_LOWEST = 5


@dataclass
class CriteriaScores:
    """Ratings by metric name, then by query id."""

    criteria: dict[str, Criterion] = field(default_factory=dict)
    ratings: dict[str, dict[str, CriterionRating]] = field(default_factory=dict)
    judge: str = ""

    def statistics(self, seed: int = 0) -> dict[str, AnswerStatistic]:
        """One for each criterion; an answer that was not decided, or is missing, counts as 0."""
        return {name: self._statistic(name, seed) for name in self.ratings}

    def _statistic(self, name: str, seed: int) -> AnswerStatistic:
        ratings = self.ratings[name].values()
        values = np.array([each.value or 0.0 for each in ratings], dtype=np.float64)
        summary = summarize(values, seed=seed)
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
            how=f"{self.criteria[name].text.splitlines()[0][:80]}{doubt}",
        )

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

    def refuse_unsteady(self, max_flips: float) -> str | None:
        """Take out the criteria by which the judge gave no ratings to believe; why, in words."""
        doubts = {}
        for name, criterion in self.criteria.items():
            asked = [each for each in self.ratings[name].values() if each.votes]
            if doubt := _doubt(criterion, asked, max_flips):
                doubts[name] = f"criterion {criterion.name!r}: {doubt}"
        for name in doubts:
            del self.criteria[name], self.ratings[name]
        return "; ".join(doubts.values()) or None

    def values(self, query_id: str) -> dict[str, float]:
        """The figures of one row."""
        found = {name: by.get(query_id) for name, by in self.ratings.items()}
        return {name: each.value or 0.0 for name, each in found.items() if each is not None}

    def reasons(self, query_id: str) -> dict[str, str]:
        """Why, where the judge was asked for it."""
        found = {name: by.get(query_id) for name, by in self.ratings.items()}
        return {name: each.reason for name, each in found.items() if each and each.reason}


def _doubt(criterion: Criterion, asked: Sequence[CriterionRating], max_flips: float) -> str | None:
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
    if asked and flips > max_flips * len(asked):
        return (
            f"the judge rated {flips} of {len(asked)} answers otherwise when they stood before the "
            f"question; at most {100 * max_flips:g}% are accepted (--judge-max-flips)"
        )
    return None


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
        {each.metric: each for each in criteria},
        {each.metric: {} for each in criteria},
        judge.name,
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
