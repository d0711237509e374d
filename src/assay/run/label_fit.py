"""Whether labels still fit: judged ids that vanish make every metric fall as if the ranker broke.

Somebody chunked, keyed or crawled the documents anew, and the judgments name ids that are no more.
What tells it from a worse ranking is how many judged ids there still are in the corpus, or are
returned for any query at all, against the run that is compared with.
"""

from collections.abc import Collection

from assay.run.run_record import RunRecord

LOST_FROM_CORPUS = 0.05
"""How much of the judged ids may leave the corpus before no figure is compared."""

STILL_RETURNED = 0.2
"""Of the judged ids that the earlier run returned, fewer than this share: they are others now."""

NEW_IDS = 0.8
"""And of the ids that are returned, at least this share must never have been returned before."""

_FEWEST = 5
REMEDY = "carry the labels over with: assay data rekey"


class LabelCoverage(RunRecord):
    """How far the judgments of the questions of a run are about documents that there are.

    Attributes:
        judged: different documents that the questions' judgments name.
        in_corpus: how many of them the data set has; None if it comes without documents.
        returned: how many of them were returned, for whichever question.
    """

    judged: int
    in_corpus: int | None
    returned: int


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
    a: LabelCoverage, b: LabelCoverage, new_ids: float | None, *, documents_changed: bool
) -> LabelFit:
    """Whether the labels still fit in `b` as they did in `a`."""
    lost = _lost_from_corpus(a, b)
    unreturned = (
        a.returned >= _FEWEST
        and b.returned <= STILL_RETURNED * a.returned
        and (new_ids or 0.0) >= NEW_IDS
    )
    words = ""
    if lost:
        words = (
            f"the corpus turned over: of {b.judged:,} judged documents it has {b.in_corpus:,}, "
            f"{_before(a)}"
        )
    elif unreturned:
        words = (
            f"the corpus turned over: of {b.judged:,} judged documents {b.returned:,} came back "
            f"for any question, {a.returned:,} in the run before, and {new_ids:.0%} of the ids "
            "that came are new"
        )
    if words:
        words += f"; the labels no longer fit, so this is no regression: {REMEDY}"
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
