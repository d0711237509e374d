"""How good a judge of support is: its verdicts about claims whose labels are known.

A judge is anything that says whether sources support a claim: a language model that is asked, or
the rules and the small model that need none. The claims are from one of these sets:

| set | claims | labels |
|---|---|---|
| `notes` | sentences of the reference answers, and the same with one change | made by rule |
| SciFact | claims that experts wrote about abstracts, in BEIR's archive | by people |
| a table | `claim`, `doc` and `label` 1 or 0, as LLM-AggreFact has them | as given |
"""

import random
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from assay.answers.contradiction.model import open_contradiction_model
from assay.answers.contradiction.rules import ContradictionChecker
from assay.answers.judge import Judge, Judgment, Vote, flip_rate
from assay.answers.judge_controls import KINDS, contradict, names_in
from assay.answers.lexical import unsupported
from assay.data.archive import archive_files
from assay.data.load import load_dataset
from assay.data.table import read_table, table_suffix
from assay.data.text_file import Record, TextFile, plain_file, records, short_repr
from assay.errors import DataError, did_you_mean
from assay.metrics.statistics import cohen_kappa
from assay.net.gather import gather
from assay.progress import Progress, silent
from assay.text import sentences

SUPPORTED, CONTRADICTED = "supported", "contradicted"
_TRUE = {"1", "1.0", "true", "supported", "support", "yes"}
_FALSE = {"0", "0.0", "false", "unsupported", "contradicted", "contradict", "no"}


@dataclass(frozen=True, slots=True)
class LabeledClaim:
    """A claim, its sources, and whether they support it.

    `label` is `supported`, `contradicted`, `unrelated`, or `unsupported` where the set does not say
    which. Claims of one `group` share a source and belong on one side of a split. `kind` says
    what was changed, where a rule made the claim.
    """

    claim: str
    sources: tuple[str, ...]
    label: str
    group: str
    kind: str = ""

    @property
    def supported(self) -> bool:
        """Whether the sources support the claim."""
        return self.label == SUPPORTED


def read_claims(name: str) -> list[LabeledClaim]:
    """The claims of `notes`, of SciFact's archive, or of a table.

    Raises:
        DataError: there is no such file, or it has no labeled claim.
    """
    if name == "notes":
        return notes_claims()
    path = Path(name).expanduser()
    if not path.exists():
        raise DataError(
            f"no set of claims {name!r}: it is neither a file nor 'notes'"
            f"{did_you_mean(name, ['notes'])}"
        )
    if table_suffix(path) in (".zip", ""):
        return scifact_claims(path)
    return table_claims(path)


def notes_claims() -> list[LabeledClaim]:
    """For each change that a sentence of a reference answer of `notes` allows: the sentence and
    what the change makes of it.
    """
    notes = load_dataset("notes")
    names = names_in([each.text for each in notes.documents.values()])
    rng = random.Random(0)
    claims: list[LabeledClaim] = []
    for reference in notes.answers.values():
        sources = tuple(
            text
            for doc_id in reference.documents
            for text in (notes.documents[doc_id].title, notes.documents[doc_id].text)
        )
        for sentence in sentences(reference.answer or ""):
            for kind in KINDS:
                changed = contradict(sentence, rng, (kind,), names)
                if changed is not None:
                    group = reference.query_id
                    claims.append(LabeledClaim(sentence, sources, SUPPORTED, group, kind))
                    claims.append(LabeledClaim(changed[0], sources, CONTRADICTED, group, kind))
    return claims


def scifact_claims(path: Path) -> list[LabeledClaim]:
    """SciFact's claims with their labels, from BEIR's archive or its unpacked folder."""
    files = _beir_files(path)
    documents = {record.identifier("_id"): record for record in records(files["corpus.jsonl"])}
    claims = []
    for record in records(files["queries.jsonl"]):
        labels: Any = record.fields.get("metadata") or {}
        for doc_id, evidence in labels.items() if isinstance(labels, dict) else ():
            if doc_id not in documents:
                continue
            document = documents[doc_id]
            label = _scifact_label(record, evidence)
            sources = (document.text("title"), document.text("text"))
            claims.append(LabeledClaim(record.text("text"), sources, label, doc_id))
    if not claims:
        raise DataError("has no claim with a label in queries.jsonl", file=path)
    return claims


def _scifact_label(record: Record, evidence: Any) -> str:
    """The label of a claim's evidence in one document, which is that of its first sentences."""
    first = evidence[0] if isinstance(evidence, list) and evidence else None
    label = first.get("label") if isinstance(first, dict) else None
    if not isinstance(label, str):
        raise record.refusal(
            "the evidence under 'metadata' must be a list of objects with a 'label', got "
            f"{short_repr(evidence)}"
        )
    return CONTRADICTED if label == "CONTRADICT" else SUPPORTED


def _beir_files(path: Path) -> dict[str, TextFile]:
    names = ("corpus.jsonl", "queries.jsonl")
    if path.is_dir():
        return {name: plain_file(path / name) for name in names}
    files = {name.partition("/")[2]: file for name, file in archive_files(path).items()}
    for name in names:
        if name not in files:
            raise DataError(f"has no {name}", file=path)
    return files


def table_claims(path: Path) -> list[LabeledClaim]:
    """The rows of a table with `claim`, `doc` (a text, or a list of texts) and `label`.

    A label is 1 or 0, true or false, `supported`, `contradicted` or `unsupported`.
    """
    claims = []
    for number, row in enumerate(read_table(path), start=1):
        if isinstance(row, DataError):
            raise row
        claim, sources = row.fields.get("claim"), row.fields.get("doc", row.fields.get("sources"))
        label = str(row.fields.get("label", "")).strip().lower()
        if not isinstance(claim, str) or not isinstance(sources, str | list):
            raise row.refusal("has no 'claim' and 'doc' with texts; both are needed")
        if label not in _TRUE | _FALSE:
            raise row.refusal(f"'label' must be 1 or 0, got {short_repr(row.fields.get('label'))}")
        word = SUPPORTED if label in _TRUE else CONTRADICTED if "contra" in label else "unsupported"
        texts = (sources,) if isinstance(sources, str) else tuple(map(str, sources))
        claims.append(LabeledClaim(claim, texts, word, str(number)))
    if not claims:
        raise DataError("has no row", file=path)
    return claims


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
