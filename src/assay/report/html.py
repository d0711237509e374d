"""The page of a run, as a file and in the web UI: the same templates, read from `RunPage`.

`QueryFigures` collects what the page shows of the rows, one row at a time.
"""

import heapq
import re
import shlex
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple
from urllib.parse import urlencode

from markupsafe import Markup

from assay.data.dataset import Dataset, Query
from assay.metrics.metric import Metric
from assay.metrics.violations import KINDS
from assay.report import charts
from assay.report.documents import RIGHT, UNDECIDED, JudgedDocuments, anchor, kind_of
from assay.report.html_templates import render_fragment, render_page
from assay.report.numbers import duration
from assay.report.slices import OUTCOME, Slice, SliceMean, slice_means, slices_of
from assay.run.calls import steps_file
from assay.run.config import RunConfig
from assay.run.folder import RunFolder
from assay.run.models import AnswerRow, QueryRow, Report, RunHeader
from assay.run.searches import SearchRow
from assay.run.settings import RunSetting, arguments, settings
from assay.steps import SearchStep, StepLog

IN_FILE = 12
"""Queries, and answers, that a file shows with their documents: each takes some kilobytes."""

_BINS = 20
_DOTS = 300
_PASSWORD = re.compile(r"(?<=//)[^/@\s]+@")
_VIOLATIONS = {"duplicate": "repeated", "unknown": "unknown id", "surplus": "beyond top_k"}


class QueryLine(NamedTuple):
    """A query as one line of a list; `latency_ms` is None for one that was never sent."""

    query_id: str
    text: str
    score: float
    found: int
    relevant: int
    latency_ms: float | None
    at: float
    failure: str
    slices: tuple[Slice, ...]


@dataclass
class QueryFigures:
    """What a page shows of a run's rows, collected by `add`; of the rows, the worst are kept.

    Parameters:
        metric: the headline metric.
        queries: the queries of the data set by id, for their tags; may be empty.
    """

    metric: Metric
    queries: Mapping[str, Query]
    lines: list[QueryLine] = field(default_factory=list, init=False)
    failed: dict[str, QueryRow] = field(default_factory=dict, init=False)
    """The first row of each kind of failure."""

    def __post_init__(self) -> None:
        self._worst: list[tuple[float, int, QueryRow]] = []

    def add(self, row: QueryRow) -> None:
        """Take one more row into account."""
        query, score = self.queries.get(row.query_id), row.score(self.metric)
        self.lines.append(
            QueryLine(
                row.query_id,
                row.query_text,
                score,
                row.relevant_docs_retrieved,
                row.total_relevant_docs,
                row.latency_ms if "latency_ms" in row.model_fields_set else None,
                row.at,
                row.failure,
                tuple(slices_of(row, query.tags if query else ())),
            )
        )
        if row.failure:
            self.failed.setdefault(row.failure, row)
        else:
            push = heapq.heappush if len(self._worst) < IN_FILE else heapq.heappushpop
            push(self._worst, (-score, -len(self.lines), row))

    @property
    def worst(self) -> list[QueryRow]:
        """The answered queries with the lowest scores, the worst first."""
        return [row for _, _, row in sorted(self._worst, reverse=True)]

    @property
    def zeros(self) -> int:
        """Queries that score nothing."""
        return sum(line.score == 0 for line in self.lines)

    def histogram(self) -> Markup:
        """How many queries scored what."""
        bins = [0] * _BINS
        for line in self.lines:
            if line.score > 0:
                bins[min(int(line.score * _BINS), _BINS - 1)] += 1
        return charts.histogram(bins, self.zeros, str(self.metric))

    def latency(self, link: Callable[[str], str]) -> Markup | None:
        """One dot a query over the run, the slowest if there are many; None if few were timed."""
        timed = [line for line in self.lines if line.latency_ms is not None and not line.failure]
        if len(timed) < 5:
            return None
        kept = sorted(timed, key=lambda line: -(line.latency_ms or 0))[:_DOTS]
        dots = [
            (
                line.at,
                line.latency_ms or 0.0,
                f"{(line.text or line.query_id)[:80]}: {duration((line.latency_ms or 0) / 1000)}",
                link(line.query_id),
            )
            for line in kept
        ]
        return charts.latency_dots(dots, "seconds into the run")

    def slices(self) -> dict[str, list[SliceMean]]:
        """Mean scores by what queries have in common."""
        scores: dict[Slice, list[float]] = defaultdict(list)
        for line in self.lines:
            for found in line.slices:
                if found.kind != OUTCOME:
                    scores[found].append(line.score)
        kinds: dict[str, list[SliceMean]] = defaultdict(list)
        for mean in slice_means(scores):
            kinds[mean.slice.kind].append(mean)
        return dict(kinds)


@dataclass(frozen=True, slots=True)
class Searches:
    """The searches of an agent: figures of each question, least evidence first, and its steps.

    With several trials, the steps are those of the first.
    """

    rows: Sequence[SearchRow]
    steps: Callable[[str], Sequence[SearchStep]]

    @classmethod
    def of(cls, folder: RunFolder) -> "Searches":
        """From the files of a run; without rows if its agent was not watched."""
        rows = sorted(folder.read_searches(), key=lambda row: row.figure("evidence_recall") or 0.0)
        log, first = StepLog(steps_file(folder.calls_file)), folder.read_config().trials[0]
        return cls(rows, lambda query_id: log.read(query_id, first))


