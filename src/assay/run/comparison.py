"""Comparing two runs query by query: which is better, by how much, and how significantly."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from assay.data.dataset import Dataset
from assay.errors import RunError
from assay.metrics.figures import CRITERION_PREFIX, AnswerFigure, improvement
from assay.metrics.metric import MRR, Judged, Recall, nDCG, parse_metric
from assay.metrics.scoring import score_rankings
from assay.metrics.statistics import PairedResult, compare_paired, holm, queries_needed
from assay.run.folder import RunFolder, find_run_dataset
from assay.run.listing import distinguish
from assay.run.models import (
    AnswerRow,
    ChangedQuery,
    Comparison,
    QueryRow,
    Report,
    ReportFigure,
    RunHeader,
    RunState,
    is_answered,
)

_ANSWER_FIGURES = (
    "correctness",
    "truthfulness",
    "fact_recall",
    "faithfulness",
    "abstention",
    "attempted",
)
_SEARCH_FIGURES = ("evidence_recall", "loop_gain")
_USUAL_METRICS = (nDCG.name, Recall.name, MRR.name)
_NUGGET_FIGURES = ("nugget_recall", "nugget_recall_vital")
_JUDGED_GAP = 0.05
MAX_CHANGED = 10


@dataclass(frozen=True)
class ComparedRun:
    """A run as a comparison needs it, each part by query id; `rows` and `answers` are for pages."""

    name: str
    report: Report
    header: RunHeader
    scores: Mapping[str, Mapping[str, float]]
    rankings: Mapping[str, Sequence[str]] = field(default_factory=dict)
    texts: Mapping[str, str] = field(default_factory=dict)
    # The reference answer and its facts.
    references: Mapping[str, tuple[str | None, Sequence[str]]] = field(default_factory=dict)
    rows: Mapping[str, QueryRow] = field(default_factory=dict)
    answers: Mapping[str, AnswerRow] = field(default_factory=dict)

    @classmethod
    def read(cls, folder: RunFolder, *, keep_rows: bool = False) -> "ComparedRun":
        """From the files of a run; the rows are not kept unless a page shows them."""
        scores: dict[str, Mapping[str, float]] = {}
        rankings: dict[str, Sequence[str]] = {}
        texts: dict[str, str] = {}
        references: dict[str, tuple[str | None, Sequence[str]]] = {}
        rows: dict[str, QueryRow] = {}
        answers: dict[str, AnswerRow] = {}
        report, header = folder.read_report(), folder.read_header()
        # Each id and value is kept once: many rows have the same ones.
        ids, values = dict[str, str](), dict[float, float]()
        for row in folder.read_rows():
            texts[row.query_id] = row.query_text
            if keep_rows:
                rows[row.query_id] = row
                scores[row.query_id], rankings[row.query_id] = row.scores, row.retrieved_docs
                continue
            scores[row.query_id] = {k: values.setdefault(v, v) for k, v in row.scores.items()}
            rankings[row.query_id] = tuple(ids.setdefault(one, one) for one in row.retrieved_docs)
        for answer in folder.read_answers():
            texts[answer.query_id] = answer.query_text
            references[answer.query_id] = (answer.reference_answer, answer.facts)
            known = {key: value for key, value in answer.scores.items() if value is not None}
            scores[answer.query_id] = {**scores.get(answer.query_id, {}), **known}
            if keep_rows:
                answers[answer.query_id] = answer
        for searched in folder.read_searches():
            scores[searched.query_id] = {**scores.get(searched.query_id, {}), **searched.figures}
        every = (scores, rankings, texts, references, rows, answers)
        return cls(folder.name, report, header, *every)

    def has_query(self, query_id: str, text: str) -> bool:
        """Whether this run asked the same question; a private run does not know its texts."""
        known = self.texts.get(query_id, "")
        return query_id in self.scores and ("" in (known, text) or known == text)

    def rescored(self, dataset: Dataset, split: str) -> "ComparedRun":
        """With the rankings measured by the judgments of `dataset`, which may have changed."""
        judgments = dataset.judgments_in(split)
        known = {each: judgments[each] for each in self.scores if each in judgments}
        metrics = [parse_metric(name) for name in self.report.metrics]
        top_k = self.report.config.top_k
        found = score_rankings(self.rankings, known, metrics, known=dataset.corpus_ids, top_k=top_k)
        scores = {query_id: dict(each) for query_id, each in self.scores.items()}
        for metric in metrics:
            for query_id, value in zip(found.query_ids, found.values[metric], strict=True):
                scores[query_id][metric.key] = float(value)
        return replace(self, scores=scores)


def compare_reports(
    a: ComparedRun,
    b: ComparedRun,
    figures: Sequence[ReportFigure] = (),
    dataset: Dataset | None = None,
) -> Comparison:
    """Compare on the queries that both runs asked: see `compare_with_each`."""
    return compare_with_each(a, [b], figures, dataset)[0]


def compare_with_each(
    a: ComparedRun,
    others: Sequence[ComparedRun],
    figures: Sequence[ReportFigure] = (),
    dataset: Dataset | None = None,
) -> list[Comparison]:
    """Compare each of several runs with one; all their p-values are corrected together (Holm 1979).

    Parameters:
        a: the run to compare with.
        others: those that are judged: a positive difference means that they score higher.
        figures: what to compare in; the usual ones that two runs have by default.
        dataset: the data of `others`; if the labels changed in between, `a` is measured by these.
    """
    found = [_compare(a, b, figures, dataset, len(others)) for b in others]
    p_values = [row.p_value for each in found for row in each.metrics.values()]
    adjusted = iter(holm(p_values))
    for each in found:
        for name, row in each.metrics.items():
            each.metrics[name] = replace(row, p_adjusted=next(adjusted))
    return found


def _compare(
    a: ComparedRun,
    b: ComparedRun,
    figures: Sequence[ReportFigure],
    dataset: Dataset | None,
    systems: int,
) -> Comparison:
    """Compare two of so many systems; p-values are not corrected yet."""
    shared = [each for each in a.scores if b.has_query(each, a.texts.get(each, ""))]
    if not shared:
        raise RunError(
            "the two runs have no query in common; compare runs on the same data, with the same "
            "--split, --num-queries and --seed"
        )
    same_labels = _same_labels(a.report, b.report)
    if not same_labels and dataset is not None:
        a = a.rescored(dataset, b.report.config.split)
    chosen = list(figures) or _figures_in_common(a.report, b.report)
    asked = {figure: _queries_with(figure, shared, a, b) for figure in chosen}
    compared = {figure: query_ids for figure, query_ids in asked.items() if query_ids}
    missing = [figure for figure in figures if figure not in compared]
    if missing or not compared:
        what = ", ".join(map(str, missing)) or "figure"
        raise RunError(
            f"the two runs have no {what} in common for the queries that both asked; run both "
            "with the same options, such as --top-k"
        )
    name_a, name_b = distinguish([a.header, b.header])
    tests = systems * len(compared)
    return Comparison(
        a=name_a,
        b=name_b,
        metrics={
            figure.slug: _paired_result(figure, query_ids, a, b, tests)
            for figure, query_ids in compared.items()
        },
        warnings=list(_warnings(a, b, shared, rescored=dataset is not None)),
        title=f"{name_b} against {name_a}",
        worse=_losses(*next(iter(compared.items())), a, b),
    )


def _paired_result(
    figure: ReportFigure, query_ids: Sequence[str], a: ComparedRun, b: ComparedRun, tests: int
) -> PairedResult:
    first, second = (
        np.array([run.scores[each][figure.key] for each in query_ids]) for run in (a, b)
    )
    found = compare_paired(first, second)
    # A win is always an improvement, also where a lower figure is better.
    if not figure.higher_is_better:
        found = replace(found, wins=found.losses, losses=found.wins)
    if not found.difference:
        return found
    needed = queries_needed(float((second - first).std()), abs(found.difference), tests)
    return replace(found, queries_needed=needed)


def _losses(
    figure: ReportFigure, query_ids: Sequence[str], a: ComparedRun, b: ComparedRun
) -> list[ChangedQuery]:
    changed = []
    for each in query_ids:
        before, after = a.scores[each][figure.key], b.scores[each][figure.key]
        if improvement(figure, after - before) < 0:
            text = b.texts.get(each, "")
            changed.append(ChangedQuery(query_id=each, query_text=text, a=before, b=after))
    return sorted(changed, key=lambda each: -abs(each.b - each.a))[:MAX_CHANGED]


def find_dataset(runs: Sequence[ComparedRun]) -> Dataset | None:
    """The data of the last run, if it is on this machine and labels changed between the runs."""
    *earlier, last = runs
    if all(_same_labels(each.report, last.report) for each in earlier):
        return None
    dataset, _ = find_run_dataset(last.report)
    return dataset


def _same_labels(a: Report, b: Report) -> bool:
    def labels(report: Report) -> tuple[str, str]:  # older runs have no hash of labels alone
        return report.config.split, report.dataset.labels or report.dataset.fingerprint

    return labels(a) == labels(b)


def _figures_in_common(a: Report, b: Report) -> list[ReportFigure]:
    """The usual figures that both runs have, and decided in the same way.

    Few on purpose: each further metric makes the correction of the others stricter.
    """
    theirs = {parse_metric(name) for name in b.metrics}
    shared = [metric for metric in map(parse_metric, a.metrics) if metric in theirs]
    rankings: list[ReportFigure] = [m for m in shared if m.name in _USUAL_METRICS] or [*shared]
    if a.search and b.search and a.search.recorded == b.search.recorded:
        both = a.search.figures.keys() & b.search.figures.keys()
        # A gain over the single search of another tool is another figure.
        both -= {"loop_gain"} if a.search.tool != b.search.tool else set()
        rankings += [AnswerFigure(name) for name in _SEARCH_FIGURES if name in both]
    answers: list[ReportFigure] = []
    if a.answers and b.answers:
        names = [*_ANSWER_FIGURES, *(_NUGGET_FIGURES if _same_nuggets(a, b) else ())]
        both = a.answers.metrics.keys() & b.answers.metrics.keys()
        if a.answers.correctness_by != b.answers.correctness_by:
            both -= {"correctness", "truthfulness"}
        criteria = {(each.name, each.fingerprint, each.judge) for each in b.answers.criteria}
        shown = [name for name in names if name in both] + [
            f"{CRITERION_PREFIX}{each.name}"
            for each in a.answers.criteria
            if (each.name, each.fingerprint, each.judge) in criteria
        ]
        answers += map(AnswerFigure, shown)
    # Without correctness no figure of answers says which run is better: rankings come first.
    decided = AnswerFigure("correctness") in answers
    return [*answers, *rankings] if decided else [*rankings, *answers]


def _same_nuggets(a: Report, b: Report) -> bool:
    """Whether both runs were measured by the same nuggets, assigned in the same way."""
    found = [report.answers.nuggets if report.answers else None for report in (a, b)]
    return None not in found and len({(x.fingerprint, x.assigned_by) for x in found if x}) == 1


def _queries_with(
    figure: ReportFigure, shared: Sequence[str], a: ComparedRun, b: ComparedRun
) -> list[str]:
    """The shared queries that have the figure in both runs, measured by the same reference."""
    having = [q for q in shared if figure.key in a.scores[q] and figure.key in b.scores[q]]
    if not isinstance(figure, AnswerFigure):
        return having
    # A reference that was rewritten in between changes the figure without a change of the answer.
    return [q for q in having if repr(a.references.get(q)) == repr(b.references.get(q))]


def _warnings(
    a: ComparedRun, b: ComparedRun, shared: Sequence[str], *, rescored: bool
) -> Iterator[str]:
    """What limits the comparison, such as queries that only one run asked."""
    if not len(shared) == len(a.scores) == len(b.scores):
        asked = f"{len(a.scores):,} of a and {len(b.scores):,} of b"
        yield f"compared on the {len(shared):,} queries of both runs, of {asked}"
    reports = (a.report, b.report)
    means = [{parse_metric(m).name: v for m, v in reversed(r.metrics.items())} for r in reports]
    shares = [metrics.get(Judged.name, 1.0) for metrics in means]
    if abs(shares[0] - shares[1]) > _JUDGED_GAP:
        words = " and ".join(f"{share:.0%}" for share in shares)
        yield f"{words} of what a and b returned is judged, and the rest counts as not relevant"
    if not _same_labels(*reports):
        how = "both runs are measured by those of b" if rescored else "scores are as recorded"
        yield f"the labels or questions differ between the runs: {how}"
    elif a.report.dataset.fingerprint != b.report.dataset.fingerprint:
        counts = " and ".join(f"{report.dataset.documents:,}" for report in reports)
        yield f"the documents differ between the runs ({counts} of them)"
    yield from dict.fromkeys(x.dataset.judged_by for x in reports if x.dataset.judged_by)
    answers = [report.answers for report in reports if report.answers]
    if len(judged := {each.correctness_by: None for each in answers}) > 1:
        yield f"correctness was measured in two ways: by {' and by '.join(judged)}"
    if sum(each.nuggets is not None for each in answers) == 2 and not _same_nuggets(*reports):
        yield "the nuggets, or how they were assigned, differ: nugget recall is not compared"
    if len({report.search.recorded for report in reports if report.search}) > 1:
        yield "searches were recorded in one run and reported in the other: not compared"
    if len(tracks := dict.fromkeys(report.track for report in reports)) > 1:
        hint = "; declare it with --tag track=zero-shot" if "undeclared" in tracks else ""
        yield f"the tracks differ: {' and '.join(tracks)}{hint}"
    for name, report in zip("ab", reports, strict=True):
        summary = report.summary
        if report.state != RunState.COMPLETE:
            yield f"{name} is {report.state}"
        if not is_answered(summary.successful_queries, summary.total_queries):
            answered = f"{summary.successful_queries:,} of {summary.total_queries:,}"
            yield f"{name} answered only {answered} queries: compare with another run"
