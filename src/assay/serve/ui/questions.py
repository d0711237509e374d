"""Every question of a run whose answers were evaluated: in pages, by diagnosis, and one by one."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from assay.evaluation.run_folder import RunFolder
from assay.report.html_questions import RIGHT, UNDECIDED, WRONG, QuestionPainter, verdict_of
from assay.serve.ui.context import slice_of, ui_of

FILTERS = ("verdict", "diagnosis", "half", "text")

Row = dict[str, Any]


def question_routes() -> list[BaseRoute]:
    return [
        Route("/runs/{name}/questions", questions),
        Route("/runs/{name}/questions/{query_id:path}", question),
    ]


async def questions(request: Request) -> Response:
    ui = ui_of(request)
    line, folder = await ui.run(request)
    _require_answers(folder)
    asked = {name: request.query_params.get(name, "") for name in FILTERS}
    rows = [_summary(row) for row in await asyncio.to_thread(_rows, folder)]
    chosen = [row for row in rows if _matches(row, asked)]
    pages = slice_of(request, len(chosen))
    return ui.page(
        request,
        "questions.html",
        line=line,
        rows=chosen[pages.skip : pages.last],
        pages=pages,
        asked=asked,
        choices=_choices(rows),
    )


async def question(request: Request) -> Response:
    ui = ui_of(request)
    line, folder = await ui.run(request)
    _require_answers(folder)
    wanted = request.path_params["query_id"]
    rows = await asyncio.to_thread(_rows, folder)
    row = next((each for each in rows if each["query_id"] == wanted), None)
    if row is None:
        raise HTTPException(404, f"run {folder.name!r} has no question {wanted!r}")
    head = await asyncio.to_thread(folder.read_head)
    dataset = await ui.datasets.of(folder.read_header())
    painter = QuestionPainter(line["top_k"], line["split"], dataset)
    return ui.page(
        request,
        "question.html",
        line=line,
        question=painter.paint(row),
        graded=dataset is not None,
        metrics={name: row[name] for name in head["answers"]["statistics"] if name in row},
        ranked=row["answerable"],
    )


def _require_answers(folder: RunFolder) -> None:
    if not folder.answers.exists():
        raise HTTPException(404, f"the answers of run {folder.name!r} were not evaluated")


def _rows(folder: RunFolder) -> list[Row]:
    return list(folder.read_answers())


def _summary(row: Row) -> Row:
    diagnosis = row.get("diagnosis") or {}
    return {
        "query_id": row["query_id"],
        "text": row["query_text"],
        "verdict": verdict_of(row),
        "diagnosis": diagnosis.get("failure", ""),
        "half": diagnosis.get("half", ""),
        "settled": diagnosis.get("settled", True),
        "answer": row["answer"],
    }


def _matches(row: Row, asked: Mapping[str, str]) -> bool:
    if any(asked[name] and row[name] != asked[name] for name in ("verdict", "diagnosis", "half")):
        return False
    words = f"{row['query_id']} {row['text']} {row['answer'] or ''}"
    return asked["text"].lower() in words.lower()


def _choices(rows: Sequence[Row]) -> dict[str, list[tuple[str, int]]]:
    """The values that each filter can have, and how many questions have them."""
    verdicts = [row["verdict"] for row in rows]
    choices = {"verdict": [(v, verdicts.count(v)) for v in (RIGHT, WRONG, UNDECIDED)]}
    for name in ("diagnosis", "half"):
        values = [row[name] for row in rows if row[name]]
        choices[name] = sorted((value, values.count(value)) for value in set(values))
    return {name: [each for each in found if each[1]] for name, found in choices.items()}
