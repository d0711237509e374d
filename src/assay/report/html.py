"""The page of a run, as a file and in the web UI: the same templates, read from `RunPage`.

A page has no script and needs no network; light mode, dark mode and paper. All content of a run
(queries, ids, documents, messages of agents) is escaped, and control and bidirectional characters
are replaced. A standalone page forbids all scripts and allows only its own style, by its hash.
"""

import base64
import hashlib
import heapq
import re
import shlex
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache, cached_property
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode

import orjson
from jinja2 import ChoiceLoader, Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from assay.data.dataset import Dataset, Document, Query
from assay.metrics.figures import CRITERION_PREFIX, improvement, parse_figure
from assay.metrics.metric import Metric
from assay.net.redact import printable
from assay.report import charts, numbers, terminal
from assay.run.calls import first_failure, steps_file
from assay.run.config import RunConfig, arguments, settings
from assay.run.folder import RunFolder
from assay.run.models import AnswerRow, QueryRow, Report, RunHeader, SearchRow
from assay.steps import SearchStep, StepLog
from assay.text import is_stop, parse_time, stem, words

TEMPLATES = Path(__file__).parent / "templates"
IN_FILE = 12  # queries, and answers, that a file shows with their documents: some kilobytes each
EXCERPT = 150  # characters of a document in a file; on the server, panels show whole texts
MAX_ANSWER = 4000  # characters of an answer: nobody reads more, and an agent may send a book
RIGHT, WRONG, UNDECIDED = "right", "wrong", "not decided"
_BINS = 20
_MAX_DOTS = 300


# --- rendering -----------------------------------------------------------------------------------


@cache  # to compile all of them takes 0.3 s
def environment(*folders: Path) -> Environment:
    """Templates of `folders` and of reports, with filters for numbers; everything is escaped.

    One for each process: what a page needs of its server is given to `render`.
    """
    jinja = Environment(
        loader=ChoiceLoader([FileSystemLoader(folder) for folder in (*folders, TEMPLATES)]),
        autoescape=True,
        # A field that was renamed fails in a test instead of leaving a blank on the page.
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_printable,
    )
    names = ("figure", "ceiling", "count", "counted", "difference", "moment", "percent", "rate")
    jinja.filters |= {name: getattr(numbers, name) for name in names}
    jinja.filters |= {
        "milliseconds": lambda ms: numbers.duration(None if ms is None else ms / 1000),
        "metric_name": charts.figure_title,
        "improvement": lambda difference, name: improvement(parse_figure(name), difference),
        "raw_json": lambda call: orjson.dumps(call.to_json(), option=orjson.OPT_INDENT_2).decode(),
        "age": age,
        "breakable": breakable,
    }
    shared = (
        *(numbers.interval, numbers.share, numbers.p_value, charts.whisker, charts.change_bar),
        *(terminal.verdict, terminal.answer_lines, terminal.search_lines),
        *(anchor, verdict_word, ratings, command_of),
    )
    jinja.globals |= {function.__name__: function for function in shared}
    jinja.globals |= {
        "charts": charts,
        "VIOLATIONS": terminal.VIOLATIONS,
        "CONTEXTS": terminal.CONTEXTS,
        "MAX_ANSWER": MAX_ANSWER,
        "SIGNED": ("truthfulness", "loop_gain"),
    }
    return jinja


def _printable(value: Any) -> Any:
    """Without characters that show a text in another order than it has, as in a terminal."""
    if not isinstance(value, str):
        return value
    shown = printable(value.replace("\r\n", "\n").replace("\r", "\n"))
    return Markup(shown) if isinstance(value, Markup) else shown


def render_page(template: str, **values: Any) -> str:
    """A standalone page: its style is inline, and its policy allows nothing else."""
    style = style_sheet()
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    page = environment().get_template(template)
    return page.render(style=Markup(style), policy=policy, **values)


