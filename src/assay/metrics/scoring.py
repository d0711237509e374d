"""Scores of ranked lists: `assay.score` for people, `score_rankings` for evaluations."""

from collections.abc import Collection, Container, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from assay.data.dataset import Dataset, Judgments
from assay.data.qrels import RUN_FORMS, parse_grade, parse_ranking, require_string_ids
from assay.errors import UsageError
from assay.metrics.formulas import Floats, GradedLists, Integers, has_relevant
from assay.metrics.metric import Metric, parse_metric

# query id -> document ids, best first; or query id -> document id -> score.
Rankings = Mapping[str, Sequence[str] | Mapping[str, float]]
# query id -> document id -> grade; or query id -> the relevant documents, each of grade 1.
Qrels = Mapping[str, Mapping[str, int] | Collection[str]]

Kind = Literal["duplicate", "unknown", "surplus"]
KINDS: tuple[Kind, ...] = ("duplicate", "unknown", "surplus")
_EXAMPLES = 5


class Violation(NamedTuple):
    """One document id that breaks the rules of a ranking."""

    kind: Kind
    query_id: str
    doc_id: str


@dataclass(frozen=True, eq=False)
class Violations:
    """Counts by kind for each query, aligned with the scores, and the first few of each kind."""

    counts: dict[Kind, Integers]
    examples: tuple[Violation, ...] = ()

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
    def merged(parts: Sequence["Violations"], *, trials: bool = False) -> "Violations":
        """Those of several batches, or of several trials of the same queries."""
        counts = {kind: [part.counts[kind] for part in parts] for kind in KINDS}
        joined = {k: np.sum(c, axis=0) if trials else np.concatenate(c) for k, c in counts.items()}
        examples = (
            [example for part in parts for example in part.examples_of(kind)][:_EXAMPLES]
            for kind in KINDS
        )
        return Violations(joined, tuple(chain.from_iterable(examples)))


class Means(dict[str, float]):
    """Means of metrics by name, found under any spelling of a metric."""

    if TYPE_CHECKING:  # dict[str, float] would refuse a metric as its key

        def __getitem__(self, key: "str | Metric", /) -> float: ...

    def __missing__(self, key: object) -> float:
        slug = as_metric(key).slug
        if slug not in self:
            raise UsageError(f"{slug} was not measured; these were: {', '.join(self)}")
        return self[slug]


@dataclass(frozen=True, eq=False, repr=False)
class Scores:
    """What `score` returns: `scores["ndcg@10"]` or `scores[nDCG @ 10]` is the mean of a metric.

    Attributes:
        query_ids: The queries that count, in the order of the qrels.
        values: For each metric one value for each of `query_ids`, as an array.
        ceilings: The best values that any ranking could reach, in the same form.
        violations: Repeated, unknown and surplus document ids in the run.
    """

    query_ids: list[str]
    values: dict[Metric, Floats]
    ceilings: dict[Metric, Floats]
    violations: Violations

    @property
    def metrics(self) -> list[Metric]:
        """The metrics, in the order they were given."""
        return list(self.values)

    @property
    def means(self) -> Mapping[Any, float]:
        """The mean of each metric by name; other spellings and metric objects find them too."""
        return Means({metric.slug: self.mean(metric) for metric in self.values})

    def __getitem__(self, metric: str | Metric) -> float:
        return self.mean(self._require(metric))

    def __repr__(self) -> str:
        count = len(self.query_ids)
        means = ", ".join(f"{metric} {self.mean(metric):.4f}" for metric in self.values)
        return f"<Scores of {count:,} {'query' if count == 1 else 'queries'}: {means}>"

    def by_query(self, metric: str | Metric) -> dict[str, float]:
        """The value of one metric for each query id."""
        values = self.values[self._require(metric)]
        return dict(zip(self.query_ids, values.tolist(), strict=True))

    def rows(self) -> list[dict[str, Any]]:
        """`{"query_id": ..., "ndcg@10": ...}` for each query: what `pandas.DataFrame` takes."""
        names = ["query_id", *(metric.slug for metric in self.values)]
        columns = (values.tolist() for values in self.values.values())
        return [
            dict(zip(names, row, strict=True)) for row in zip(self.query_ids, *columns, strict=True)
        ]

    def mean(self, metric: Metric) -> float:
        """The mean of a metric over the queries."""
        return _mean(self.values[metric])

    def mean_ceiling(self, metric: Metric) -> float:
        """The mean of the best values that any ranking could reach."""
        return _mean(self.ceilings[metric])

    @staticmethod
    def joined(parts: Sequence["Scores"]) -> "Scores":
        """Batches of one run, end to end: a long run is scored a few thousand queries at a time."""
        return Scores(
            [query_id for part in parts for query_id in part.query_ids],
            {m: np.concatenate([part.values[m] for part in parts]) for m in parts[0].metrics},
            {m: np.concatenate([part.ceilings[m] for part in parts]) for m in parts[0].metrics},
            Violations.merged([part.violations for part in parts]),
        )

    @staticmethod
    def averaged(trials: Sequence["Scores"]) -> "Scores":
        """Several trials of the same queries as one: each value is the mean over the trials."""
        first = trials[0]
        return Scores(
            first.query_ids,
            {m: np.mean([trial.values[m] for trial in trials], axis=0) for m in first.metrics},
            first.ceilings,
            Violations.merged([trial.violations for trial in trials], trials=True),
        )

    def _require(self, metric: str | Metric) -> Metric:
        wanted = as_metric(metric)
        if wanted not in self.values:
            measured = ", ".join(map(repr, self.values))
            raise UsageError(f"{wanted} was not measured; these were: {measured}")
        return wanted


