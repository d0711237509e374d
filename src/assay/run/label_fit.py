"""Whether labels allow a comparison of two runs: judged ids exist, and enough results are judged.

Somebody chunked, keyed or crawled the documents anew, and the judgments name ids that are no more:
every metric falls as if the ranker broke. What tells it from a worse ranking is how many judged ids
there still are in the corpus, or are returned for any query at all, against the earlier run.

nDCG counts an unjudged document as not relevant. Where it calls one run better and measures that
leave such documents out do not, the judgments are too few to say so.
"""

from collections.abc import Collection, Mapping, Sequence

from assay.data.dataset import Judgments
from assay.metrics.metric import Judged, Metric, bpref, infNDCG, nDCG
from assay.metrics.scoring import score_rankings
from assay.metrics.statistics import compare_paired
from assay.run.run_record import RunRecord

LOST_FROM_CORPUS = 0.05
"""How much of the judged ids may leave the corpus before no figure is compared."""

STILL_RETURNED = 0.2
"""Of the judged ids that the earlier run returned, fewer than this share: they are others now."""

NEW_IDS = 0.8
"""And of the ids that are returned, at least this share must never have been returned before."""

UNKNOWN_IDS = 0.5
"""Where the data set has documents, at least this share of what came must not be among them: who
returns other documents of the same corpus has a worse ranking, not another corpus."""

_FEWEST = 5
REMEDY = "write the new ids into the judgments"


class LabelCoverage(RunRecord):
    """How far the judgments of the questions of a run are about documents that there are.

    Attributes:
        judged: different documents that the questions' judgments name.
        in_corpus: how many of them the data set has; None if it comes without documents.
        returned: how many of them were returned, for whichever question.
        unknown: the share of the returned ids that the data set does not know; None if it comes
            without documents, or nothing was returned.
    """

    judged: int
    in_corpus: int | None
    returned: int
    unknown: float | None = None


class LabelFit(RunRecord):
    """The coverage of two runs, a before b.

    Attributes:
        new_ids: the share of the ids that b returned and a never did; None if b returned none.
        documents_changed: whether the runs had other documents, with the same judgments.
        turned_over: whether the labels no longer fit in b: no difference says anything then.
        words: what was found, in a sentence; "" where nothing is wrong.
    """

    a: LabelCoverage
    b: LabelCoverage
    new_ids: float | None
    documents_changed: bool
    turned_over: bool
    words: str


def new_share(before: Collection[str], now: Collection[str]) -> float | None:
    """The share of the ids of `now` that are not in `before`."""
    return sum(doc_id not in before for doc_id in now) / len(now) if now else None


def fit_of(
    a: LabelCoverage,
    b: LabelCoverage,
    new_ids: float | None,
    *,
    documents_changed: bool,
) -> LabelFit:
    """Whether the labels still fit in `b` as they did in `a`.

    Parameters:
        new_ids: the share of the ids that b returned and a never did.
        documents_changed: whether the runs had other documents.
    """
    known_corpus = b.unknown is not None and b.unknown < UNKNOWN_IDS
    lost = _lost_from_corpus(a, b)
    unreturned = (
        a.returned >= _FEWEST
        and b.returned <= STILL_RETURNED * a.returned
        and (new_ids or 0.0) >= NEW_IDS
        and not known_corpus
    )
    words = ""
    if lost:
        words = (
            f"the corpus changed: it has {b.in_corpus:,} of {b.judged:,} judged documents, "
            f"{_before(a)}"
        )
    elif unreturned:
        words = (
            f"the corpus changed: {b.returned:,} of {b.judged:,} judged documents were returned "
            f"for any question, {a.returned:,} in the run before, and {new_ids:.0%} of the "
            "returned ids are new"
        )
    if words:
        words += f"; the labels no longer fit, so this is not a regression: {REMEDY}"
    return LabelFit(
        a=a,
        b=b,
        new_ids=new_ids,
        documents_changed=documents_changed,
        turned_over=bool(words),
        words=words,
    )


def _lost_from_corpus(a: LabelCoverage, b: LabelCoverage) -> bool:
    if b.in_corpus is None or not b.judged:
        return False
    before = 1.0 if a.in_corpus is None or not a.judged else a.in_corpus / a.judged
    if a.in_corpus is None:  # a service that owned its documents: what it returned was there
        before = a.returned / a.judged if a.judged else 0.0
    return before - b.in_corpus / b.judged > LOST_FROM_CORPUS


def _before(a: LabelCoverage) -> str:
    if a.in_corpus is None:
        return f"where the run before returned {a.returned:,} of them"
    return f"in the run before it had {a.in_corpus:,} of {a.judged:,}"


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
            **{name: getattr(paired, name) for name in UnjudgedDifference.model_fields}
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
        f"the difference depends on unjudged documents: {places}, and {theirs}, where "
        f"nDCG@{top_k} differs by {full.difference:+.4f}; judge more of what the runs return"
    )
