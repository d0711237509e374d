"""People grade pooled documents: pools, the page to grade at, agreement, what was graded.

A pool is a table in `pools` under the folder of runs, as `assay judge pool` writes it, with a
journal of the grades beside it. A table with grades in its column `label` counts as one grader.
"""

import asyncio
import hashlib
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route

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
    label_rows,
    write_pool,
)
from assay.run.folder import RunFolder
from assay.run.listing import RunLine
from assay.serve.ui.context import RecentlyUsed, Ui, download, ui_of

MEANINGS = ("has nothing to do with it", "on its subject", "answers it in part", "the whole answer")
_GRADER = "assay_grader"  # a cookie with the name that somebody graded under last
_DEFAULT_GRADER = "me"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_MAX_DEPTH = 100
_MAX_PAIRS = 50_000
_MAX_SHOWN = 50


def grade_routes() -> list[BaseRoute]:
    """The pools, the page of each, the page to grade at, and what was graded as files."""
    return [
        Route("/grade", pools_page),
        Route("/grade/{pool}", pool_page),
        Route("/grade/{pool}/grade", grade_page, methods=["GET"]),
        Route("/grade/{pool}/grade", save_grade, methods=["POST"]),
        Route("/grade/{pool}/labels.qrels", qrels_file),
        Route("/grade/{pool}/table.csv", table_file),
    ]


class Pools:
    """The pools of a folder of runs; those that were graded last are kept open."""

    def __init__(self, runs: Path) -> None:
        self.folder = runs / "pools"
        self._open = RecentlyUsed[GradedPool](8)

    def path(self, name: str) -> Path:
        """The table of a pool."""
        return self.folder / f"{name}.csv"

    def open(self, name: str) -> GradedPool | None:
        """The pool of that name, read again if its table has changed; None if there is none."""
        path = self.path(name)
        if not _NAME.fullmatch(name) or not path.is_file():
            return None
        return self._open.get((name, path.stat().st_mtime_ns), lambda: GradedPool(path))

    def lines(self) -> list[dict[str, Any]]:
        """Every pool by name, with its size and graders, or why it cannot be read."""
        found: list[dict[str, Any]] = []
        for name in sorted(path.stem for path in self.folder.glob("*.csv")):
            try:
                if (pool := self.open(name)) is None:
                    continue
                graders = {grader: len(labels) for grader, labels in pool.grades().items()}
            except AssayError as error:
                found.append({"name": name, "problem": str(error)})
                continue
            queries = len({pair.query_id for pair in pool.pairs})
            size = {"documents": len(pool.pairs), "queries": queries}
            found.append({"name": name, "problem": "", "graders": graders, **size})
        return found


async def pools_page(request: Request) -> Response:
    """The pools."""
    pools = _pools(request)
    lines = await asyncio.to_thread(pools.lines)
    return ui_of(request).page(request, "pools.html", pools=lines, folder=pools.folder)


async def grade_runs(request: Request, lines: Sequence[RunLine], query: str = "") -> Response:
    """Open the pool of what these runs returned and nobody judged; it is made the first time.

    With `query` it is opened at that query.
    """
    ui, pools = ui_of(request), _pools(request)
    if ui.read_only:
        raise HTTPException(403, "these pages are read-only: nothing can be graded here")
    if len({line.fingerprint for line in lines}) > 1:
        raise UsageError("these runs are on different data; choose runs on one data set")
    # The same runs have the same pool, so that people continue where they stopped.
    digest = hashlib.sha256("\n".join(sorted(line.name for line in lines)).encode()).hexdigest()
    title = re.sub(r"[^A-Za-z0-9]+", "-", lines[0].label or lines[0].target or "").strip("-")
    name = f"{title[:40] or 'pool'}-{digest[:8]}"
    if not pools.path(name).exists():
        pairs = await _unjudged_pairs(ui, lines)
        await asyncio.to_thread(write_pool, pools.path(name), pairs)
    pool = await asyncio.to_thread(pools.open, name)
    places = [str(at) for at, pair in enumerate(pool.pairs if pool else ()) if pair[0] == query]
    fields = {"grader": request.cookies.get(_GRADER) or _DEFAULT_GRADER}
    fields |= {"at": places[0]} if places else {}
    return RedirectResponse(f"/grade/{name}/grade?{urlencode(fields)}", 303)


