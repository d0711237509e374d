"""Two or more runs on one page: which is better, by how much, how sure, and on which queries."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from markupsafe import Markup

from assay.answers.figures import AnswerFigure, parse_figure
from assay.data.dataset import Dataset
from assay.metrics.metric import Metric
from assay.report import plots
from assay.report.changes import (
    SHOWN,
    LargestChanges,
    PairedScores,
    RowPair,
    SliceChange,
    compare_slices,
    gains_and_losses,
    paired_by,
    score_of,
    where_it_changed,
)
from assay.report.html_queries import JudgedDocuments, QueryView, query_view
from assay.report.html_questions import PreferenceView, QuestionView, preference_view, question_view
from assay.report.html_templates import render_page
from assay.report.numbers import figure
from assay.report.terminal import verdict
from assay.run.answers import AnswerStatistic
from assay.run.comparison import ComparedRun
from assay.run.folder import RunFolder
from assay.run.models import (
    AnswerRow,
    Comparison,
    MeasuredDataset,
    QueryRow,
    Report,
    ReportFigure,
    RunHeader,
)
from assay.run.title import comparison_title, distinguish

View = TypeVar("View", QueryView, QuestionView)
_CORRECTNESS = AnswerFigure("correctness")


@dataclass(frozen=True, slots=True)
class ComparedSide:
    """A run of a comparison: its name, its report and its rows."""

    name: str
    report: Report
    answers: Sequence[AnswerRow]
    header: RunHeader
    _folder: RunFolder

    @classmethod
    def read(cls, folder: RunFolder) -> "ComparedSide":
        """From the files of a run."""
        answers = list(folder.read_answers())
        return cls(folder.name, folder.read_report(), answers, folder.read_header(), folder)

    def rows(self) -> Iterator[QueryRow]:
        """One for each query, read anew each time: those of a large run take much memory."""
        return self._folder.read_rows()

    @property
    def compared(self) -> ComparedRun:
        """The run as a comparison needs it."""
        return ComparedRun.of(self.report, self.rows(), self.answers, self.header)


@dataclass(frozen=True, slots=True)
class SideView:
    """A run in the table of all; `label` names what differs between the runs."""

    label: str
    name: str
    report: Report


@dataclass(frozen=True, slots=True)
class RowChange(Generic[View]):
    """One query or question in both runs; `difference` is that of the figure that is compared."""

    difference: float
    better: bool
    a: View
    b: View


@dataclass(frozen=True, slots=True)
class Agreement:
    """Questions by which of two runs answered them right."""

    both: int
    only_a: int
    only_b: int
    neither: int


@dataclass(frozen=True, slots=True)
class AnswerChanges:
    """Answers that got better and worse; `agreement` where correctness is compared."""

    figure: str
    agreement: Agreement | None
    gains: int
    losses: int
    better: Sequence[RowChange[QuestionView]]
    worse: Sequence[RowChange[QuestionView]]


@dataclass(frozen=True, slots=True)
class PairView:
    """One run against the first: labels, figures, plots, and the queries that changed most.

    `ranking` is the first metric of rankings, by which slices and changed queries are found, or
    empty; `ranked` where it is the headline, `metric`.
    """

    a: str
    b: str
    metric: str
    ranking: str
    comparison: Comparison
    verdict: str
    scatter: Markup | None
    win_loss: Markup
    ranked: bool
    higher_is_better: bool
    better: Sequence[RowChange[QueryView]]
    worse: Sequence[RowChange[QueryView]]
    answers: AnswerChanges | None
    preference: PreferenceView | None = None
    slices: Sequence[SliceChange] = ()
    where: str = ""
    b_name: str = ""


@dataclass(frozen=True, slots=True)
class ComparisonView:
    """What the template `comparison_body.html` shows.

    `correctness` has one statistic for each side, or none where they do not compare.
    """

    title: str
    sides: Sequence[SideView]
    metrics: Sequence[str]
    correctness: Sequence[AnswerStatistic]
    pairs: Sequence[PairView]
    dataset: MeasuredDataset


def render_comparison_page(
    sides: Sequence[ComparedSide],
    comparisons: Sequence[Comparison],
    dataset: Dataset | None = None,
) -> str:
    """A page that compares runs.

    Parameters:
        sides: the runs; the others are compared with the first.
        comparisons: one for each of the others, in their order.
        dataset: adds grades, titles and texts.
    """
    return render_comparison_view(comparison_view(sides, comparisons, dataset))


def render_comparison_view(view: ComparisonView) -> str:
    """A comparison as a page of its own."""
    return render_page("comparison_page.html", compared=view, title=view.title, links=False)


def comparison_view(
    sides: Sequence[ComparedSide],
    comparisons: Sequence[Comparison],
    dataset: Dataset | None = None,
) -> ComparisonView:
    """The view model of a comparison; parameters as for `render_comparison_page`."""
    first, *others = sides
    labels = distinguish([side.header for side in sides])
    named = [
        comparison.model_copy(update={"a": labels[0], "b": label})
        for comparison, label in zip(comparisons, labels[1:], strict=True)
    ]
    return ComparisonView(
        title=comparison_title(labels),
        sides=[
            SideView(label, side.name, side.report)
            for label, side in zip(labels, sides, strict=True)
        ],
        metrics=_metrics(sides),
        correctness=_correctness(sides),
        pairs=[
            _pair(first, other, comparison, dataset, f"pair-{place}")
            for place, (other, comparison) in enumerate(zip(others, named, strict=True), start=1)
        ],
        dataset=first.report.dataset,
    )


def _pair(
    first: ComparedSide,
    other: ComparedSide,
    comparison: Comparison,
    dataset: Dataset | None,
    prefix: str,
) -> PairView:
    metric = parse_figure(next(iter(comparison.metrics)))
    figures = map(parse_figure, comparison.metrics)
    ranking = next((each for each in figures if isinstance(each, Metric)), None)
    scores = PairedScores()
    better: Sequence[RowChange[QueryView]] = ()
    worse: Sequence[RowChange[QueryView]] = ()
    slices: Sequence[SliceChange] = ()
    if ranking is not None:
        changes = LargestChanges(ranking)
        pairs = _noted(paired_by(first.rows(), other.rows(), ranking), ranking, scores, changes)
        slices = compare_slices(pairs, ranking, dataset)
        better, worse = _changed_queries(changes, first, other, ranking, dataset)
    if metric != ranking:
        scores = PairedScores()
        for answers in paired_by(first.answers, other.answers, metric):
            scores.add(answers, metric)
    return PairView(
        a=comparison.a,
        b=comparison.b,
        metric=str(metric),
        ranking=str(ranking or ""),
        comparison=comparison,
        verdict=verdict(comparison, a=comparison.a, b=comparison.b),
        scatter=None if metric == _CORRECTNESS else _scatter(scores.drawn, metric, comparison),
        win_loss=plots.win_loss(
            scores.differences, f"queries, by difference in {metric}", metric.higher_is_better
        ),
        ranked=metric == ranking,
        higher_is_better=metric.higher_is_better,
        better=better,
        worse=worse,
        answers=_changed_answers(first, other, comparison, dataset, prefix),
        preference=_preference(first, other, comparison),
        slices=slices,
        where=where_it_changed(slices, str(ranking), named=metric != ranking),
        b_name=other.name,
    )


def _noted(
    pairs: Iterable[RowPair[QueryRow]],
    metric: Metric,
    scores: PairedScores,
    changes: LargestChanges,
) -> Iterator[RowPair[QueryRow]]:
    """The pairs, each noted for the plots: rows of a large run are looked at once."""
    for pair in pairs:
        scores.add(pair, metric)
        changes.add(pair)
        yield pair


def _preference(
    first: ComparedSide, other: ComparedSide, comparison: Comparison
) -> PreferenceView | None:
    if comparison.preference is None:
        return None
    rows_a, rows_b = ({row.query_id: row for row in each.answers} for each in (first, other))
    return preference_view(
        comparison.preference, rows_a, rows_b, f"a, {comparison.a},", f"b, {comparison.b},"
    )


def _scatter(
    scores: Sequence[tuple[float, float, str]], metric: ReportFigure, comparison: Comparison
) -> Markup:
    return plots.scatter(
        [(a, b, f"{text}: {figure(a, 3)} and {figure(b, 3)}") for a, b, text in scores],
        f"{metric} of {comparison.a}",
        f"{metric} of {comparison.b}",
        metric.higher_is_better,
    )


def _changed_queries(
    found: LargestChanges,
    first: ComparedSide,
    other: ComparedSide,
    metric: Metric,
    dataset: Dataset | None,
) -> tuple[list[RowChange[QueryView]], list[RowChange[QueryView]]]:
    """The queries with the largest gains, and those with the largest losses."""
    judged_a = JudgedDocuments.of(first.report.config, dataset)
    judged_b = JudgedDocuments.of(other.report.config, dataset)

    def changes(pairs: Sequence[RowPair[QueryRow]], better: bool) -> list[RowChange[QueryView]]:
        return [
            RowChange(
                size, better, query_view(a, metric, judged_a), query_view(b, metric, judged_b)
            )
            for size, a, b in pairs
        ]

    gains, losses = found.found()
    return changes(gains, True), changes(losses, False)


def _changed_answers(
    first: ComparedSide,
    other: ComparedSide,
    comparison: Comparison,
    dataset: Dataset | None,
    prefix: str,
) -> AnswerChanges | None:
    """None if the comparison has no figure of answers."""
    compared = _answer_figure(comparison)
    if compared is None:
        return None
    judged_a = JudgedDocuments.of(first.report.config, dataset)
    judged_b = JudgedDocuments.of(other.report.config, dataset)

    def changes(pairs: Sequence[RowPair[AnswerRow]], better: bool) -> list[RowChange[QuestionView]]:
        return [
            RowChange(
                size,
                better,
                question_view(a, judged_a, f"{prefix}-a"),
                question_view(b, judged_b, f"{prefix}-b"),
            )
            for size, a, b in pairs[:SHOWN]
        ]

    pairs = list(paired_by(first.answers, other.answers, compared))
    gains, losses = gains_and_losses(pairs, compared)
    return AnswerChanges(
        figure=str(compared),
        agreement=_agreement(pairs) if compared == _CORRECTNESS else None,
        gains=len(gains),
        losses=len(losses),
        better=changes(gains, True),
        worse=changes(losses, False),
    )


def _answer_figure(comparison: Comparison) -> AnswerFigure | None:
    """Correctness where it was compared, else the first figure of answers."""
    figures = [parse_figure(name) for name in comparison.metrics]
    answers = [each for each in figures if isinstance(each, AnswerFigure)]
    return _CORRECTNESS if _CORRECTNESS in answers else next(iter(answers), None)


def _agreement(pairs: Iterable[RowPair[AnswerRow]]) -> Agreement:
    right = [(score_of(a, _CORRECTNESS) > 0, score_of(b, _CORRECTNESS) > 0) for _, a, b in pairs]
    return Agreement(
        both=right.count((True, True)),
        only_a=right.count((True, False)),
        only_b=right.count((False, True)),
        neither=right.count((False, False)),
    )


def _metrics(sides: Sequence[ComparedSide]) -> list[str]:
    """The metrics that every run has, the first run's headline first."""
    return [
        name
        for name in sides[0].report.statistics
        if all(name in side.report.statistics for side in sides)
    ]


def _correctness(sides: Sequence[ComparedSide]) -> list[AnswerStatistic]:
    """One statistic for each side, where all have one that was decided in the same way."""
    answers = [side.report.answers for side in sides]
    found = [
        each.statistics["correctness"]
        for each in answers
        if each is not None and "correctness" in each.statistics
    ]
    ways = {(each.correctness_by, each.references) for each in answers if each is not None}
    return found if len(found) == len(sides) and len(ways) == 1 else []
