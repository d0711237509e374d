"""What an agent's searches were worth, from the ids that each of them showed.

Evidence is a list of groups: every group is needed, and any member of a group satisfies it. With
plain judgments each relevant document is a group.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

# How many searches `evidence_auc@10` looks at.
AUC_CALLS = 10

# Every figure of searches, and whether a higher one is better.
SEARCH_FIGURES: Mapping[str, bool] = {
    "evidence_recall": True,
    "evidence_complete": True,
    f"evidence_auc@{AUC_CALLS}": True,
    "search_loss": False,
    "selection_loss": False,
    "loop_gain": True,
    "redundancy": False,
    "overrun": False,
    "kept": True,
    "unseen": False,
    "calls": False,
}

Groups = Sequence[Collection[str]]


def found_share(ids: Collection[str], evidence: Groups) -> float:
    """The share of the groups of which `ids` has a member."""
    return sum(not group.isdisjoint(ids) for group in map(set, evidence)) / len(evidence)


@dataclass(frozen=True, slots=True)
class Trajectory:
    """Trajectory(shown=[["d1", "d2"], ["d4"]], returned=["d4"], evidence=[{"d1"}, {"d4", "d9"}])

    `tokens` are those that each search showed; `cited` counts as kept beside `returned`.
    """

    shown: Sequence[Sequence[str]]
    returned: Sequence[str]
    evidence: Groups
    cited: Sequence[str] = ()
    tokens: Sequence[int] = field(default=())

    @property
    def seen(self) -> list[str]:
        """Every document that was shown, once, in the order in which it came."""
        return list(dict.fromkeys(doc_id for ids in self.shown for doc_id in ids))

    def curve(self) -> list[float]:
        """The share of the evidence that was seen after each search."""
        seen: set[str] = set()
        shares = []
        for ids in self.shown:
            seen.update(ids)
            shares.append(found_share(seen, self.evidence))
        return shares

    def share_after(self, budgets: Sequence[int]) -> list[float]:
        """The share of the evidence seen within each budget of tokens."""
        curve, read = self.curve(), np.cumsum(self.tokens) if self.tokens else np.zeros(0)
        places = [int(np.searchsorted(read, budget, side="right")) for budget in budgets]
        return [curve[place - 1] if place else 0.0 for place in places]

    def figures(self) -> dict[str, float]:
        """The figures that need nothing but the searches; one without a value is left out."""
        curve, seen, calls = self.curve(), self.seen, len(self.shown)
        recall = curve[-1] if curve else 0.0
        # An agent that stops early keeps what it has seen: its curve goes on level.
        padded = [curve[min(t, calls) - 1] if calls else 0.0 for t in range(1, AUC_CALLS + 1)]
        found = {
            "evidence_recall": recall,
            "evidence_complete": float(recall == 1),
            f"evidence_auc@{AUC_CALLS}": sum(padded) / AUC_CALLS,
            "calls": float(calls),
        }
        shown = sum(map(len, self.shown))
        if shown:
            found["redundancy"] = 1 - len(seen) / shown
        if calls:
            # The first search has to be made to know that there is nothing: it is no overrun.
            needed = max(1, next(t for t, share in enumerate(curve, 1) if share == recall))
            found["overrun"] = (calls - needed) / calls
        if recall:
            used = {*self.returned, *self.cited}.intersection(seen)
            found["kept"] = found_share(used, self.evidence) / recall
        if self.returned:
            found["unseen"] = len(set(self.returned).difference(seen)) / len(set(self.returned))
        return found


def best_order(seen: Collection[str], grades: Mapping[str, int]) -> list[str]:
    """The relevant documents among `seen`, the highest grades first: no ranking of them is better.

    1 - nDCG splits exactly into what was never seen, 1 - nDCG(best_order), and what was seen and
    dropped or misranked, nDCG(best_order) - nDCG.
    """
    relevant = (doc_id for doc_id in dict.fromkeys(seen) if grades.get(doc_id, 0) > 0)
    return sorted(relevant, key=lambda doc_id: -grades[doc_id])


def split_variance(values: NDArray[np.float64]) -> tuple[float, float, str]:
    """The variance of questions (rows), that of the trials of one question (columns), and what to
    have more of, by a one-way random effects model.
    """
    questions, trials = values.shape
    within = float(values.var(axis=1, ddof=1).mean()) if trials > 1 else 0.0
    means = float(values.mean(axis=1).var(ddof=1)) if questions > 1 else 0.0
    # Means over trials vary by the noise of the trials too; without it the rest may fall below 0.
    between = max(0.0, means - within / trials)
    advice = "more trials: one question differs between trials more than questions differ"
    if within < 1e-12:  # rounding of equal scores
        advice = "trials do not differ: one is enough"
    elif within / trials < between:
        advice = "more questions, not more trials"
    return between, within, advice


def list_agreement(lists: Sequence[Sequence[str]]) -> float:
    """How alike the lists of several trials are: the mean Jaccard overlap of all pairs."""
    sets = [set(ids) for ids in lists]
    pairs = [(a, b) for i, a in enumerate(sets) for b in sets[i + 1 :]]
    overlaps = [len(a & b) / len(a | b) if a | b else 1.0 for a, b in pairs]
    return sum(overlaps) / len(overlaps) if overlaps else 1.0
