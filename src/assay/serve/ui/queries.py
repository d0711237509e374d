"""The queries and the questions of a run: lists in pages, and a page for each."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from assay.data.dataset import Dataset
from assay.metrics.metric import Metric, parse_metric
from assay.report.html_queries import (
    JudgedDocuments,
    ordered_slices,
    query_view,
    slice_key,
    slices_of,
    timed_latency,
)
from assay.report.html_questions import RIGHT, UNDECIDED, WRONG, question_view, verdict_word
from assay.report.slice_page import render_slice_page
from assay.run.folder import RunFolder
from assay.run.index import RunLine
from assay.run.judge_log import read_judge_calls
from assay.run.models import AnswerRow, QueryRow
from assay.serve.ui.context import Ui, download, slice_of, ui_of
from assay.serve.ui.runs import require_report
from assay.serve.ui.search import explain_link


@dataclass(frozen=True, slots=True)
class QueryLine:
    """A query as one line of the list."""

    query_id: str
    text: str
    score: float
    found: int
    relevant: int
    latency_ms: float | None
    failure: str
    slices: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class QuestionLine:
    """A question as one line of the list; `settled` where its diagnosis is not a guess."""

    query_id: str
    text: str
    verdict: str
    diagnosis: str
    half: str
    settled: bool
    answer: str | None


@dataclass(frozen=True, slots=True)
class QueryFilter:
    """Which queries are listed, in which order."""

    order: str
    only: str
    text: str
    slice: str = ""

    @property
    def words(self) -> str:
        """Which queries these are, for a title."""
        text = f"“{self.text}”" if self.text else ""
        return ", ".join(filter(None, (self.slice, self.only, text)))

    def matches(self, line: QueryLine) -> bool:
        """Whether a query is listed."""
        if self.only == "failed" and not line.failure:
            return False
        if self.only == "nothing found" and line.found:
            return False
        return self.matches_words(line)

    def matches_words(self, line: QueryLine) -> bool:
        """Whether a query has the text and is in the slice."""
        if self.slice and self.slice not in line.slices:
            return False
        return self.text.lower() in f"{line.query_id} {line.text}".lower()

    def choose(self, lines: Iterable[QueryLine]) -> list[QueryLine]:
        """Those that are listed, in their order."""
        chosen = [each for each in lines if self.matches(each)]
        return sorted(chosen, key=ORDERS.get(self.order, ORDERS["plan"])[1])


@dataclass(frozen=True, slots=True)
class QuestionFilter:
    """Which questions are listed; an empty string matches all."""

    verdict: str
    diagnosis: str
    half: str
    text: str

    def matches(self, line: QuestionLine) -> bool:
        """Whether a question is listed."""
        pairs = (
            (self.verdict, line.verdict),
            (self.diagnosis, line.diagnosis),
            (self.half, line.half),
        )
        if any(asked and asked != value for asked, value in pairs):
            return False
        return self.text.lower() in f"{line.query_id} {line.text} {line.answer or ''}".lower()

    @property
    def is_empty(self) -> bool:
        """Whether every question is listed."""
        return not (self.verdict or self.diagnosis or self.half or self.text)


ORDERS: Mapping[str, tuple[str, Callable[[QueryLine], float]]] = {
    "plan": ("as asked", lambda line: 0.0),
    "worst": ("worst first", lambda line: line.score),
    "best": ("best first", lambda line: -line.score),
    "slowest": ("slowest first", lambda line: -(line.latency_ms or 0.0)),
}


def query_routes() -> list[BaseRoute]:
    """Lists and pages of queries, and of questions where answers were evaluated."""
    return [
        Route("/runs/{name}/queries", queries_page),
        Route("/runs/{name}/queries.html", queries_file),
        Route("/runs/{name}/queries/{query_id:path}", query_page),
        Route("/runs/{name}/questions", questions_page),
        Route("/runs/{name}/questions/{query_id:path}", question_page),
    ]


async def queries_page(request: Request) -> Response:
    """The queries of a run, filtered, ordered and in pages."""
    ui = ui_of(request)
    line, folder, dataset = await _run_with_report(request, ui)
    asked = _asked(request)
    lines = await asyncio.to_thread(_query_lines, folder, dataset)
    chosen = asked.choose(lines)
    pages = slice_of(request, len(chosen))
    return ui.page(
        request,
        "queries.html",
        line=line,
        rows=chosen[pages.skip : pages.last],
        pages=pages,
        orders={name: words for name, (words, _) in ORDERS.items()},
        slices=slice_choices(each.slices for each in lines),
        asked=asked,
        query=request.url.query,
    )


async def queries_file(request: Request) -> Response:
    """The same queries as one file, with what was retrieved for each."""
    _, folder, dataset = await _run_with_report(request, ui_of(request))
    asked = _asked(request)

    def render() -> str:
        chosen = asked.choose(_query_lines(folder, dataset))
        places = {each.query_id: place for place, each in enumerate(chosen)}
        rows = [row for row in folder.read_rows() if row.query_id in places]
        rows.sort(key=lambda row: places[row.query_id])
        return render_slice_page(folder, rows, dataset, asked.words or "All queries")

    return download(await asyncio.to_thread(render), f"{folder.name}-queries.html")


async def _run_with_report(request: Request, ui: Ui) -> tuple[RunLine, RunFolder, Dataset | None]:
    line, folder = await ui.run(request)
    require_report(folder)
    return line, folder, await ui.datasets.of(folder.read_header())


def _asked(request: Request) -> QueryFilter:
    names = ("order", "only", "text", "slice")
    return QueryFilter(*(request.query_params.get(name, "") for name in names))


async def query_page(request: Request) -> Response:
    """One query: its scores, what was retrieved and what would have been ideal."""
    ui = ui_of(request)
    line, folder = await ui.run(request)
    require_report(folder)
    query_id = request.path_params["query_id"]
    row = await asyncio.to_thread(folder.find_row, query_id)
    if row is None:
        raise HTTPException(404, f"run {folder.name!r} has no query {query_id!r}")
    header = folder.read_header()
    dataset = await ui.datasets.of(header)
    report = await asyncio.to_thread(folder.read_report)
    metrics = [parse_metric(name) for name in report.statistics]
    judged = JudgedDocuments.of(report.config, dataset)
    return ui.page(
        request,
        "query.html",
        line=line,
        query=query_view(row, metrics[0], judged),
        graded=dataset is not None,
        metrics={str(metric): row.score(metric) for metric in metrics},
        answered=folder.answers_file.exists(),
        why=explain_link(request, header, row.query_text),
    )


async def questions_page(request: Request) -> Response:
    """The questions of a run, filtered and in pages."""
    ui = ui_of(request)
    line, folder = await ui.run(request)
    _require_answers(folder)
    names = ("verdict", "diagnosis", "half", "text")
    asked = QuestionFilter(*(request.query_params.get(name, "") for name in names))
    lines = await asyncio.to_thread(_question_lines, folder)
    chosen = [each for each in lines if asked.matches(each)]
    pages = slice_of(request, len(chosen))
    return ui.page(
        request,
        "questions.html",
        line=line,
        rows=chosen[pages.skip : pages.last],
        pages=pages,
        asked=asked,
        choices=_choices(lines),
    )


async def question_page(request: Request) -> Response:
    """One question: the answer, the reference and the evidence for the verdict."""
    ui = ui_of(request)
    line, folder = await ui.run(request)
    _require_answers(folder)
    query_id = request.path_params["query_id"]
    row = await asyncio.to_thread(_find_answer, folder, query_id)
    if row is None:
        raise HTTPException(404, f"run {folder.name!r} has no question {query_id!r}")
    report = await asyncio.to_thread(folder.read_report)
    dataset = await ui.datasets.of(folder.read_header())
    names = report.answers.statistics if report.answers else {}
    return ui.page(
        request,
        "question.html",
        line=line,
        question=question_view(row, JudgedDocuments.of(report.config, dataset)),
        graded=dataset is not None,
        metrics={name: row.score(name) for name in names if name in row.scores},
        ranked=row.answerable,
        judge_calls=await asyncio.to_thread(lambda: list(read_judge_calls(folder.path, query_id))),
    )


def _query_lines(folder: RunFolder, dataset: Dataset | None) -> list[QueryLine]:
    metric, _ = folder.read_report().headline
    queries = dataset.queries if dataset else {}
    return [
        _query_line(row, metric, queries[row.query_id].tags if row.query_id in queries else ())
        for row in folder.read_rows()
    ]


def slice_choices(slices: Iterable[frozenset[str]]) -> list[tuple[str, int]]:
    """The slices that queries can be filtered by, with their sizes."""
    sizes = Counter(each for own in slices for each in own)
    by_title: dict[str, dict[str, int]] = {}
    for key, number in sizes.items():
        title, _, name = key.partition(": ")
        by_title.setdefault(title, {})[name] = number
    return [
        (slice_key(title, name), by_title[title][name])
        for title, names in ordered_slices(by_title).items()
        for name in names
    ]


def _query_line(row: QueryRow, metric: Metric, tags: Sequence[str]) -> QueryLine:
    return QueryLine(
        query_id=row.query_id,
        text=row.query_text,
        score=row.score(metric),
        found=row.relevant_docs_retrieved,
        relevant=row.total_relevant_docs,
        latency_ms=timed_latency(row),
        failure=row.failure,
        slices=frozenset(slice_key(title, name) for title, name in slices_of(row, tags)),
    )


def _require_answers(folder: RunFolder) -> None:
    if not folder.answers_file.exists():
        raise HTTPException(404, f"the answers of run {folder.name!r} were not evaluated")


def _question_lines(folder: RunFolder) -> list[QuestionLine]:
    return [_question_line(row) for row in folder.read_answers()]


def _question_line(row: AnswerRow) -> QuestionLine:
    diagnosis = row.diagnosis
    return QuestionLine(
        query_id=row.query_id,
        text=row.query_text,
        verdict=verdict_word(row),
        diagnosis=diagnosis.failure if diagnosis else "",
        half=(diagnosis.half or "") if diagnosis else "",
        settled=diagnosis.settled if diagnosis else True,
        answer=row.answer,
    )


def _find_answer(folder: RunFolder, query_id: str) -> AnswerRow | None:
    return next((row for row in folder.read_answers() if row.query_id == query_id), None)


def _choices(lines: Sequence[QuestionLine]) -> dict[str, list[tuple[str, int]]]:
    """The values that each filter can have, and how many questions have them."""
    verdicts = Counter(line.verdict for line in lines)
    return {
        "verdict": [(each, verdicts[each]) for each in (RIGHT, WRONG, UNDECIDED) if verdicts[each]],
        "diagnosis": sorted(Counter(line.diagnosis for line in lines if line.diagnosis).items()),
        "half": sorted(Counter(line.half for line in lines if line.half).items()),
    }
