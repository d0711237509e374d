"""How good a judge of support is: its verdicts about claims whose labels are known.

A judge is anything that says whether sources support a claim: a language model that is asked, or
the rules and the small model that need none.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from assay.measure.answers.calibration import cohen_kappa
from assay.measure.answers.claim_sets import LabeledClaim
from assay.measure.answers.contradiction.model import ContradictionChecker, open_contradiction_model
from assay.measure.answers.judge import Judge, Judgment, Vote, flip_rate
from assay.measure.answers.lexical import unsupported
from assay.net.gather import gather
from assay.progress import Progress, silent

WORDS, RULES, SMALL_MODEL = "words", "rules", "small-model"
MODEL_FREE = (WORDS, RULES, SMALL_MODEL)
"""Judges that need no language model, by name."""

_RESAMPLES = 1000
Flags = NDArray[np.bool_]


class ClaimJudge(Protocol):
    """Decides whether sources support a claim."""

    @property
    def name(self) -> str:
        """What tables call it."""
        ...

    async def decide(self, claim: LabeledClaim) -> Judgment:
        """One or more votes: TRUE is supported."""
        ...


@dataclass(frozen=True, slots=True)
class LexicalJudge:
    """The checks of `faithfulness`: words alone, with rules, or also with the small model."""

    name: str

    async def decide(self, claim: LabeledClaim) -> Judgment:
        """Supported where every sentence passes."""
        return Judgment((Vote.TRUE if self._supported(claim) else Vote.FALSE,))

    def _supported(self, claim: LabeledClaim) -> bool:
        if self.name == WORDS:
            return not unsupported(claim.claim, claim.sources, by_rules=False)
        if unsupported(claim.claim, claim.sources):
            return False
        if self.name == RULES:
            return True
        return not ContradictionChecker(open_contradiction_model()).find(claim.claim, claim.sources)


@dataclass(frozen=True, slots=True)
class AskedJudge:
    """A language model, asked `votes` times; every second time the claim is shown first."""

    judge: Judge
    votes: int = 2

    @property
    def name(self) -> str:
        """The provider's name."""
        return self.judge.name

    async def decide(self, claim: LabeledClaim) -> Judgment:
        """All votes; the verdict must win in each order."""
        votes = await gather(
            self.judge.supports(claim.claim, claim.sources, vote) for vote in range(self.votes)
        )
        return Judgment(tuple(votes), both_orders=self.votes > 1)


@dataclass(frozen=True, slots=True)
class BenchResult:
    """What a judge is worth on one set.

    `balanced_accuracy` is the mean of the shares of supported and of other claims that were judged
    so: a judge that always says the same has 0.5. A claim that a judge was undecided about
    counts as judged wrongly. `flip_rate` is None where each claim was judged once.
    """

    judge: str
    claims: str
    number: int
    supported: int
    balanced_accuracy: float
    low: float
    high: float
    kappa: float | None
    flip_rate: float | None
    undecided: int
    unparseable_votes: int
    seconds_per_claim: float


async def bench_judge(
    judge: ClaimJudge, claims: Sequence[LabeledClaim], name: str, progress: Progress = silent
) -> BenchResult:
    """Ask a judge about all claims and compare its verdicts with their labels."""
    started = time.perf_counter()
    judgments: list[Judgment] = []
    batch = 64  # so that a long set is not a task for each of its claims
    for first in range(0, len(claims), batch):
        part = claims[first : first + batch]
        judgments += await gather(judge.decide(each) for each in part)
        progress(f"{judge.name} on {name}", len(judgments), len(claims))
    seconds = (time.perf_counter() - started) / len(claims)
    labels = [each.supported for each in claims]
    verdicts = [each.verdict for each in judgments]
    right = np.array([v is y for v, y in zip(verdicts, labels, strict=True)])
    truth = np.array(labels)
    low, high = _interval(right, truth)
    return BenchResult(
        judge=judge.name,
        claims=name,
        number=len(claims),
        supported=sum(labels),
        balanced_accuracy=_balanced(right, truth),
        low=low,
        high=high,
        kappa=cohen_kappa(labels, verdicts),
        flip_rate=flip_rate(judgments),
        undecided=verdicts.count(None),
        unparseable_votes=sum(each.unparseable for each in judgments),
        seconds_per_claim=seconds,
    )


def _balanced(right: Flags, truth: Flags) -> float:
    sides = [right[truth], right[~truth]]
    return float(np.mean([side.mean() for side in sides if side.size]))


def _interval(right: Flags, truth: Flags) -> tuple[float, float]:
    """95%, by resampling each side by itself."""
    rng = np.random.default_rng(0)
    sides = [side for side in (right[truth], right[~truth]) if side.size]
    means = [
        np.mean([rng.choice(side, side.size).mean() for side in sides]) for _ in range(_RESAMPLES)
    ]
    low, high = np.quantile(means, (0.025, 0.975))
    return float(low), float(high)