def _mean(values: Floats) -> float:
    # 0 for no queries: nothing was found, and a report must stay valid JSON.
    return float(values.mean()) if values.size else 0.0


def score(
    run: Rankings,
    qrels: Qrels,
    metrics: str | Metric | Iterable[str | Metric],
    *,
    known: Container[str] | None = None,
    top_k: int | None = None,
) -> Scores:
    """Score a run against relevance judgments, with the definitions of trec_eval.

    Every query of `qrels` with a relevant document counts. One that the run lacks scores 0:
    leaving it out of the mean would reward a system for failing on hard queries. Queries of the
    run without judgments are ignored.

        >>> import assay
        >>> from assay import Recall
        >>> run = {"q1": ["d3", "d1"], "q2": {"d2": 0.9, "d7": 0.4}}
        >>> qrels = {"q1": {"d1": 2, "d9": 1}, "q2": {"d2"}}
        >>> scores = assay.score(run, qrels, ["ndcg@5", Recall @ 10])
        >>> scores
        <Scores of 2 queries: nDCG@5 0.7398, Recall@10 0.7500>
        >>> scores["recall@10"]
        0.75
        >>> scores.by_query(Recall @ 10)
        {'q1': 0.5, 'q2': 1.0}

    Parameters:
        run: For each query id its document ids, best first; or a dictionary from document id to
            score, as pytrec_eval, ranx and ir_measures take it. Equal scores are ordered as
            trec_eval orders them: by document id, descending.
        qrels: For each query id a dictionary from document id to grade (0 or less is not
            relevant), or a set or list of relevant document ids.
        metrics: Names such as "ndcg@10" and objects such as `nDCG @ 10`, mixed or alone.
        known: The ids of all documents that exist. An id outside it earns nothing and is counted
            in `Scores.violations`. By default every id counts as known.
        top_k: How many documents of each ranking count. By default all of them.

    Raises:
        UsageError: A metric is unknown, the run and the qrels share no query, or a value has a
            form that cannot be read.
    """
    chosen = as_metrics(metrics)
    if top_k is not None and (not isinstance(top_k, int) or top_k < 1):
        raise UsageError(f"top_k must be an integer >= 1, got {top_k!r}")
    if not isinstance(run, Mapping) or not run:
        raise UsageError(f"the run must be a dictionary of queries, got {run!r:.60}; {RUN_FORMS}")
    try:
        judgments = _parse_qrels(qrels)
        rankings = {query: parse_ranking(query, value) for query, value in run.items()}
    except ValueError as error:
        raise UsageError(str(error)) from None
    if not any(map(has_relevant, judgments.values())):
        raise UsageError("the qrels have no relevant document: every grade is 0 or less")
    if not rankings.keys() & judgments.keys():
        ours, theirs = next(iter(rankings)), next(iter(judgments))
        raise UsageError(
            f"the run and the qrels have no query in common: the first is {ours!r} in the run and "
            f"{theirs!r} in the qrels"
        )
    return score_rankings(rankings, judgments, chosen, known=known, top_k=top_k)


def score_rankings(
    rankings: Mapping[str, Sequence[str]],
    judgments: Judgments,
    metrics: Sequence[Metric],
    *,
    known: Container[str] | None = None,
    top_k: int | None = None,
    returned: Mapping[str, int] | None = None,
) -> Scores:
    """As `score`, for typed input. `returned`: how many ids were sent, if not all were kept."""
    for metric in metrics:
        metric.require_cutoff()
    query_ids = [query_id for query_id, grades in judgments.items() if has_relevant(grades)]
    grades = [judgments[query_id] for query_id in query_ids]
    inspector = Inspector(known, top_k)
    cutoffs = [metric.depth for metric in metrics]
    depth = None if None in cutoffs else max(filter(None, cutoffs), default=None)
    sent = returned or {}
    places = (
        inspector.clean(query_id, rankings.get(query_id) or (), sent.get(query_id, 0))[:depth]
        for query_id in query_ids
    )
    ranked = GradedLists.ranked(places, grades)
    # The ideal has judged documents that the corpus lacks, as in trec_eval; the ceiling does not.
    ideal = reachable = GradedLists.ideal(grades)
    if known is not None and not all(doc_id in known for judged in grades for doc_id in judged):
        reachable = GradedLists.ideal(
            {doc_id: grade for doc_id, grade in judged.items() if doc_id in known}
            for judged in grades
        )
    reachable = reachable.top(top_k)
    return Scores(
        query_ids,
        {metric: metric.measure(ranked, ideal) for metric in metrics},
        {metric: metric.measure(reachable, ideal) for metric in metrics},
        inspector.violations(),
    )


