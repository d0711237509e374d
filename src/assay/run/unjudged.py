"""Whether a difference between two runs hangs on documents that nobody judged.

nDCG counts an unjudged document as not relevant. Where it calls one run better and measures that
leave such documents out do not, the judgments are too few to say so.
"""

from collections.abc import Mapping, Sequence

from assay.data.dataset import Judgments
from assay.measure.metrics import Judged, Metric, bpref, infNDCG, nDCG
from assay.measure.scoring import score_rankings
from assay.measure.statistics import compare_paired
from assay.run.run_record import RunRecord

ENOUGH = 0.95
"""From this share of judged places on, the others change nothing worth a warning."""

_SIGNIFICANT = 0.05


class UnjudgedDifference(RunRecord):
    """B minus A in one metric, with its 95% interval and the p-value of the randomization test."""

    mean_a: float
    mean_b: float
    difference: float
    low: float | None
    high: float | None
    p_value: float

    @property
    def direction(self) -> int:
        """1 or -1 where the difference is significant, else 0."""
        if self.p_value >= _SIGNIFICANT:
            return 0
        return 1 if self.difference > 0 else -1


class UnjudgedCheck(RunRecord):
    """Two runs in nDCG and in the metrics for incomplete judgments, on the same queries.

    Attributes:
        top_k: how many places were looked at.
        judged_a, judged_b: the share of these places that is judged.
        not_relevant: how many documents are judged not relevant; with none, nothing can be told.
        metrics: the differences by metric.
        hangs: whether nDCG differs significantly and the others do not, or the other way round.
        words: what was found, in a sentence; "" where nothing is wrong.
    """

    top_k: int
    judged_a: float
    judged_b: float
    not_relevant: int
    metrics: dict[str, UnjudgedDifference]
    hangs: bool
    words: str


def check_unjudged(
    a: Mapping[str, Sequence[str]],
    b: Mapping[str, Sequence[str]],
    judgments: Judgments,
    top_k: int,
) -> UnjudgedCheck | None:
    """Compare two runs' rankings by query id; None where nearly all that came is judged."""
    shared = {q: judgments[q] for q in a if q in b and q in judgments}
    full, judged = nDCG @ top_k, Judged @ top_k
    metrics: list[Metric] = [full, nDCG(judged_only=True) @ top_k, bpref, infNDCG @ top_k]
    first, second = (
        score_rankings(each, shared, [*metrics, judged], top_k=top_k) for each in (a, b)
    )
    if not first.query_ids:
        return None
    shares = (first.mean(judged), second.mean(judged))
    if min(shares) >= ENOUGH:
        return None
    not_relevant = sum(grade <= 0 for grades in shared.values() for grade in grades.values())
    differences = {}
    for metric in metrics:
        paired = compare_paired(first.values[metric], second.values[metric])
        differences[metric.slug] = UnjudgedDifference(
            mean_a=paired.mean_a,
            mean_b=paired.mean_b,
            difference=paired.difference,
            low=paired.low,
            high=paired.high,
            p_value=paired.p_value,
        )
    words = _words(differences, metrics, shares, top_k, not_relevant)
    return UnjudgedCheck(
        top_k=top_k,
        judged_a=shares[0],
        judged_b=shares[1],
        not_relevant=not_relevant,
        metrics=differences,
        hangs=bool(words),
        words=words,
    )


def _words(
    differences: Mapping[str, UnjudgedDifference],
    metrics: Sequence[Metric],
    shares: tuple[float, float],
    top_k: int,
    not_relevant: int,
) -> str:
    full, condensed, preferred = (differences[metric.slug] for metric in metrics[:3])
    if not not_relevant or full.direction == condensed.direction == preferred.direction:
        return ""
    if full.direction == 0 and condensed.direction * preferred.direction <= 0:
        return ""
    if full.direction != 0 and full.direction in (condensed.direction, preferred.direction):
        return ""
    places = f"{shares[0]:.0%} and {shares[1]:.0%} of the first {top_k} places are judged"
    theirs = (
        f"without the others nDCG differs by {condensed.difference:+.4f} and bpref by "
        f"{preferred.difference:+.4f}"
    )
    return (
        f"the difference hangs on documents that nobody judged: {places}, and {theirs}, where "
        f"nDCG@{top_k} differs by {full.difference:+.4f}; judge more of what the runs return"
    )
