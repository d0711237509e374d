"""People grade pooled documents: pools, the page to grade at, agreement, what was graded.

A pool is a table in `pools` under the folder of runs, as `assay judge pool` writes it, with a
journal of the grades beside it. A table with grades in its column `label` counts as one grader.
"""

import asyncio
import hashlib
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from assay.data.qrels import trec_qrels
from assay.errors import AssayError, UsageError
from assay.labels.pool import (
    GRADES,
    MAX_PASSAGE,
    GradedPool,
    PassagePair,
    check_grader,
    choose_pairs,
    combine_labels,
    write_pool,
)
from assay.run.folder import RunFolder
from assay.run.listing import RunLine
from assay.serve.ui.context import Ui, download, forbid_change, posted, ui_of

MEANINGS = ("has nothing to do with it", "on its subject", "answers it in part", "the whole answer")
_GRADER = "assay_grader"  # a cookie with the name that somebody graded under last
_DEFAULT_GRADER = "me"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_MAX_DEPTH = 100
# A person grades some hundreds an hour, and the whole table is in memory while a page is open.
_MAX_PAIRS = 50_000
_MAX_SHOWN = 50


def pools_page(request: Request) -> Response:
    """The pools with their size and graders, or why one cannot be read."""
    ui, found = ui_of(request), dict[str, Any]()
    for name in sorted(path.stem for path in (ui.runs / "pools").glob("*.csv")):
        if not _NAME.fullmatch(name):
            continue
        try:
            pool = _open(ui, name)
            grades = pool.grades()
        except AssayError as error:
            found[name] = str(error)
            continue
        found[name] = {
            "documents": len(pool.pairs),
            "queries": len({pair.query_id for pair in pool.pairs}),
            "graders": {grader: len(labels) for grader, labels in grades.items()},
        }
    return ui.page(request, "pools.html", pools=found, folder=ui.runs / "pools")


def _path(ui: Ui, name: str) -> Path:
    return ui.runs / "pools" / f"{name}.csv"


def _open(ui: Ui, name: str) -> GradedPool:
    """The pool of that name, read again if its table has changed; answers 404 if there is none."""
    path = _path(ui, name)
    if not _NAME.fullmatch(name) or not path.is_file():
        raise HTTPException(404, f"no pool {name[:80]!r} in {path.parent}")
    return ui.recent.get((path, path.stat().st_mtime_ns), lambda: GradedPool(path))


def grade_runs(request: Request, lines: Sequence[RunLine], query: str = "") -> Response:
    """Open the pool of what these runs returned and nobody judged; it is made the first time.

    With `query` it is opened at that query.
    """
    ui = ui_of(request)
    if ui.read_only:
        forbid_change(request)
    if len({line.fingerprint for line in lines}) > 1:
        raise UsageError("these runs are on different data; choose runs on one data set")
    # The same runs have the same pool, so that people continue where they stopped.
    digest = hashlib.sha256("\n".join(sorted(line.name for line in lines)).encode()).hexdigest()
    title = re.sub(r"[^A-Za-z0-9]+", "-", lines[0].label or lines[0].target or "").strip("-")
    name = f"{title[:40] or 'pool'}-{digest[:8]}"
    if not _path(ui, name).exists():
        write_pool(_path(ui, name), _unjudged_pairs(ui, lines))
    pool = _open(ui, name)
    places = [str(at) for at, pair in enumerate(pool.pairs) if pair[0] == query]
    fields = {"grader": request.cookies.get(_GRADER) or _DEFAULT_GRADER}
    fields |= {"at": places[0]} if places else {}
    return RedirectResponse(f"/grade/{name}/grade?{urlencode(fields)}", 303)


def _unjudged_pairs(ui: Ui, lines: Sequence[RunLine]) -> Sequence[PassagePair]:
    folders = [RunFolder(ui.runs / line.name) for line in lines]
    headers = [folder.read_header() for folder in folders]
    dataset = ui.dataset(*headers)
    if dataset is None:
        raise UsageError(
            f"the texts of run {lines[0].name!r} are not on this machine, or a run is private"
        )
    depth = min(_MAX_DEPTH, max(line.top_k or 1 for line in lines))
    rankings = [
        {row.query_id: row.retrieved_docs[:depth] for row in folder.read_rows()}
        for folder in folders
    ]
    people = dataset.judgments.get(headers[0].config.split, {})
    pairs = choose_pairs(rankings, dataset, people, depth=depth, check=0, texts=False).pairs
    if not pairs:
        raise UsageError("every document that these runs return is already judged")
    if len(pairs) > _MAX_PAIRS:
        raise UsageError(f"{len(pairs):,} documents are too many to grade; choose fewer runs")
    return pairs


