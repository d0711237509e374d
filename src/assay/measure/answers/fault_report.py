"""All diagnoses of a run together: which half to mend, and how many points each is worth."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from assay.measure.answers.diagnosis import (
    NOT_TRIED,
    Counterfactuals,
    Diagnosis,
    Failure,
    Half,
    Observation,
    diagnose,
)


@dataclass(frozen=True, slots=True)
class FaultReport:
    """`points` are hundredths of all questions: what correctness gains if that half never failed.

    `undecided` questions are those that a judge said neither right nor wrong of; nobody is blamed
    for them, and they are lost all the same. `from_memory` counts right answers that are as right
    without any document: they say nothing about retrieval.
    """

    questions: int
    undecided: int
    diagnoses: tuple[Diagnosis, ...]
    counts: Mapping[Failure, int]
    points: Mapping[Half, float]
    settled: int
    from_memory: int
    tried: bool

    @property
    def sentence(self) -> str:
        if not self.questions:
            return "No question was answered, so there is nothing to diagnose."
        if not self.diagnoses:
            return self._nothing_wrong
        first, *others = sorted(self.points, key=self._urgency)
        lost = 100 * (len(self.diagnoses) + self.undecided) / self.questions
        share = f"{self.points[first]:.1f} of the {lost:.1f} points that are lost"
        rest = [f"{half} {self.points[half]:.1f}" for half in others if self.points[half]]
        if self.undecided:
            rest.append(f"undecided {100 * self.undecided / self.questions:.1f}")
        more = f" ({', '.join(rest)})" if rest else ""
        return f"{self._advice(first)} worth {share}{more}{self._doubt}."

    @property
    def _nothing_wrong(self) -> str:
        if self.undecided:
            decided = self.questions - self.undecided
            return f"Nothing to fix among the {decided} of {self.questions} questions decided."
        return f"Nothing to fix: all {self.questions} questions are right."

    def _urgency(self, half: Half) -> tuple[bool, bool, float]:
        """What is worth most first; what takes both halves only where nothing else is lost."""
        return not self.points[half], half is Half.BOTH, -self.points[half]

    def _advice(self, first: Half) -> str:
        if first is Half.BOTH:
            return "Fix retrieval and generation, neither helps alone: they are"
        counts = Counter(each.half for each in self.diagnoses)
        if any(
            not surely_more(counts[first], counts[half])
            for half in counts
            if half not in (first, Half.BOTH)
        ):
            return f"No half stands out with so few failures; begin with {first}, which is"
        if first is Half.AGENT:
            return "Fix the agent's errors first: they are"
        return f"Fix {first} first: it is"

    @property
    def _doubt(self) -> str:
        if self.settled == len(self.diagnoses):
            return ""
        guessed = len(self.diagnoses) - self.settled
        advice = "" if self.tried else "; --counterfactuals settles them"
        return f"; {guessed} of {len(self.diagnoses)} failures are guessed from one run{advice}"


def report_faults(
    seen: Sequence[Observation],
    others: Mapping[str, Counterfactuals] | None = None,
    *,
    undecided: int = 0,
) -> FaultReport:
    """`others` is None where no question was put again."""
    tried = others is not None
    others = others or {}
    found = [diagnose(each, others.get(each.query_id, NOT_TRIED)) for each in seen]
    diagnoses = tuple(each for each in found if each is not None)
    halves = Counter(each.half for each in diagnoses)
    counts = Counter(each.failure for each in diagnoses)
    questions = len(seen) + undecided
    return FaultReport(
        questions=questions,
        undecided=undecided,
        diagnoses=diagnoses,
        counts={failure: counts[failure] for failure in Failure},
        points={half: 100 * halves[half] / questions if questions else 0.0 for half in Half},
        settled=sum(each.settled for each in diagnoses),
        from_memory=sum(
            each.correct and each.answerable and bool(others[each.query_id].no_context)
            for each in seen
            if each.query_id in others
        ),
        tried=tried,
    )


def surely_more(more: int, fewer: int) -> bool:
    """Whether two counts differ by more than a fair coin would explain (two-sided, 5%)."""
    total = more + fewer
    tail = sum(math.comb(total, heads) for heads in range(max(more, fewer), total + 1))
    return more > fewer and 2 * tail / 2**total < 0.05