async def _unjudged_pairs(ui: Ui, lines: Sequence[RunLine]) -> Sequence[PassagePair]:
    folders = [RunFolder(ui.runs / line.name) for line in lines]
    headers = [folder.read_header() for folder in folders]
    dataset = await ui.dataset(*headers)
    if dataset is None:
        raise UsageError(
            f"the texts of run {lines[0].name!r} are not on this machine, or a run is private"
        )
    depth = min(_MAX_DEPTH, max(line.top_k or 1 for line in lines))

    def collect() -> Sequence[PassagePair]:
        rankings = [
            {row.query_id: row.retrieved_docs[:depth] for row in folder.read_rows()}
            for folder in folders
        ]
        people = dataset.judgments.get(headers[0].config.split, {})
        return choose_pairs(rankings, dataset, people, depth=depth, check=0, texts=False).pairs

    pairs = await asyncio.to_thread(collect)
    if not pairs:
        raise UsageError("every document that these runs return is already judged")
    if len(pairs) > _MAX_PAIRS:
        raise UsageError(f"{len(pairs):,} documents are too many to grade; choose fewer runs")
    return pairs


async def pool_page(request: Request) -> Response:
    """How far each grader is, how far they agree, and where they differ."""
    ui, pool = ui_of(request), await _pool(request)
    grades = await asyncio.to_thread(pool.grades)
    differing = []  # documents with different grades, those that are furthest apart first
    for place, pair in enumerate(pool.pairs):
        each = [labels.get(pair.name) for labels in grades.values()]
        given = [grade for grade in each if grade is not None]
        if len(set(given)) > 1:
            differing.append((min(given) - max(given), place, pair, each))
    return ui.page(
        request,
        "pool.html",
        name=request.path_params["pool"],
        total=len(pool.pairs),
        graders={grader: len(found) for grader, found in grades.items()},
        agreement=await asyncio.to_thread(pool.agreement),
        differences=[(pair, each) for _, _, pair, each in sorted(differing)[:_MAX_SHOWN]],
    )


async def grade_page(request: Request) -> Response:
    """One document with its query and the buttons; the next one without a grade by default."""
    ui, pool = ui_of(request), await _pool(request)
    name, grader = request.path_params["pool"], request.query_params.get("grader", "").strip()
    check_grader(grader)
    at = request.query_params.get("at", "")
    grades = await asyncio.to_thread(pool.grades_of, grader)
    last, is_place = len(pool.pairs) - 1, at.isdecimal() and len(at) < 9
    place = min(int(at), last) if is_place else pool.next_ungraded(grader)
    pair = None if place is None else pool.pairs[place]
    address = f"/grade/{name}/grade"
    answer = ui.page(
        request,
        "grade.html",
        name=name,
        grader=grader,
        target=address,
        graded=len(grades),
        total=len(pool.pairs),
        scale=list(zip(GRADES, MEANINGS, strict=True)),
        link=lambda to: f"{address}?{urlencode({'grader': grader, 'at': to})}",
        place=place,
        pair=pair,
        # The title is shown above the passage, which begins with it.
        text=pair.passage[:MAX_PASSAGE].strip().removeprefix(pair.title).strip() if pair else "",
        grade=grades.get(pair.name) if pair else None,
        previous=last if place is None else place - 1 if place else None,
        next=place + 1 if place is not None and place < last else None,
    )
    answer.set_cookie(_GRADER, grader, httponly=True, samesite="lax")
    return answer


async def save_grade(request: Request) -> Response:
    """Save one grade; then the next document."""
    ui, pool = ui_of(request), await _pool(request)
    given = await ui.form(request)
    grader = given.get("grader", "").strip()
    check_grader(grader)
    name, grade = (given.get("query_id", ""), given.get("doc_id", "")), given.get("grade", "")
    if grade not in map(str, GRADES):
        raise UsageError(f"a grade is one of {', '.join(map(str, GRADES))}, got {grade[:20]!r}")
    await asyncio.to_thread(pool.save, grader, name, int(grade))
    place = await asyncio.to_thread(pool.next_ungraded, grader, pool.place[name])
    fields = {"grader": grader} | ({} if place is None else {"at": str(place)})
    return RedirectResponse(f"/grade/{request.path_params['pool']}/grade?{urlencode(fields)}", 303)


async def table_file(request: Request) -> Response:
    """The table as one person filled it in."""
    pool, grader = await _pool(request), request.query_params.get("grader", "")
    check_grader(grader)
    content = await asyncio.to_thread(pool.table, grader)
    return download(content, f"{request.path_params['pool']}-{grader}.csv", "text/csv")


async def qrels_file(request: Request) -> Response:
    """The judgments that the graders make together."""
    pool = await _pool(request)
    grades = await asyncio.to_thread(pool.grades)
    content = trec_qrels(label_rows(combine_labels(list(grades.values()))))
    return download(content, f"{request.path_params['pool']}.qrels", "text/plain")


async def _pool(request: Request) -> GradedPool:
    name, pools = request.path_params["pool"], _pools(request)
    pool = await asyncio.to_thread(pools.open, name)
    if pool is None:
        raise HTTPException(404, f"no pool {name[:80]!r} in {pools.folder}")
    return pool


def _pools(request: Request) -> Pools:
    pools = request.app.state.pools
    assert isinstance(pools, Pools)
    return pools