def pool_page(request: Request) -> Response:
    """How far each grader is, how far they agree, where they differ, and their comments."""
    ui, pool = ui_of(request), _pool(request)
    grades, comments = pool.grades(), pool.comments()
    remarks = []  # documents with comments, then those whose grades are furthest apart
    for place, pair in enumerate(pool.pairs):
        given = [labels.get(pair.name) for labels in grades.values()]
        known = [grade for grade in given if grade is not None]
        said = {g: found[pair.name] for g, found in comments.items() if found.get(pair.name)}
        if said or len(set(known)) > 1:
            order = (not said, min(known) - max(known), place)
            remarks.append((order, (pair, given, said)))
    remarks.sort(key=lambda remark: remark[0])
    return ui.page(
        request,
        "pool.html",
        name=request.path_params["pool"],
        total=len(pool.pairs),
        grader=request.cookies.get(_GRADER, ""),
        graders={grader: len(found) for grader, found in grades.items()},
        agreement=pool.agreement(),
        remarks=[remark for _, remark in remarks[:_MAX_SHOWN]],
    )


def grade_page(request: Request) -> Response:
    """One document with its query and the buttons; the next one without a grade by default."""
    ui, pool = ui_of(request), _pool(request)
    name, grader = request.path_params["pool"], request.query_params.get("grader", "").strip()
    check_grader(grader)
    at = request.query_params.get("at", "")
    grades = pool.grades_of(grader)
    last, is_place = len(pool.pairs) - 1, at.isdecimal() and len(at) < 9
    place = min(int(at), last) if is_place else pool.next_ungraded(grader)
    pair = None if place is None else pool.pairs[place]
    comments = pool.comments().get(grader, {})
    address = f"/grade/{name}/grade"

    def link(to: int | None) -> str:
        query = {"grader": grader} | ({} if to is None else {"at": str(to)})
        return f"{address}?{urlencode(query)}"

    answer = ui.page(
        request,
        "grade.html",
        name=name,
        grader=grader,
        target=address,
        graded=len(grades),
        total=len(pool.pairs),
        scale=list(zip(GRADES, MEANINGS, strict=True)),
        place=place,
        pair=pair,
        # The title is shown above the passage, which begins with it.
        text=pair.passage[:MAX_PASSAGE].strip().removeprefix(pair.title).strip() if pair else "",
        grade=grades.get(pair.name) if pair else None,
        comment=comments.get(pair.name, "") if pair else "",
        links=[
            ("k", "Previous", "" if place == 0 else link(last if place is None else place - 1)),
            ("j", "Next", "" if place is None or place == last else link(place + 1)),
            ("n", "Next without a grade", link(None) if pair else ""),
        ],
    )
    answer.set_cookie(_GRADER, grader, httponly=True, samesite="lax")
    return answer


async def save_grade(request: Request) -> Response:
    """Save one grade; then the next document."""
    return await asyncio.to_thread(_save, request, dict(await posted(request)))


def _save(request: Request, given: Mapping[str, str]) -> Response:
    pool = _pool(request)
    grader = given.get("grader", "").strip()
    check_grader(grader)
    name, grade = (given.get("query_id", ""), given.get("doc_id", "")), given.get("grade", "")
    if grade not in map(str, GRADES):
        raise UsageError(f"a grade is one of {', '.join(map(str, GRADES))}, got {grade[:20]!r}")
    comment = given.get("comment", "").strip()
    pool.save(grader, name, int(grade), comment)
    place = pool.next_ungraded(grader, pool.place[name])
    fields = {"grader": grader} | ({} if place is None else {"at": str(place)})
    return RedirectResponse(f"/grade/{request.path_params['pool']}/grade?{urlencode(fields)}", 303)


def table_file(request: Request) -> Response:
    """The table as one person filled it in."""
    pool, grader = _pool(request), request.query_params.get("grader", "")
    check_grader(grader)
    return download(pool.table(grader), f"{request.path_params['pool']}-{grader}.csv", "text/csv")


def qrels_file(request: Request) -> Response:
    """The judgments that the graders make together."""
    grades = _pool(request).grades()
    labels = combine_labels(list(grades.values()))
    content = trec_qrels((query, "0", doc, grade) for (query, doc), grade in labels.items())
    return download(content, f"{request.path_params['pool']}.qrels", "text/plain")


def _pool(request: Request) -> GradedPool:
    return _open(ui_of(request), request.path_params["pool"])