@cache
def style_sheet() -> str:
    """The CSS of every page."""
    return (TEMPLATES / "style.css").read_text(encoding="utf-8")


def breakable(name: str) -> Markup:
    """A name or address that a narrow window breaks after a mark, and not between letters."""
    shown = str(escape(printable(name)))
    return Markup(re.sub(r"(?<![/:._-])([/:._-]++)(?=\w)", r"\1<wbr>", shown))


def age(iso: str | None) -> str:
    """`4 min`, `3 h`, `12 d`: how long ago; empty for what is not a time."""
    try:
        seconds = (datetime.now(UTC) - parse_time(iso or "")).total_seconds()
    except (ValueError, OverflowError):
        return ""
    minutes = max(0, int(seconds // 60))
    if minutes < 60:
        return f"{minutes} min"
    return f"{minutes // 60} h" if minutes < 48 * 60 else f"{minutes // 1440} d"


def anchor(query_id: str) -> str:
    """An id as part of the address of a place on the page."""
    return re.sub(r"[^\w-]", lambda found: f".{ord(found[0]):x}", query_id)


# --- documents and answers -----------------------------------------------------------------------


class Mark(NamedTuple):
    """The grade of a document or what is wrong with its id; `tone` is the CSS class."""

    text: str
    tone: str
    meaning: str


@dataclass(frozen=True, slots=True)
class JudgedDocuments:
    """Grades, titles and texts from the data set; without a data set there are only ids."""

    top_k: int
    split: str
    dataset: Dataset | None
    excerpt: int | None = EXCERPT

    def grades(self, query_id: str) -> Mapping[str, int]:
        """The judgments of a query, as far as they are known."""
        judgments = self.dataset.judgments.get(self.split, {}) if self.dataset else {}
        return judgments.get(query_id, {})

    def relevant(self, query_id: str) -> list[str]:
        """The relevant documents of a query, best first."""
        grades = self.grades(query_id)
        return sorted((d for d, grade in grades.items() if grade > 0), key=lambda d: -grades[d])

    def tags(self, query_id: str) -> Sequence[str]:
        """The tags that the data set gives a query."""
        query = self.dataset.queries.get(query_id) if self.dataset else None
        return query.tags if query else ()

    def title(self, doc_id: str) -> str:
        """The title of a document, or the start of its text; empty if neither is known."""
        document = self._document(doc_id)
        return document.title or " ".join(document.text[:60].split())

    def text(self, doc_id: str) -> str:
        """The text of a document, cut to an excerpt in a file."""
        text = self._document(doc_id).text
        is_whole = self.excerpt is None or len(text) <= self.excerpt
        return text if is_whole else f"{text[: self.excerpt]}…"

    def _document(self, doc_id: str) -> Document:
        found = self.dataset.documents.get(doc_id) if self.dataset else None
        return found or Document(doc_id, "", "")

    def exists(self, doc_id: str) -> bool:
        """Whether the data set has a document of this id; True if nobody knows."""
        known = None if self.dataset is None else self.dataset.corpus_ids
        return known is None or doc_id in known

    def mark(self, query_id: str, doc_id: str, before: Sequence[str] = ()) -> Mark:
        """The grade of a document that comes after others in a ranking."""
        if self.dataset is None:
            return Mark("", "unjudged", "")
        if doc_id in before:
            return Mark("×2", "fault", "duplicate: scores nothing")
        if not self.exists(doc_id):
            return Mark("?", "fault", "no document has this id")
        if len(before) >= self.top_k:
            return Mark("+", "fault", "beyond top_k: scores nothing")
        grade = self.grades(query_id).get(doc_id)
        if grade is None:
            return Mark("–", "unjudged", "not judged for this query")
        tone = "irrelevant" if grade <= 0 else "relevant" if grade == 1 else "highly"
        return Mark(str(grade), tone, f"grade {grade}")

    def lost(
        self, query_id: str, query: str, before: Sequence[str], after: Sequence[str]
    ) -> list[tuple[str, int, list[str]]]:
        """Relevant documents that one ranking has and another has not.

        Each with the rank that it had and the words of the query that it contains, by their stems.
        """
        grades, kept = self.grades(query_id), set(after[: self.top_k])
        asked = dict.fromkeys(word for word in words(query) if not is_stop(word))
        found = []
        for rank, doc_id in enumerate(before[: self.top_k], start=1):
            if grades.get(doc_id, 0) > 0 and doc_id not in kept:
                document = self._document(doc_id)
                has = {stem(word) for word in words(f"{document.title} {document.text}")}
                found.append((doc_id, rank, [word for word in asked if stem(word) in has]))
        return found

    def facts(self, row: AnswerRow) -> list[tuple[str, bool | None]]:
        """The key facts of an answer, and whether it states each; None if nobody knows."""
        from assay.answers.outcome import stated_facts  # only pages of answers need it

        reference = self.dataset.answers.get(row.query_id) if self.dataset else None
        facts = reference.facts if reference else ()
        stated = {
            fact.text
            for fact in stated_facts(row.answer or "", facts, [row.reference_answer or ""])
        }
        known = {fact.text for fact in facts}
        return [(text, text in stated if text in known else None) for text in row.facts]


def verdict_word(row: AnswerRow) -> str:
    """`right`, `wrong` or `not decided`."""
    return UNDECIDED if row.correct is None else RIGHT if row.correct else WRONG


def kind_of(row: AnswerRow) -> str:
    """What failed, else the verdict."""
    return row.diagnosis.failure if row.diagnosis else verdict_word(row)


def ratings(row: AnswerRow) -> list[tuple[str, float, str]]:
    """How an answer was rated by criteria of the user's own: name, value, reason."""
    return [
        (name.removeprefix(CRITERION_PREFIX), value or 0.0, row.reasons.get(name, ""))
        for name, value in row.scores.items()
        if name.startswith(CRITERION_PREFIX)
    ]


# --- slices of queries ---------------------------------------------------------------------------

WORDS, RELEVANT, TAG = "words", "relevant", "tag"
# Slices of what became of a query in one run.
OUTCOME, DOC_TYPE = OUTCOMES = ("outcome", "type")

_MAX_TAGS = 14
_WORD_STEPS = (1, 2, 3, 5, 8, 12)
_RELEVANT_STEPS = (1, 2, 4, 8, 16, 32, 64)


class Slice(NamedTuple):
    """A group of queries: `kind` is what they have in common, `name` which of them."""

    kind: str
    name: str

    @property
    def title(self) -> str:
        """`1 word`, `8–11 words`, `2–3 relevant`, `tag household`, `type note`."""
        if self.kind == WORDS:
            return f"{self.name} word{'' if self.name == '1' else 's'}"
        titles = {RELEVANT: f"{self.name} relevant", TAG: f"tag {self.name}"}
        return {**titles, DOC_TYPE: f"type {self.name}"}.get(self.kind, self.name)

    @property
    def key(self) -> str:
        """What names a slice in an address."""
        return f"{self.kind}:{self.name}"


def slices_of(row: QueryRow, tags: Iterable[str] = ()) -> Iterator[Slice]:
    """The slices that a query belongs to; the last are what became of it in this run."""
    yield Slice(WORDS, _step(len(row.query_text.split()), _WORD_STEPS))
    yield Slice(RELEVANT, _step(row.total_relevant_docs, _RELEVANT_STEPS))
    for tag in tags:
        yield Slice(TAG, tag)
    if row.failure:
        yield Slice(OUTCOME, f"failed: {row.failure}")
    elif row.total_relevant_docs:
        whole = row.relevant_docs_retrieved >= row.total_relevant_docs
        some = "all found" if whole else "some found"
        yield Slice(OUTCOME, some if row.relevant_docs_retrieved else "nothing found")
    if row.doc_types:
        yield Slice(DOC_TYPE, row.doc_types[0])


def _step(value: int, steps: Sequence[int]) -> str:
    """The step that a value falls in, `3–4`; the last step has no end."""
    place = bisect_right(steps, value)
    if place == 0:
        return f"below {steps[0]}"
    start = steps[place - 1]
    if place == len(steps):
        return f"{start}+"
    return str(start) if steps[place] == start + 1 else f"{start}–{steps[place] - 1}"


def ordered(sizes: Mapping[Slice, int]) -> list[Slice]:
    """Slices in the order to show them; of tags the most frequent, of one kind with one slice none.

    A kind with one slice is the whole run again.
    """
    kinds: dict[str, list[Slice]] = defaultdict(list)
    for found in sizes:
        kinds[found.kind].append(found)
    for kind in (WORDS, RELEVANT):
        kinds[kind].sort(key=lambda found: int(re.findall(r"\d+", found.name)[0]))
    for kind in (TAG, *OUTCOMES):
        kinds[kind].sort(key=lambda found: (-sizes[found], found.name))
    kinds[TAG] = kinds[TAG][:_MAX_TAGS]
    chosen = [kinds[kind] for kind in (WORDS, RELEVANT, TAG, *OUTCOMES)]
    return [found for names in chosen if len(names) > 1 for found in names]


# --- the page of a run ---------------------------------------------------------------------------


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
    # The first row of each kind of failure.
    failed: dict[str, QueryRow] = field(default_factory=dict, init=False)
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
                # A query that was never sent took no time, and 0 would sort as the fastest.
                row.latency_ms if "latency_ms" in row.model_fields_set else None,
                row.at,
                row.failure,
                tuple(slices_of(row, query.tags if query else ())),
            )
        )
        if row.failure:
            self.failed.setdefault(row.failure, row)
        else:
            # A heap: all rows of a large run would take hundreds of megabytes.
            push = heapq.heappush if len(self._worst) < IN_FILE else heapq.heappushpop
            push(self._worst, (-score, -len(self.lines), row))

    @property
    def worst(self) -> list[QueryRow]:
        """The answered queries with the lowest scores, the worst first."""
        return [row for _, _, row in sorted(self._worst, reverse=True)]

    @property
    def slices(self) -> list[tuple[Slice, int]]:
        """The slices of the queries, each with its size."""
        sizes = Counter(found for line in self.lines for found in line.slices)
        return [(found, sizes[found]) for found in ordered(sizes)]

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
        dots = [
            (
                line.at,
                line.latency_ms,
                f"{(line.text or line.query_id)[:80]}: {numbers.duration(line.latency_ms / 1000)}",
                link(line.query_id),
            )
            for line in self.lines
            if line.latency_ms is not None and not line.failure
        ]
        if len(dots) < 5:
            return None
        return charts.latency_dots(sorted(dots, key=lambda dot: -dot[1])[:_MAX_DOTS])