def as_metrics(metrics: str | Metric | Iterable[str | Metric]) -> list[Metric]:
    """One metric or several, by name or as objects; each once, in the order given."""
    given: Any = metrics
    several = given if isinstance(given, Iterable) and not isinstance(given, str) else [given]
    chosen = list(dict.fromkeys(map(as_metric, several)))
    if not chosen:
        raise UsageError("no metrics were given; pass at least one, such as 'ndcg@10'")
    return chosen


def as_metric(metric: Any) -> Metric:
    """A metric by its name, or the metric itself."""
    if not isinstance(metric, Metric):
        return parse_metric(metric)
    metric.require_cutoff()
    return metric


def _parse_qrels(qrels: Qrels) -> dict[str, Mapping[str, int]]:
    """Judgments from the forms that `score` documents; ValueError for any other."""
    if not isinstance(qrels, Mapping) or not qrels:
        hint = "; pass dataset.judgments_in('test')" if isinstance(qrels, Dataset) else ""
        raise ValueError(f"the qrels must be a dictionary of queries, got {qrels!r:.60}{hint}")
    judgments: dict[str, Mapping[str, int]] = {}
    for query, value in qrels.items():
        if isinstance(value, str | bytes) or not isinstance(value, Collection):
            raise ValueError(
                f"query {query!r} has no judgments, got {value!r:.60}; qrels are "
                '{"q1": {"d1": 2}}, or {"q1": {"d1", "d2"}} for grades of 1'
            )
        require_string_ids(query, value)
        grades = value if isinstance(value, Mapping) else dict.fromkeys(value, 1)
        try:
            judgments[query] = {doc_id: parse_grade(grade) for doc_id, grade in grades.items()}
        except ValueError as error:
            raise ValueError(f"query {query!r}: {error}") from None
    return judgments


@dataclass
class Inspector:
    """Turns the ids that an agent sent into a ranking that can be scored, and counts violations."""

    known: Container[str] | None
    top_k: int | None
    _counts: dict[Kind, list[int]] = field(default_factory=lambda: {kind: [] for kind in KINDS})
    _examples: dict[Kind, list[Violation]] = field(
        default_factory=lambda: {kind: [] for kind in KINDS}
    )

    def clean(self, query_id: str, ids: Sequence[str], returned: int = 0) -> Sequence[str | None]:
        """The first `top_k` ids, with None in place of those that earn nothing.

        `returned` is how many ids the agent sent, if `ids` are only the first of them.
        """
        kept = ids if self.top_k is None else ids[: self.top_k]
        self._note("surplus", query_id, ids[len(kept) :], max(returned, len(ids)) - len(kept))
        # Nearly every list is clean: two set operations settle it, without a loop over its ids.
        distinct, known = set(kept), self.known
        is_known = known is None or (
            distinct <= known
            if isinstance(known, Set)
            else all(doc_id in known for doc_id in distinct)
        )
        if len(distinct) == len(kept) and is_known:
            self._note("duplicate", query_id, ())
            self._note("unknown", query_id, ())
            return kept
        # A duplicate or an unknown id keeps its rank and earns nothing. Closing the gap would raise
        # everything after it, so an agent could pad its list with invented ids at no cost.
        seen: set[str] = set()
        wrong: dict[Kind, list[str]] = {"duplicate": [], "unknown": []}
        places: list[str | None] = []
        for doc_id in kept:
            is_unknown = known is not None and doc_id not in known
            if doc_id in seen:
                wrong["duplicate"].append(doc_id)
            elif is_unknown:
                wrong["unknown"].append(doc_id)
            places.append(None if doc_id in seen or is_unknown else doc_id)
            seen.add(doc_id)
        for kind, faulty in wrong.items():
            self._note(kind, query_id, faulty)
        return places

    def violations(self) -> Violations:
        """All that was found so far."""
        counts = {kind: np.array(self._counts[kind], dtype=np.int64) for kind in KINDS}
        return Violations(counts, tuple(e for kind in KINDS for e in self._examples[kind]))

    def _note(
        self, kind: Kind, query_id: str, ids: Sequence[str], count: int | None = None
    ) -> None:
        self._counts[kind].append(len(ids) if count is None else count)
        room = _EXAMPLES - len(self._examples[kind])
        self._examples[kind].extend(Violation(kind, query_id, doc_id) for doc_id in ids[:room])
