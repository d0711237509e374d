"""Compares two runs query by query: which is better, by how much, and how significantly."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace

import numpy as np

from assay.answers.answer_metrics import CRITERION_PREFIX
from assay.answers.figures import AnswerFigure
from assay.data.dataset import Judgments
from assay.errors import RunError
from assay.metrics.graded import Floats
from assay.metrics.metric import MRR, Judged, Recall, nDCG, parse_metric
from assay.metrics.statistics import PairedComparison, compare_paired, holm, queries_needed
from assay.run.folder import RunFolder, find_run_dataset
from assay.run.label_fit import ENOUGH, LabelFit, UnjudgedCheck, check_unjudged, fit_of, new_share
from assay.run.models import (
    AnswerRow,
    Comparison,
    PairedResult,
    QueryRow,
    Report,
    ReportFigure,
    RunHeader,
)
from assay.run.state import RunState
from assay.run.title import comparison_title, distinguish

_ANSWER_FIGURES = (
    *("correctness", "truthfulness", "fact_recall", "faithfulness"),
    *("abstention", "attempted"),
)
_NUGGET_FIGURES = ("nugget_recall", "nugget_recall_vital")


@dataclass(frozen=True)
class ComparedRun:
    """A run as a comparison needs it: its figures, and the scores of each query by key."""

    report: Report
    scores: Mapping[str, Mapping[str, float]]
    rankings: Mapping[str, Sequence[str]] = field(default_factory=dict)
    header: RunHeader | None = None

    @classmethod
    def of(
        cls,
        report: Report,
        rows: Iterable[QueryRow],
        answers: Iterable[AnswerRow] = (),
        header: RunHeader | None = None,
    ) -> "ComparedRun":
        """Combine the facts about a query's answer with those about its ranking."""
        scores: dict[str, dict[str, float]] = {}
        rankings: dict[str, Sequence[str]] = {}
        ids, values = dict[str, str](), dict[float, float]()  # each is kept once
        for row in rows:
            mine = {key: values.setdefault(one, one) for key, one in row.scores.items()}
            scores.setdefault(row.query_id, {}).update(mine)
            rankings[row.query_id] = tuple(ids.setdefault(one, one) for one in row.retrieved_docs)
        for answer in answers:
            found = {key: value for key, value in answer.scores.items() if value is not None}
            scores.setdefault(answer.query_id, {}).update(found)
        return cls(report, scores, rankings, header)

    @classmethod
    def read(cls, folder: RunFolder) -> "ComparedRun":
        """From the files of a run."""
        report, header = folder.read_report(), folder.read_header()
        return cls.of(report, folder.read_rows(), folder.read_answers(), header)

    def returned_ids(self) -> set[str]:
        """Every id that was returned for any query."""
        return {doc_id for ranking in self.rankings.values() for doc_id in ranking}


def compare_reports(
    a: ComparedRun,
    b: ComparedRun,
    figures: Sequence[ReportFigure] = (),
    judgments: Judgments | None = None,
    systems: int = 1,
) -> Comparison:
    """Compare on the queries that both runs asked; refused where the data differ.

    Parameters:
        a: the run to compare with.
        b: the run that is judged: a positive difference means that it scores higher.
        figures: what to compare in; the usual ones that both have by default.
        judgments: those of the split, to see whether the difference hangs on unjudged documents.
        systems: how many runs are compared with `a`, `b` among them.
    """
    _require_same_data(a.report, b.report)
    labels = _label_fit(a, b)
    shared = [query_id for query_id in a.scores if query_id in b.scores]
    if not shared:
        ours, theirs = (next(iter(each.scores), None) for each in (a, b))
        raise RunError(
            f"the two runs have no query in common: the first is {ours!r} in one and {theirs!r} "
            "in the other; compare runs with the same --split, --num-queries and --seed"
        )
    chosen = list(figures) or [
        figure
        for figure in _figures_in_common(a.report, b.report)
        if not isinstance(figure, AnswerFigure) or _covers_the_same(figure, shared, a, b)
    ]
    paired = []
    for figure in chosen:
        first, second = _columns(figure, shared, a.scores, b.scores)
        found = compare_paired(first, second)
        if not figure.higher_is_better:
            found = replace(found, wins=found.losses, losses=found.wins)
        paired.append((figure, found, float((second - first).std())))
    adjusted = holm([each.p_value for _, each, _ in paired])
    turned_over = labels is not None and labels.turned_over
    unjudged = None if turned_over else _check_unjudged(a, b, judgments)
    name_a, name_b = run_names([a, b])
    comparison = Comparison(
        a=name_a,
        b=name_b,
        metrics={
            figure.slug: PairedResult(
                **asdict(each),
                p_adjusted=p,
                queries_needed=_queries_needed(each, spread, systems * len(chosen)),
            )
            for (figure, each, spread), p in zip(paired, adjusted, strict=True)
        },
        warnings=_warnings(a, b, len(shared), labels, unjudged),
        title=comparison_title([name_a, name_b]),
    )
    if turned_over:
        metrics = {
            name: row.model_copy(update={"comparable": False})
            for name, row in comparison.metrics.items()
        }
        comparison = comparison.model_copy(update={"metrics": metrics})
    optional = {"labels": labels, "unjudged": unjudged}
    known = {name: each for name, each in optional.items() if each is not None}
    return comparison.model_copy(update=known)


