"""Comparing two runs query by query: which is better, by how much, and how significantly."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace

import numpy as np

from assay.data.dataset import Dataset
from assay.errors import RunError
from assay.metrics.figures import CRITERION_PREFIX, AnswerFigure, improvement
from assay.metrics.metric import MRR, Judged, Recall, nDCG, parse_metric
from assay.metrics.scoring import score_rankings
from assay.metrics.statistics import compare_paired, holm, queries_needed
from assay.run.folder import RunFolder, find_run_dataset
from assay.run.models import (
    AnswerRow,
    ChangedQuery,
    Comparison,
    PairedResult,
    QueryRow,
    Report,
    ReportFigure,
    RunHeader,
    RunState,
    SearchRow,
    is_answered,
)
from assay.run.title import comparison_title, distinguish

_ANSWER_FIGURES = (
    "correctness",
    "truthfulness",
    "fact_recall",
    "faithfulness",
    "abstention",
    "attempted",
)
_SEARCH_FIGURES = ("evidence_recall", "loop_gain")
_NUGGET_FIGURES = ("nugget_recall", "nugget_recall_vital")
_JUDGED_GAP = 0.05
MAX_CHANGED = 10
_NAMED_QUERIES = 5


@dataclass(frozen=True)
class ComparedRun:
    """A run as a comparison needs it, each part by query id."""

    report: Report
    scores: Mapping[str, Mapping[str, float]]
    rankings: Mapping[str, Sequence[str]] = field(default_factory=dict)
    header: RunHeader | None = None
    texts: Mapping[str, str] = field(default_factory=dict)
    # The reference answer and its facts.
    references: Mapping[str, tuple[str | None, Sequence[str]]] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        report: Report,
        rows: Iterable[QueryRow],
        answers: Iterable[AnswerRow] = (),
        header: RunHeader | None = None,
        searches: Iterable[SearchRow] = (),
    ) -> "ComparedRun":
        """Combine the facts about a query's answer and searches with those about its ranking."""
        scores: dict[str, dict[str, float]] = {}
        rankings: dict[str, Sequence[str]] = {}
        texts: dict[str, str] = {}
        references: dict[str, tuple[str | None, Sequence[str]]] = {}
        # Each id and value is kept once: many rows have the same ones.
        ids, values = dict[str, str](), dict[float, float]()
        for row in rows:
            texts[row.query_id] = row.query_text
            scores[row.query_id] = {k: values.setdefault(v, v) for k, v in row.scores.items()}
            rankings[row.query_id] = tuple(ids.setdefault(one, one) for one in row.retrieved_docs)
        for answer in answers:
            texts[answer.query_id] = answer.query_text
            references[answer.query_id] = (answer.reference_answer, answer.facts)
            found = {key: value for key, value in answer.scores.items() if value is not None}
            scores.setdefault(answer.query_id, {}).update(found)
        for searched in searches:
            scores.setdefault(searched.query_id, {}).update(searched.figures)
        return cls(report, scores, rankings, header, texts, references)

    @classmethod
    def read(cls, folder: RunFolder) -> "ComparedRun":
        """From the files of a run."""
        report, header = folder.read_report(), folder.read_header()
        rows = folder.read_rows(), folder.read_answers(), header, folder.read_searches()
        return cls.of(report, *rows)

    def has_query(self, query_id: str, text: str) -> bool:
        """Whether this run asked the same question; a private run does not know its texts."""
        return query_id in self.scores and self.texts.get(query_id, "") in ("", text)

    def queries_shared_with(self, other: "ComparedRun") -> list[str]:
        """The ids of what both asked, in the order of this run."""
        return [
            query_id
            for query_id in self.scores
            if query_id in other.scores
            and (not (text := other.texts.get(query_id)) or self.has_query(query_id, text))
        ]

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
    systems: int = 1,
) -> Comparison:
    """Compare on the queries that both runs asked.

    Parameters:
        a: the run to compare with.
        b: the run that is judged: a positive difference means that it scores higher.
        figures: what to compare in; the usual ones that both have by default.
        dataset: the data of `b`; if the labels changed in between, `a` is measured by these.
        systems: how many runs are compared with `a`, `b` among them.
    """
    shared = a.queries_shared_with(b)
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
    name_a, name_b = run_names([a, b])
    found = Comparison(
        a=name_a,
        b=name_b,
        metrics={
            figure.slug: _paired_result(figure, query_ids, a, b, systems * len(compared))
            for figure, query_ids in compared.items()
        },
        warnings=_warnings(a, b, shared, relabeled=not same_labels, rescored=dataset is not None),
        title=comparison_title([name_a, name_b]),
        worse=_losses(*next(iter(compared.items())), a, b),
    )
    return _corrected([found])[0]


