"""All diagnoses of a run together: which half to mend, and how many points each is worth."""

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

    `from_memory` counts right answers that are as right without any document: they say nothing
    about retrieval.
    """

    questions: int
    diagnoses: tuple[Diagnosis, ...]
    counts: Mapping[Failure, int]
    points: Mapping[Half, float]
    settled: int
    from_memory: int

    @property
    def sentence(self) -> str:
        if not self.questions:
            return "No question was answered, so there is nothing to diagnose."
        if not self.diagnoses:
            return f"Nothing to fix: all {self.questions} questions are right."
        first, *others = sorted(self.points, key=self._urgency)
        lost = 100 * len(self.diagnoses) / self.questions
        worth = f"it is worth {self.points[first]:.1f} of the {lost:.1f} points that are lost"
        rest = ", ".join(f"{half} {self.points[half]:.1f}" for half in others if self.points[half])
        return f"{_advice(self.points, first)}: {worth}{f' ({rest})' if rest else ''}{self._doubt}."

    def _urgency(self, half: Half) -> tuple[bool, bool, float]:
        """What is worth most first; what takes both halves only where nothing else is lost."""
        return not self.points[half], half is Half.BOTH, -self.points[half]

    @property
    def _doubt(self) -> str:
        if self.settled == len(self.diagnoses):
            return ""
        return (
            f"; {len(self.diagnoses) - self.settled} of {len(self.diagnoses)} failures are "
            "guessed from one run, counterfactual runs would settle them"
        )


def report_faults(
    seen: Sequence[Observation], others: Mapping[str, Counterfactuals] | None = None
) -> FaultReport:
    others = others or {}
    found = [diagnose(each, others.get(each.query_id, NOT_TRIED)) for each in seen]
    diagnoses = tuple(each for each in found if each is not None)
    halves = Counter(each.half for each in diagnoses)
    counts = Counter(each.failure for each in diagnoses)
    return FaultReport(
        questions=len(seen),
        diagnoses=diagnoses,
        counts={failure: counts[failure] for failure in Failure},
        points={half: 100 * halves[half] / len(seen) if seen else 0.0 for half in Half},
        settled=sum(each.settled for each in diagnoses),
        from_memory=sum(
            each.correct and each.answerable and bool(others[each.query_id].no_context)
            for each in seen
            if each.query_id in others
        ),
    )


def _advice(points: Mapping[Half, float], first: Half) -> str:
    if first is Half.BOTH:
        return "Fix retrieval and generation, neither helps alone"
    if any(points[half] == points[first] for half in points if half not in (first, Half.BOTH)):
        return f"No half stands out; begin with {first}"
    return "Fix the agent's errors first" if first is Half.AGENT else f"Fix {first} first"
