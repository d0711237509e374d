"""Violations of a ranking: repeated documents, unknown documents, more than were asked for."""

from collections.abc import Callable, Container, Sequence, Set
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from assay.metrics.graded import Integers

Kind = Literal["duplicate", "unknown", "surplus"]
KINDS: tuple[Kind, ...] = ("duplicate", "unknown", "surplus")
_EXAMPLES = 5


@dataclass(frozen=True, slots=True)
class Violation:
    """One document id that breaks the rules of a ranking."""

    kind: Kind
    query_id: str
    doc_id: str


@dataclass(frozen=True, eq=False, repr=False)
class Violations:
    """Counts by kind for each query, aligned with the scores, and the first few of each kind."""

    counts: dict[Kind, Integers]
    examples: tuple[Violation, ...] = ()

    def __repr__(self) -> str:
        counts = ", ".join(f"{self.total(kind):,} {kind}" for kind in KINDS)
        return f"<Violations: {counts}>"

    def total(self, kind: Kind | None = None) -> int:
        """How many violations there are, of one kind or of all."""
        kinds = KINDS if kind is None else (kind,)
        return sum(int(self.counts[one].sum()) for one in kinds)

    def queries(self, kind: Kind) -> int:
        """How many queries have at least one."""
        return int(np.count_nonzero(self.counts[kind]))

    def examples_of(self, kind: Kind) -> list[Violation]:
        """The first few violations of one kind."""
        return [example for example in self.examples if example.kind == kind]

    @staticmethod
    def joined(parts: Sequence["Violations"]) -> "Violations":
        """The violations of several batches, in their order."""
        counts = {kind: np.concatenate([part.counts[kind] for part in parts]) for kind in KINDS}
        return Violations(counts, _first_examples(parts))

    @staticmethod
    def summed(trials: Sequence["Violations"]) -> "Violations":
        """The violations of several trials of the same queries."""
        counts = {kind: np.sum([trial.counts[kind] for trial in trials], axis=0) for kind in KINDS}
        return Violations(counts, _first_examples(trials))


def _first_examples(parts: Sequence[Violations]) -> tuple[Violation, ...]:
    return tuple(
        example
        for kind in KINDS
        for example in [e for part in parts for e in part.examples_of(kind)][:_EXAMPLES]
    )


@dataclass
class Inspector:
    """Turns the ids that an agent sent into a ranking that can be scored, and counts violations."""

    known: Container[str] | None
    top_k: int | None
    _counts: dict[Kind, list[int]] = field(default_factory=lambda: {kind: [] for kind in KINDS})
    _examples: dict[Kind, list[Violation]] = field(
        default_factory=lambda: {kind: [] for kind in KINDS}
    )

    def __post_init__(self) -> None:
        self._all_known = _membership(self.known)

    def clean(self, query_id: str, ids: Sequence[str], returned: int = 0) -> Sequence[str | None]:
        """The first `top_k` ids, with None in place of those that earn nothing.

        `returned` is how many ids the agent sent, if `ids` are only the first of them.
        """
        kept = ids if self.top_k is None else ids[: self.top_k]
        self._note("surplus", query_id, ids[len(kept) :], max(returned, len(ids)) - len(kept))
        # Nearly every list is clean: two set operations settle it, without a loop over its ids.
        distinct = set(kept)
        if len(distinct) == len(kept) and self._all_known(distinct):
            self._note("duplicate", query_id, ())
            self._note("unknown", query_id, ())
            return kept
        return self._with_holes(query_id, kept)

    def violations(self) -> Violations:
        """All that was found so far."""
        counts = {kind: np.array(self._counts[kind], dtype=np.int64) for kind in KINDS}
        return Violations(counts, tuple(e for kind in KINDS for e in self._examples[kind]))

    def _with_holes(self, query_id: str, ids: Sequence[str]) -> list[str | None]:
        # A duplicate or an unknown id keeps its rank and earns nothing. Closing the gap would raise
        # everything after it, so an agent could pad its list with invented ids at no cost.
        seen: set[str] = set()
        wrong: dict[Kind, list[str]] = {"duplicate": [], "unknown": []}
        places: list[str | None] = []
        for doc_id in ids:
            is_unknown = self.known is not None and doc_id not in self.known
            if doc_id in seen:
                wrong["duplicate"].append(doc_id)
            elif is_unknown:
                wrong["unknown"].append(doc_id)
            places.append(None if doc_id in seen or is_unknown else doc_id)
            seen.add(doc_id)
        for kind, faulty in wrong.items():
            self._note(kind, query_id, faulty)
        return places

    def _note(
        self, kind: Kind, query_id: str, ids: Sequence[str], count: int | None = None
    ) -> None:
        self._counts[kind].append(len(ids) if count is None else count)
        room = _EXAMPLES - len(self._examples[kind])
        self._examples[kind].extend(Violation(kind, query_id, doc_id) for doc_id in ids[:room])


def _membership(known: Container[str] | None) -> Callable[[set[str]], bool]:
    if known is None:
        return lambda ids: True
    if isinstance(known, Set):
        return lambda ids: ids <= known
    return lambda ids: all(doc_id in known for doc_id in ids)