def run_names(runs: Sequence[ComparedRun]) -> list[str]:
    """What to call runs: by what differs between them, where their headers are known."""
    headers = [run.header for run in runs if run.header is not None]
    if len(headers) == len(runs):
        return distinguish(headers)
    return [run.report.target.name for run in runs]


def find_judgments(first: ComparedRun, others: Sequence[ComparedRun]) -> Judgments | None:
    """The judgments of the runs, where some places of their rankings are not judged.

    None where they are not needed, or where the data set is not on this machine.
    """
    shares = [
        next((v for k, v in run.report.metrics.items() if parse_metric(k).name == Judged.name), 1.0)
        for run in (first, *others)
    ]
    if min(shares) >= ENOUGH:
        return None
    dataset, _ = find_run_dataset(first.report)
    return None if dataset is None else dataset.judgments_in(first.report.config.split)


def compare_with_each(
    first: ComparedRun,
    others: Sequence[ComparedRun],
    figures: Sequence[ReportFigure] = (),
    judgments: Judgments | None = None,
) -> list[Comparison]:
    """Several systems with one: all their p-values are corrected together, not pair by pair."""
    comparisons = [
        compare_reports(first, other, figures, judgments, len(others)) for other in others
    ]
    raw = [row.p_value for comparison in comparisons for row in comparison.metrics.values()]
    adjusted = iter(holm(raw))
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


def _queries_needed(paired: PairedComparison, spread: float, comparisons: int) -> int | None:
    """How many queries would show a difference of this size; None if there is none."""
    if paired.difference == 0:
        return None
    return queries_needed(spread, abs(paired.difference), comparisons)


def _require_same_data(a: Report, b: Report) -> None:
    """The same documents too, unless only they changed: then the labels say what that means."""
    same_labels = a.dataset.labels is not None and a.dataset.labels == b.dataset.labels
    for key, what in (("fingerprint", "data sets"), ("split", "splits")):
        first, second = getattr(a.dataset, key), getattr(b.dataset, key)
        if first != second and not (key == "fingerprint" and same_labels):
            raise RunError(
                f"the runs are on different {what} ({a.dataset.name} {first[:12]} and "
                f"{b.dataset.name} {second[:12]}): their scores cannot be compared"
            )


def _label_fit(a: ComparedRun, b: ComparedRun) -> LabelFit | None:
    """None for runs that did not count, because they were made by an older Assay."""
    if a.report.labels is None or b.report.labels is None:
        return None
    changed = a.report.dataset.fingerprint != b.report.dataset.fingerprint
    new_ids = new_share(a.returned_ids(), b.returned_ids())
    return fit_of(a.report.labels, b.report.labels, new_ids, documents_changed=changed)


def _check_unjudged(
    a: ComparedRun, b: ComparedRun, judgments: Judgments | None
) -> UnjudgedCheck | None:
    if judgments is None:
        return None
    top_k = min(each.report.config.top_k for each in (a, b))
    return check_unjudged(a.rankings, b.rankings, judgments, top_k)


def _figures_in_common(a: Report, b: Report) -> list[ReportFigure]:
    """Few on purpose: each further metric makes the correction of the others stricter."""
    theirs = {parse_metric(name) for name in b.metrics}
    shared = [metric for metric in map(parse_metric, a.metrics) if metric in theirs]
    if not shared:
        raise RunError("the two runs have no metric in common; run both with the same --top-k")
    usual = (nDCG.name, Recall.name, MRR.name)
    rankings = [metric for metric in shared if metric.name in usual] or shared
    answers = [*_answers_in_common(a, b), *_criteria_in_common(a, b)]
    # Without correctness no figure of answers says which run is better: rankings come first.
    decided = AnswerFigure("correctness") in answers
    return [*answers, *rankings] if decided else [*rankings, *answers]