@dataclass(frozen=True)
class RunPage:
    """What the templates of a run read."""

    name: str
    report: Report
    header: RunHeader
    figures: QueryFigures
    docs: JudgedDocuments
    answers: Sequence[AnswerRow] = ()
    server: bool = False  # whether links lead to other pages
    cause: str = ""  # how the first call failed
    searches: Sequence[SearchRow] = ()  # least evidence first
    # The searches for a question, those of the first trial.
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
        kinds = ", ".join(report.failures)
        log, first = StepLog(steps_file(folder.calls_file)), config.trials[0]
        return cls(
            folder.name,
            report,
            folder.read_header(),
            figures,
            JudgedDocuments(config.top_k, config.split, dataset, None if server else EXCERPT),
            list(folder.read_answers()),
            server,
            kinds if config.private else first_failure(folder.calls_file) or kinds,
            sorted(folder.read_searches(), key=lambda row: row.figures.get("evidence_recall", 0.0)),
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
        report = self.report
        has_invalid_ids = any(found.ids for found in report.violations.values())
        applies: dict[str, object] = {
            "overview": True,
            "queries": self.figures.lines,
            "answers": report.answers,
            "searches": report.search,
            "failures": report.failures or has_invalid_ids,
            "settings": True,
        }
        return [(name, name.capitalize()) for name, has_content in applies.items() if has_content]

    def link(self, query_id: str, tab: str = "queries") -> str:
        """Where a query, or the answer to it, is shown; empty in a file that does not show it."""
        if self.server:
            return f"/runs/{self.name}?{urlencode({'tab': tab, 'query': query_id})}#panel"
        rows = self.answers_in_file if tab == "answers" else self.figures.worst
        is_shown = any(row.query_id == query_id for row in rows)
        return f"#{tab[0]}-{anchor(query_id)}" if is_shown else ""

    @cached_property
    def texts(self) -> dict[str, str]:
        """The text of each query and question."""
        asked = {line.query_id: line.text for line in self.figures.lines}
        return asked | {row.query_id: row.query_text for row in self.answers}

    @property
    def settings(self) -> tuple[dict[str, str], dict[str, str]]:
        """What the run was made with, and the settings that were left at their defaults."""
        usual = shown_settings(RunConfig(target=""))
        every = {name: text for name, text in described(self.header, self.report).items() if text}
        defaults = {name: text for name, text in every.items() if usual.get(name) == text}
        return {name: text for name, text in every.items() if name not in defaults}, defaults

    @cached_property
    def kinds(self) -> dict[str, int]:
        """How many answers ended how: what failed first, then undecided, then right."""
        counts = Counter(kind_of(row) for row in self.answers)
        last = {UNDECIDED: 1, RIGHT: 2}
        names = sorted(counts, key=lambda kind: (last.get(kind, 0), -counts[kind], kind))
        return {kind: counts[kind] for kind in names}

    @cached_property
    def answers_in_file(self) -> list[AnswerRow]:
        """As many of each kind, so that every kind is among those that a file shows."""
        room = max(2, IN_FILE // max(1, len(self.kinds)))
        return [
            row
            for kind in self.kinds
            for row in [row for row in self.answers if kind_of(row) == kind][:room]
        ]


def render_run(
    folder: RunFolder, dataset: Dataset | None, figures: QueryFigures | None = None
) -> str:
    """The page of a run as one file. Without `dataset` it has no grades, titles and texts."""
    page = RunPage.read(folder, dataset, figures=figures)
    return render_page("run_file.html", run=page, title=page.title)


def command_of(config: RunConfig) -> str:
    """The command that makes a run again, every setting spelled out, without passwords."""
    command = ["assay", "eval", config.target]
    for flag, value in arguments(config):
        command += [flag] if value is None else [flag, value]
    return shlex.join(command)


def shown_settings(config: RunConfig) -> dict[str, str]:
    """Every setting of a run as text, by its name."""
    shown = {}
    for name, setting in settings().items():
        value = getattr(config, name)
        text = "not set" if value is None else setting.format(value).replace("\n", ", ")
        if isinstance(value, bool):
            text = "yes" if value else "no"
        shown[name] = text or "none"
    return shown


def described(header: RunHeader, report: Report) -> dict[str, str]:
    """What a run was made with, as text by name: target, data, code, settings, versions."""
    git, dataset = header.repository, report.dataset
    commit = f"{git.commit or ''}{', with changes' if git.dirty else ''}"
    return {
        "target": report.target.title,
        "agent": report.target.agent or "",
        "protocol": " ".join(filter(None, (report.target.protocol, report.target.details))),
        "data set": f"{dataset.name} {dataset.split}",
        "documents": numbers.count(dataset.documents),
        "fingerprint": dataset.fingerprint,
        "branch": git.branch or "",
        "commit": commit,
        "embedder": header.embedder or "",
        **{f"retriever {key}": str(value) for key, value in (header.retriever or {}).items()},
        **shown_settings(report.config),
        **report.versions,
    }