def _paired_result(
    figure: ReportFigure, query_ids: Sequence[str], a: ComparedRun, b: ComparedRun, tests: int
) -> PairedResult:
    """One of so many tests, whose p-values `_corrected` corrects together."""
    first, second = (
        np.array([run.scores[each][figure.key] for each in query_ids]) for run in (a, b)
    )
    found = compare_paired(first, second)
    # A win is always an improvement, also where a lower figure is better.
    if not figure.higher_is_better:
        found = replace(found, wins=found.losses, losses=found.wins)
    needed = None
    if found.difference:
        needed = queries_needed(float((second - first).std()), abs(found.difference), tests)
    return PairedResult(**asdict(found), p_adjusted=found.p_value, queries_needed=needed)


def _corrected(comparisons: Sequence[Comparison]) -> list[Comparison]:
    """With the p-values of all of them corrected together (Holm 1979)."""
    rows = [row for comparison in comparisons for row in comparison.metrics.values()]
    adjusted = iter(holm([row.p_value for row in rows]))
    return [
        comparison.model_copy(
            update={
                "metrics": {
                    name: row.model_copy(update={"p_adjusted": next(adjusted)})
                    for name, row in comparison.metrics.items()
                }
            }
        )
        for comparison in comparisons
    ]


def _losses(
    figure: ReportFigure, query_ids: Sequence[str], a: ComparedRun, b: ComparedRun
) -> list[ChangedQuery]:
    key = figure.key
    changed = [
        ChangedQuery(
            query_id=each,
            query_text=b.texts.get(each, ""),
            a=a.scores[each][key],
            b=b.scores[each][key],
        )
        for each in query_ids
        if improvement(figure, b.scores[each][key] - a.scores[each][key]) < 0
    ]
    return sorted(changed, key=lambda each: -abs(each.b - each.a))[:MAX_CHANGED]


def run_names(runs: Sequence[ComparedRun]) -> list[str]:
    """What to call runs: by what differs between them, if their headers are known."""
    headers = [run.header for run in runs if run.header is not None]
    if len(headers) == len(runs):
        return distinguish(headers)
    return [run.report.target.title for run in runs]


def find_dataset(runs: Sequence[ComparedRun]) -> Dataset | None:
    """The data of the last run, if it is on this machine and labels changed between the runs."""
    *earlier, last = runs
    if all(_same_labels(each.report, last.report) for each in earlier):
        return None
    dataset, _ = find_run_dataset(last.report)
    return dataset


def compare_with_each(
    first: ComparedRun,
    others: Sequence[ComparedRun],
    figures: Sequence[ReportFigure] = (),
    dataset: Dataset | None = None,
) -> list[Comparison]:
    """Several systems with one: all their p-values are corrected together, not pair by pair."""
    return _corrected(
        [compare_reports(first, other, figures, dataset, len(others)) for other in others]
    )


def _same_labels(a: Report, b: Report) -> bool:
    def labels(report: Report) -> tuple[str, str]:  # older runs have no hash of labels alone
        return report.config.split, report.dataset.labels or report.dataset.fingerprint

    return labels(a) == labels(b)


def _figures_in_common(a: Report, b: Report) -> list[ReportFigure]:
    """Few on purpose: each further metric makes the correction of the others stricter."""
    theirs = {parse_metric(name) for name in b.metrics}
    shared = [metric for metric in map(parse_metric, a.metrics) if metric in theirs]
    usual = (nDCG.name, Recall.name, MRR.name)
    usual_ones = [metric for metric in shared if metric.name in usual]
    rankings: list[ReportFigure] = [*(usual_ones or shared), *_searches_in_common(a, b)]
    answers = _answers_in_common(a, b)
    # Without correctness no figure of answers says which run is better: rankings come first.
    decided = AnswerFigure("correctness") in answers
    return [*answers, *rankings] if decided else [*rankings, *answers]


def _answers_in_common(a: Report, b: Report) -> list[AnswerFigure]:
    """Those that both runs decided in the same way: by the same judge, nuggets and criteria."""
    ours, theirs = a.answers, b.answers
    if ours is None or theirs is None:
        return []
    names = [*_ANSWER_FIGURES, *(_NUGGET_FIGURES if _same_nuggets(a, b) else ())]
    if ours.correctness_by != theirs.correctness_by:
        names = [each for each in names if each not in ("correctness", "truthfulness")]
    shared = [each for each in names if each in ours.metrics and each in theirs.metrics]
    criteria = {(each.name, each.fingerprint, each.judge) for each in theirs.criteria}
    shared += [
        f"{CRITERION_PREFIX}{each.name}"
        for each in ours.criteria
        if (each.name, each.fingerprint, each.judge) in criteria
    ]
    return [AnswerFigure(each) for each in shared]


