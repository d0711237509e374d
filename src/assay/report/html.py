"""The report of a run as one HTML page.

`QueryFigures` collects what the page shows of the rows, one row at a time; `run_view` is the view
model, for this page and for the web UI.
"""

import heapq
import re
import shlex
from array import array
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from assay.data.dataset import Dataset, Query
from assay.metrics.metric import Metric
from assay.report import numbers, plots
from assay.report.html_answers import AnswersView, answers_view
from assay.report.html_queries import (
    JudgedDocuments,
    QueryGroup,
    QueryGroups,
    QueryView,
    query_view,
    violation_lines,
)
from assay.report.html_templates import render_fragment, render_page
from assay.run.config import RunConfig
from assay.run.models import AnswerRow, QueryRow, Report, Statistic, ViolationCount
from assay.run.settings import RunSetting, arguments, settings

SHOWN = 10
_BINS = 20
_TIMES = 24
_PASSWORD = re.compile(r"(?<=//)[^/@\s]+@")


@dataclass(frozen=True, slots=True)
class LatencyOverTime:
    """Percentiles by name; `axis` is seconds, or queries where rows have no time."""

    places: Sequence[float]
    series: Mapping[str, Sequence[float | None]]
    axis: str


@dataclass
class QueryFigures:
    """What a page shows of a run's rows, collected by `add` without keeping the rows.

    Parameters:
        metric: the headline metric.
        queries: the queries of the data set by id, for their tags; may be empty.
    """

    metric: Metric
    queries: Mapping[str, Query]
    zeros: int = field(default=0, init=False)
    perfect: int = field(default=0, init=False)
    failure_examples: dict[str, QueryRow] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self._bins = [0] * _BINS
        self._groups = QueryGroups()
        self._times = array("d")
        self._latencies = array("d")
        self._timed = True
        self._worst = _LargestRows()
        self._best = _LargestRows()

    def add(self, row: QueryRow) -> None:
        """Take one more row into account."""
        score = row.score(self.metric)
        self.zeros += score == 0
        self.perfect += score >= 1 - 1e-9
        if score > 0:
            self._bins[min(int(score * _BINS), _BINS - 1)] += 1
        query = self.queries.get(row.query_id)
        self._groups.add(row, score, query.tags if query else ())
        if row.status != "ok":
            self.failure_examples.setdefault(row.failure, row)
            return
        self._latencies.append(row.latency_ms)
        self._timed = self._timed and "at" in row.model_fields_set
        self._times.append(row.at)
        # Among equal scores, the query with the most relevant documents first.
        self._worst.offer((-score, row.total_relevant_docs), row)
        self._best.offer((score, row.total_relevant_docs), row)

    @property
    def worst(self) -> list[QueryRow]:
        """The answered queries with the lowest scores, the worst first."""
        return self._worst.rows()

    @property
    def best(self) -> list[QueryRow]:
        """The best ones, without those among the worst: a small run shows each query once."""
        shown = {row.query_id for row in self.worst}
        return [row for row in self._best.rows() if row.query_id not in shown]

    def histogram(self) -> list[int]:
        """Counts in equal steps from 0 to 1, without scores of exactly 0."""
        return list(self._bins)

    def groups(self) -> dict[str, list[QueryGroup]]:
        """Scores by what queries have in common, by title."""
        return self._groups.by_title()

    def latency_over_time(self) -> LatencyOverTime | None:
        """Percentiles over the run; None if too few queries were timed."""
        if len(self._latencies) < 8 or max(self._latencies) <= 0:
            return None
        latencies = np.array(self._latencies)
        asked = np.array(self._times if self._timed else range(len(latencies)), dtype=float)
        if asked.max() <= asked.min():
            return None
        bins = min(_TIMES, max(4, len(latencies) // 8))
        edges = np.linspace(0, asked.max(), bins + 1)
        where = np.clip(np.digitize(asked, edges) - 1, 0, bins - 1)
        in_bin = [latencies[where == place] for place in range(bins)]
        return LatencyOverTime(
            places=[float(edge) for edge in (edges[:-1] + edges[1:]) / 2],
            series={f"p{p}": [_percentile(each, p) for each in in_bin] for p in (50, 95)},
            axis="seconds" if self._timed else "queries",
        )


@dataclass(frozen=True, slots=True)
class FailureLine:
    """How many queries failed in one way, with the first of them."""

    kind: str
    number: int
    example: QueryRow | None


@dataclass(frozen=True, slots=True)
class RunView:
    """What the template `run_body.html` shows of a run.

    `query_links`, where queries have pages, is the address before their ids.
    """

    name: str
    title: str
    report: Report
    metric: str
    score: str
    headline: Statistic
    score_line: Markup
    zeros: int
    perfect: int
    histogram: Markup
    groups: Mapping[str, Sequence[QueryGroup]]
    latency: Markup | None
    failures: Sequence[FailureLine]
    violations: Sequence[tuple[str, ViolationCount]]
    worst: Sequence[QueryView]
    best: Sequence[QueryView]
    answers: AnswersView | None
    graded: bool
    query_links: str
    command: str
    settings: Mapping[str, str]


def render_run(
    report: Report,
    figures: QueryFigures,
    *,
    name: str,
    dataset: Dataset | None = None,
    answers: Iterable[AnswerRow] = (),
) -> str:
    """The page of a run.

    Parameters:
        report: every figure of the run.
        figures: what was collected of its rows.
        name: the name of the run.
        dataset: adds grades, titles and texts; without it there are only ids.
        answers: the rows of the answers, where they were evaluated.
    """
    view = run_view(report, figures, name=name, dataset=dataset, answers=answers)
    return render_page("run_page.html", run=view, title=f"{view.title}: {view.score}")


def render_summary(report: Report, *, name: str) -> str:
    """The figures of a run as a fragment of HTML, for notebooks."""
    return render_fragment("run_summary.html", report=report, name=name)


def run_view(
    report: Report,
    figures: QueryFigures,
    *,
    name: str,
    dataset: Dataset | None = None,
    answers: Iterable[AnswerRow] = (),
    query_links: str = "",
    question_links: str = "",
) -> RunView:
    """The view model of a run's page; parameters as for `render_run`.

    `query_links`, where queries have pages, is the address before their ids; `question_links` is
    the address of the list of questions, if there is one.
    """
    metric, score = report.headline
    judged = JudgedDocuments.of(report.config, dataset)
    return RunView(
        name=name,
        title=f"{report.target.title} on {report.dataset.name}",
        report=report,
        metric=str(metric),
        score=numbers.figure(score.mean),
        headline=score,
        score_line=plots.score_line(score.mean, score.low, score.high, score.ceiling),
        zeros=figures.zeros,
        perfect=figures.perfect,
        histogram=plots.histogram(figures.histogram(), figures.zeros, str(metric)),
        groups=figures.groups(),
        latency=_latency(figures),
        failures=[
            FailureLine(kind, number, figures.failure_examples.get(kind))
            for kind, number in Counter(report.failures).most_common()
        ],
        violations=violation_lines(report.violations),
        worst=[query_view(row, metric, judged) for row in figures.worst],
        best=[query_view(row, metric, judged) for row in figures.best],
        answers=answers_view(report.answers, answers, judged, question_links)
        if report.answers
        else None,
        graded=dataset is not None,
        query_links=query_links,
        command=command_of(report.config),
        settings={"target": report.config.target}
        | {each.name: _shown(each, report.config) for each in settings().values()},
    )


def command_of(config: RunConfig) -> str:
    """The command that makes this run again, every setting spelled out, without passwords."""
    words = ["assay", "eval", config.target]
    for flag, value in arguments(config):
        words += [flag] if value is None else [flag, value]
    return shlex.join(words)


def hide_password(text: str) -> str:
    """Addresses in a text without user and password: reports are passed around."""
    return _PASSWORD.sub("…@", text)


class _LargestRows:
    """The rows with the largest keys so far; of equals, the first ones."""

    def __init__(self) -> None:
        self._heap: list[tuple[tuple[float, ...], int, QueryRow]] = []
        self._count = 0

    def offer(self, key: tuple[float, ...], row: QueryRow) -> None:
        self._count += 1
        entry = (key, -self._count, row)
        if len(self._heap) < SHOWN:
            heapq.heappush(self._heap, entry)
        elif entry > self._heap[0]:
            heapq.heapreplace(self._heap, entry)

    def rows(self) -> list[QueryRow]:
        return [row for _, _, row in sorted(self._heap, reverse=True)]


def _shown(setting: RunSetting, config: RunConfig) -> str:
    value = getattr(config, setting.name)
    if value is None:
        return setting.option.placeholder or "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return setting.format(value).replace("\n", ", ") or "none"


def _latency(figures: QueryFigures) -> Markup | None:
    over_time = figures.latency_over_time()
    if over_time is None:
        return None
    return plots.latency_lines(over_time.places, over_time.series, over_time.axis)


def _percentile(values: NDArray[np.float64], percent: int) -> float | None:
    return float(np.percentile(values, percent)) if values.size else None