@dataclass(frozen=True)
class RunPage:
    """What the templates of a run read.

    Attributes:
        name: the name of the run's folder.
        report: every figure of the run.
        header: `run.json`, for commit, branch and label.
        figures: what was collected of its rows.
        docs: grades, titles and texts.
        answers: the rows of the answers; in a file, few of each kind.
        server: whether links lead to other pages.
        cause: how the first call failed, of a run that answered nothing.
        searches: what the agent searched for, if that was recorded.
    """

    name: str
    report: Report
    header: RunHeader
    figures: QueryFigures
    docs: JudgedDocuments
    answers: Sequence[AnswerRow] = ()
    server: bool = False
    cause: str = ""
    searches: Searches | None = None

    @property
    def title(self) -> str:
        """The label of the run, else its target."""
        label = None if self.header.baseline_of else self.header.label
        return label or self.report.target.title

    @property
    def tabs(self) -> list[tuple[str, str]]:
        """Those that the run has something for: the name of the template and the words."""
        return [(name, words) for name, words, applies in TABS if applies(self)]

    def link(self, query_id: str) -> str:
        """Where a query is shown; empty in a file that does not show it."""
        if self.server:
            return f"/runs/{self.name}?{query_address('queries', query_id)}"
        shown = any(row.query_id == query_id for row in self.figures.worst)
        return f"#q-{anchor(query_id)}" if shown else ""

    @property
    def texts(self) -> dict[str, str]:
        """The text of each query."""
        return {line.query_id: line.text for line in self.figures.lines}

    @property
    def command(self) -> str:
        """The command that makes this run again."""
        return command_of(self.report.config)

    @property
    def settings(self) -> dict[str, str]:
        """Every setting as text."""
        return {"target": self.report.config.target} | shown_settings(self.report.config)

    @property
    def changed_settings(self) -> dict[str, str]:
        """The settings that are not the default."""
        usual = shown_settings(RunConfig(target=""))
        return {name: text for name, text in self.settings.items() if usual.get(name) != text}

    @property
    def violations(self) -> list[tuple[str, object]]:
        """The kinds of invalid ids that occurred."""
        found = self.report.violations
        return [
            (_VIOLATIONS[kind], found[kind]) for kind in KINDS if kind in found and found[kind].ids
        ]

    @property
    def kinds(self) -> dict[str, int]:
        """How many answers ended how: what failed first, then undecided, then right."""
        counts = Counter(kind_of(row) for row in self.answers)
        last = {UNDECIDED: 1, RIGHT: 2}
        names = sorted(counts, key=lambda kind: (last.get(kind, 0), -counts[kind], kind))
        return {kind: counts[kind] for kind in names}

    @property
    def answers_in_file(self) -> list[AnswerRow]:
        """As many of each kind, so that every kind is among those that a file shows."""
        room = max(2, IN_FILE // max(1, len(self.kinds)))
        return [
            row
            for kind in self.kinds
            for row in [row for row in self.answers if kind_of(row) == kind][:room]
        ]


TABS: tuple[tuple[str, str, Callable[[RunPage], object]], ...] = (
    ("overview", "Overview", lambda page: True),
    ("queries", "Queries", lambda page: page.figures.lines),
    ("answers", "Answers", lambda page: page.report.answers),
    ("searches", "Searches", lambda page: page.report.search and page.searches),
    ("failures", "Failures", lambda page: page.report.failures or page.violations),
    ("settings", "Settings", lambda page: True),
)
"""The tabs of a run: `run_NAME.html`, its words, and whether a run has something for it."""


def render_run(
    report: Report,
    figures: QueryFigures,
    *,
    name: str,
    header: RunHeader,
    dataset: Dataset | None = None,
    answers: Iterable[AnswerRow] = (),
    cause: str = "",
    searches: Searches | None = None,
) -> str:
    """The page of a run as one file.

    Parameters:
        report: every figure of the run.
        figures: what was collected of its rows.
        name: the name of the run.
        header: `run.json`, for commit, branch and label.
        dataset: adds grades, titles and texts; without it there are only ids.
        answers: the rows of the answers, where they were evaluated.
        cause: how the first call failed, for a run that answered nothing.
        searches: what the agent searched for, if that was recorded.
    """
    docs = JudgedDocuments.of(report.config, dataset)
    page = RunPage(
        name, report, header, figures, docs, list(answers), cause=cause, searches=searches
    )
    return render_page("run_file.html", run=page, title=page.title)


def render_summary(report: Report, *, name: str) -> str:
    """The figures of a run as a fragment of HTML, for notebooks."""
    return render_fragment("run_summary.html", report=report, name=name)


def command_of(config: RunConfig) -> str:
    """The command that makes a run again, every setting spelled out, without passwords."""
    words = ["assay", "eval", config.target]
    for flag, value in arguments(config):
        words += [flag] if value is None else [flag, value]
    return shlex.join(words)


def query_address(tab: str, query_id: str) -> str:
    """The part of an address that opens a query in a list."""
    return urlencode({"tab": tab, "query": query_id})


def shown_settings(config: RunConfig) -> dict[str, str]:
    """Every setting of a run as text, by its name."""
    return {setting.name: _shown(setting, config) for setting in settings().values()}


def _shown(setting: RunSetting, config: RunConfig) -> str:
    value = getattr(config, setting.name)
    if value is None:
        return setting.option.placeholder or "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return setting.format(value).replace("\n", ", ") or "none"


def hide_password(text: str) -> str:
    """Addresses in a text without user and password: reports are passed around."""
    return _PASSWORD.sub("…@", text)
