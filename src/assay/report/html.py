"""The page of a run, as a file and in the web UI: the same templates, read from `RunPage`."""

import heapq
import shlex
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple
from urllib.parse import urlencode

from markupsafe import Markup

from assay.data.dataset import Dataset, Query
from assay.metrics.metric import Metric
from assay.report import charts
from assay.report.documents import EXCERPT, RIGHT, UNDECIDED, JudgedDocuments, anchor, kind_of
from assay.report.html_templates import environment, render_page
from assay.report.numbers import duration
from assay.report.slices import OUTCOME, Slice, SliceMean, slice_means, slices_of
from assay.run.calls import first_failure, steps_file
from assay.run.config import RunConfig, settings
from assay.run.folder import RunFolder
from assay.run.models import AnswerRow, QueryRow, Report, RunHeader
from assay.run.searches import SearchRow
from assay.run.settings import arguments
from assay.steps import SearchStep, StepLog

IN_FILE = 12
"""Queries, and answers, that a file shows with their documents: each takes some kilobytes."""

_BINS = 20
_MAX_DOTS = 300


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

    `metric` is the headline; `queries` are those of the data set, for their tags.
    """

    metric: Metric
    queries: Mapping[str, Query]
    lines: list[QueryLine] = field(default_factory=list, init=False)
    failed: dict[str, QueryRow] = field(default_factory=dict, init=False)
    """The first row of each kind of failure."""
    _worst: list[tuple[float, int, QueryRow]] = field(default_factory=list, init=False)

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
        timed = [
            (line.at, line.latency_ms, line)
            for line in self.lines
            if line.latency_ms is not None and not line.failure
        ]
        if len(timed) < 5:
            return None
        dots = [
            (at, ms, f"{(line.text or line.query_id)[:80]}: {duration(ms / 1000)}", link(line[0]))
            for at, ms, line in sorted(timed, key=lambda dot: -dot[1])[:_MAX_DOTS]
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


@dataclass(frozen=True)
class RunPage:
    """What the templates of a run read.

    Attributes:
        name: the name of the run's folder.
        report: every figure of the run.
        header: `run.json`, for commit, branch and label.
        figures: what was collected of its rows.
        docs: grades, titles and texts.
        answers: the rows of the answers.
        server: whether links lead to other pages.
        cause: how the first call failed.
        searches: the figures of each question's searches, least evidence first.
        steps: the searches for a question, those of the first trial.
    """

    name: str
    report: Report
    header: RunHeader
    figures: QueryFigures
    docs: JudgedDocuments
    answers: Sequence[AnswerRow] = ()
    server: bool = False
    cause: str = ""
    searches: Sequence[SearchRow] = ()
    steps: Callable[[str], Sequence[SearchStep]] = lambda query_id: ()

    @classmethod
    def read(
        cls,
        folder: RunFolder,
        dataset: Dataset | None,
        *,
        figures: QueryFigures | None = None,
        server: bool = False,
    ) -> "RunPage":
        """From the files of a run, and from `figures` of its rows if these are known."""
        report, config = folder.read_report(), folder.read_config()
        dataset = None if config.private else dataset
        if figures is None:
            figures = QueryFigures(report.headline[0], dataset.queries if dataset else {})
            for row in folder.read_rows():
                figures.add(row)
        excerpt = None if server else EXCERPT
        rows = sorted(folder.read_searches(), key=lambda row: row.figure("evidence_recall") or 0.0)
        log, first = StepLog(steps_file(folder.calls_file)), config.trials[0]
        return cls(
            folder.name,
            report,
            folder.read_header(),
            figures,
            JudgedDocuments(config.top_k, config.split, dataset, excerpt),
            list(folder.read_answers()),
            server,
            "" if config.private else first_failure(folder.calls_file),
            rows,
            lambda query_id: log.read(query_id, first),
        )

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
            return f"/runs/{self.name}?{urlencode({'tab': 'queries', 'query': query_id})}"
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
    ("searches", "Searches", lambda page: page.report.search),
    (
        "failures",
        "Failures",
        lambda page: page.report.failures or any(v.ids for v in page.report.violations.values()),
    ),
    ("settings", "Settings", lambda page: True),
)
"""The tabs of a run: `run_NAME.html`, its words, and whether a run has something for it."""


def render_run(
    folder: RunFolder, dataset: Dataset | None, figures: QueryFigures | None = None
) -> str:
    """The page of a run as one file. Without `dataset` it has no grades, titles and texts."""
    return render_run_page(RunPage.read(folder, dataset, figures=figures))


def render_run_page(page: RunPage) -> str:
    """One file from what the templates read."""
    return render_page("run_file.html", run=page, title=page.title)


def render_summary(report: Report, *, name: str) -> str:
    """The figures of a run as a fragment of HTML, for notebooks."""
    return environment().get_template("run_summary.html").render(report=report, name=name)


def command_of(config: RunConfig) -> str:
    """The command that makes a run again, every setting spelled out, without passwords."""
    words = ["assay", "eval", config.target]
    for flag, value in arguments(config):
        words += [flag] if value is None else [flag, value]
    return shlex.join(words)


def shown_settings(config: RunConfig) -> dict[str, str]:
    """Every setting of a run as text, by its name."""
    shown = {}
    for name, setting in settings().items():
        value = getattr(config, name)
        if isinstance(value, bool):
            shown[name] = "yes" if value else "no"
        elif value is None:
            shown[name] = setting.placeholder or "none"
        else:
            shown[name] = setting.format(value).replace("\n", ", ") or "none"
    return shown