def _searches_in_common(a: Report, b: Report) -> list[AnswerFigure]:
    """What Assay recorded is never compared with what an agent reports of itself."""
    ours, theirs = a.search, b.search
    if ours is None or theirs is None or ours.recorded != theirs.recorded:
        return []
    shared = [name for name in _SEARCH_FIGURES if name in ours.figures and name in theirs.figures]
    if ours.tool != theirs.tool:  # a gain over another tool's single search is another figure
        shared = [name for name in shared if name != "loop_gain"]
    return [AnswerFigure(name) for name in shared]


def _same_nuggets(a: Report, b: Report) -> bool:
    """Whether both runs were measured by the same nuggets, assigned in the same way."""
    ours, theirs = (each.answers.nuggets if each.answers else None for each in (a, b))
    if ours is None or theirs is None:
        return False
    return (ours.fingerprint, ours.assigned_by) == (theirs.fingerprint, theirs.assigned_by)


def _queries_with(
    figure: ReportFigure, shared: Sequence[str], a: ComparedRun, b: ComparedRun
) -> list[str]:
    """The shared queries that have the figure in both runs, measured by the same reference."""
    # A reference that was rewritten in between changes the figure without a change of the answer.
    key, found = figure.key, []
    for query_id in shared:
        if key in a.scores[query_id] and key in b.scores[query_id]:
            references = (run.references.get(query_id) for run in (a, b))
            if not isinstance(figure, AnswerFigure) or len({*map(repr, references)}) == 1:
                found.append(query_id)
    return found


def _warnings(
    a: ComparedRun, b: ComparedRun, shared: Sequence[str], *, relabeled: bool, rescored: bool
) -> list[str]:
    reports = (a.report, b.report)
    warnings = _question_warnings(a, b, shared)
    shares = [_judged_share(report) for report in reports]
    if abs(shares[0] - shares[1]) > _JUDGED_GAP:
        words = " and ".join(f"{share:.0%}" for share in shares)
        warnings.append(
            f"{words} of what a and b returned is judged, and the rest counts as not relevant"
        )
    if relabeled:
        how = "both runs are measured by those of b" if rescored else "scores are as recorded"
        warnings.append(f"the labels or questions differ between the runs: {how}")
    elif a.report.dataset.fingerprint != b.report.dataset.fingerprint:
        counts = " and ".join(f"{report.dataset.documents:,}" for report in reports)
        warnings.append(f"the documents differ between the runs ({counts} of them)")
    warnings += dict.fromkeys(each.dataset.judged_by for each in reports if each.dataset.judged_by)
    judged = [report.answers.correctness_by for report in reports if report.answers]
    if len(set(judged)) > 1:
        warnings.append(f"correctness was measured in two ways: by {' and by '.join(judged)}")
    used = [report.answers.nuggets for report in reports if report.answers]
    if len([each for each in used if each]) == 2 and not _same_nuggets(a.report, b.report):
        warnings.append(
            "the nuggets, or how they were assigned, differ: nugget recall is not compared"
        )
    searches = [report.search.recorded for report in reports if report.search]
    if len(set(searches)) > 1:
        warnings.append("searches were recorded in one run and reported in the other: not compared")
    if a.report.track != b.report.track:
        tracks = (a.report.track, b.report.track)
        hint = "; declare it with --tag track=zero-shot" if "undeclared" in tracks else ""
        warnings.append(f"the tracks differ: {' and '.join(tracks)}{hint}")
    for name, report in zip("ab", reports, strict=True):
        summary = report.summary
        if report.state != RunState.COMPLETE:
            warnings.append(f"{name} is {report.state}")
        if not is_answered(summary.successful_queries, summary.total_queries):
            answered = f"{summary.successful_queries:,} of {summary.total_queries:,}"
            warnings.append(f"{name} answered only {answered} queries: compare with another run")
    return warnings


def _question_warnings(a: ComparedRun, b: ComparedRun, shared: Sequence[str]) -> list[str]:
    """How many queries are compared, and which only one run asked."""
    if len(shared) == len(a.scores) == len(b.scores):
        return []
    words = f"compared on the queries of both runs, {len(shared):,} of {len(b.scores):,} of b"
    both = set(shared)
    for name, run in (("a", a), ("b", b)):
        if alone := [query_id for query_id in run.scores if query_id not in both]:
            more = ", …" if len(alone) > _NAMED_QUERIES else ""
            words += f"; {len(alone):,} only in {name}: {', '.join(alone[:_NAMED_QUERIES])}{more}"
    return [words]


def _judged_share(report: Report) -> float:
    by_metric = {parse_metric(name): value for name, value in report.metrics.items()}
    return next((v for metric, v in by_metric.items() if metric.name == Judged.name), 1.0)