def _answers_in_common(a: Report, b: Report) -> list[AnswerFigure]:
    """Where both runs have the same references, and correctness was decided in the same way."""
    ours, theirs = a.answers, b.answers
    if ours is None or theirs is None or ours.references != theirs.references:
        return []
    shared = [each for each in _ANSWER_FIGURES if each in ours.metrics and each in theirs.metrics]
    if ours.correctness_by != theirs.correctness_by:
        shared = [each for each in shared if each not in ("correctness", "truthfulness")]
    if _same_nuggets(a, b):
        shared += [
            each for each in _NUGGET_FIGURES if each in ours.metrics and each in theirs.metrics
        ]
    return [AnswerFigure(each) for each in shared]


def _same_nuggets(a: Report, b: Report) -> bool:
    """Whether both runs were measured by the same nuggets, assigned in the same way."""
    ours, theirs = (each.answers.nuggets if each.answers else None for each in (a, b))
    if ours is None or theirs is None:
        return False
    return (ours.fingerprint, ours.assigned_by) == (theirs.fingerprint, theirs.assigned_by)


def _criteria_in_common(a: Report, b: Report) -> list[AnswerFigure]:
    """Those that ask the same on the same scale, rated by the same judge."""
    if a.answers is None or b.answers is None:
        return []
    theirs = {(each.name, each.fingerprint, each.judge) for each in b.answers.criteria}
    return [
        AnswerFigure(f"{CRITERION_PREFIX}{each.name}")
        for each in a.answers.criteria
        if (each.name, each.fingerprint, each.judge) in theirs
    ]


def _covers_the_same(
    figure: AnswerFigure, shared: Sequence[str], a: ComparedRun, b: ComparedRun
) -> bool:
    """Whether both runs have it for the same questions: what it covers changed with versions."""
    key = figure.key
    return all((key in a.scores[each]) == (key in b.scores[each]) for each in shared)


def _columns(
    figure: ReportFigure,
    shared: Sequence[str],
    rows_a: Mapping[str, Mapping[str, float]],
    rows_b: Mapping[str, Mapping[str, float]],
) -> tuple[Floats, Floats]:
    """On the queries that the metric is about: a question without an answer has no ranking."""
    about = [each for each in shared if figure.key in rows_a[each] or figure.key in rows_b[each]]
    if not about:
        raise RunError(f"neither run has {figure}; choose one that both have")
    return (
        np.array([_score(rows_a[query_id], figure, "first") for query_id in about]),
        np.array([_score(rows_b[query_id], figure, "second") for query_id in about]),
    )


def _score(row: Mapping[str, float], figure: ReportFigure, which: str) -> float:
    if figure.key not in row:
        if isinstance(figure, AnswerFigure):
            raise RunError(f"the {which} run has no {figure}; run it with --answers")
        raise RunError(f"the {which} run has no {figure}; run it with a larger --top-k")
    return float(row[figure.key])


def _warnings(
    a: ComparedRun,
    b: ComparedRun,
    shared: int,
    labels: LabelFit | None,
    unjudged: UnjudgedCheck | None,
) -> list[str]:
    warnings = [] if unjudged is None or not unjudged.hangs else [unjudged.words]
    if labels is not None and labels.documents_changed and not labels.turned_over:
        counts = " and ".join(f"{each.report.dataset.documents:,}" for each in (a, b))
        warnings.append(
            f"the documents differ between the runs ({counts} of them), with the same judgments: a "
            "part of the difference may come from them"
        )
    if not shared == len(a.scores) == len(b.scores):
        warnings.append(
            f"compared on the {shared} queries that both runs have "
            f"(of {len(a.scores)} and {len(b.scores)})"
        )
    reports = (a.report, b.report)
    made = dict.fromkeys(each.dataset.judged_by for each in reports if each.dataset.judged_by)
    warnings += list(made)
    judged = [report.answers.correctness_by for report in reports if report.answers]
    if len(set(judged)) > 1:
        warnings.append(f"correctness was measured in two ways: by {' and by '.join(judged)}")
    used = [report.answers.nuggets for report in reports if report.answers]
    if len([each for each in used if each]) == 2 and not _same_nuggets(a.report, b.report):
        warnings.append(
            "the nuggets, or how they were assigned, differ: nugget recall is not compared"
        )
    if a.report.track != b.report.track:
        tracks = (a.report.track, b.report.track)
        hint = "; declare it with --track" if "undeclared" in tracks else ""
        warnings.append(f"the tracks differ: {' and '.join(tracks)}{hint}")
    warnings += [
        f"{report.target.name} is {report.state}"
        for report in reports
        if report.state != RunState.COMPLETE
    ]
    return warnings
