"""Agreement of a model's grades with people's labels, and of people with each other."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from assay.errors import UsageError
from assay.labels.grading.grader import PairName
from assay.metrics.statistics import Estimate, cohen_kappa, estimate_mean, weighted_kappa

FEW_LABELS = 30
"""Below this many labels a kappa says little."""


@dataclass(frozen=True, slots=True)
class GradeAgreement:
    """How a model's grades agree with people's.

    Attributes:
        labelled: pairs with both a label and a grade.
        agreement: the share of pairs that both call relevant, or both not.
        kappa: the same beyond chance (Cohen 1960); None if both always say the same one thing.
        weighted_kappa: of the grades themselves, with quadratic weights (Cohen 1968); None where
            labels are on another scale than 0 to 3.
        confusion: counts by label, then by grade.
    """

    labelled: int
    agreement: Estimate
    kappa: float | None
    weighted_kappa: float | None
    confusion: Mapping[str, Mapping[str, int]]


def grade_agreement(
    labels: Sequence[int], grades: Sequence[int], relevant_from: int = 2
) -> GradeAgreement:
    """Compare grades with labels of the same pairs.

    Parameters:
        labels: what people say, in their own scale: above 0 is relevant.
        grades: what the model says, 0 to 3.
        relevant_from: the lowest grade that counts as relevant.
    """
    if len(labels) != len(grades):
        raise UsageError(f"every label needs its grade, got {len(labels)} and {len(grades)}")
    if not labels:
        raise UsageError("no passage has both a label and a grade, so nothing can be compared")
    ours = [label > 0 for label in labels]
    theirs = [grade >= relevant_from for grade in grades]
    on_scale = all(0 <= label <= 3 for label in labels) and max(labels) == 3
    pairs = Counter(zip(labels, grades, strict=True))
    return GradeAgreement(
        labelled=len(labels),
        agreement=estimate_mean([a is b for a, b in zip(ours, theirs, strict=True)]),
        kappa=cohen_kappa(ours, theirs),
        weighted_kappa=weighted_kappa(labels, grades) if on_scale else None,
        confusion={
            str(label): {str(grade): pairs[label, grade] for grade in range(4)}
            for label in sorted(set(labels))
        },
    )


@dataclass(frozen=True, slots=True)
class GraderAgreement:
    """Two graders on the documents that both graded.

    `kappa` is about relevant or not, `weighted_kappa` about the grades; None where both always give
    the same one.
    """

    both: int
    same: float | None
    kappa: float | None
    weighted_kappa: float | None


def grader_agreement(a: Mapping[PairName, int], b: Mapping[PairName, int]) -> GraderAgreement:
    """How far two graders agree."""
    both = [name for name in a if name in b]
    if not both:
        return GraderAgreement(0, None, None, None)
    first, second = [a[name] for name in both], [b[name] for name in both]
    same = sum(x == y for x, y in zip(first, second, strict=True)) / len(both)
    relevant = [grade > 0 for grade in first], [grade > 0 for grade in second]
    return GraderAgreement(len(both), same, cohen_kappa(*relevant), weighted_kappa(first, second))
