"""People grade pooled documents: pools, the page to grade at, agreement, tables in and out.

A pool is a table in `pools` under the folder of runs, as `assay judge pool` writes it, with a
journal of the grades beside it.
"""

import asyncio
import hashlib
import re
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from email.message import Message
from email.parser import BytesParser
from pathlib import Path
from threading import Lock
from urllib.parse import urlencode

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from assay.data.qrels import trec_qrels
from assay.errors import AssayError, UsageError
from assay.files import staging_folder
from assay.labels.pool import (
    GRADES,
    MAX_PASSAGE,
    GradedPool,
    PairName,
    PassagePair,
    check_grade,
    check_grader,
    choose_pairs,
    combine_labels,
    label_rows,
    read_pool,
    write_pool,
)
from assay.run.folder import RunFolder
from assay.serve.ui.context import Ui, download, ui_of

UPLOAD_PATH = "/grade/import"
UPLOAD_LIMIT = 32 * 1024 * 1024
MEANINGS = ("has nothing to do with it", "on its subject", "answers it in part", "the whole answer")
_FOLDER = "pools"
_GRADER = "assay_grader"  # a cookie with the name that somebody graded under last
_DEFAULT_GRADER = "me"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_DEPTH = 100
_MAX_PAIRS = 50_000
_OPEN = 8
_DIFFERENCES = 50
_MAX_COMMENT = 1000
_PARTS, _PART_HEAD = 16, 4096


def grade_routes() -> list[BaseRoute]:
    """The pools, the page of each, the page to grade at, and what comes in and goes out."""
    return [
        Route("/judge", lambda request: RedirectResponse("/grade", 308)),
        Route("/judge/{rest:path}", _moved),
        Route("/grade", pools_page),
        Route(UPLOAD_PATH, import_table, methods=["POST"]),
        Route("/grade/{pool}", pool_page),
        Route("/grade/{pool}/grade", grade_page, methods=["GET"]),
        Route("/grade/{pool}/grade", save_grade, methods=["POST"]),
        Route("/grade/{pool}/labels.qrels", qrels_file),
        Route("/grade/{pool}/table.csv", table_file),
    ]


async def _moved(request: Request) -> Response:
    query = f"?{request.url.query}" if request.url.query else ""
    return RedirectResponse(f"/grade/{request.path_params['rest']}{query}", 308)


@dataclass(frozen=True, slots=True)
class PoolLine:
    """A pool as one line of the list; `problem` where it cannot be read."""

    name: str
    documents: int = 0
    queries: int = 0
    graders: Mapping[str, int] | None = None
    problem: str = ""


@dataclass(frozen=True, slots=True)
class GradedDocument:
    """A document as a grader sees it; `grade` is the one that was given before."""

    place: int
    pair: PassagePair
    grade: int | None

    @classmethod
    def at(cls, pool: GradedPool, place: int, grades: Mapping[PairName, int]) -> "GradedDocument":
        return cls(place, pool.pairs[place], grades.get(pool.name(place)))

    @property
    def text(self) -> str:
        """The passage without its title, which is shown above it."""
        return self.pair.passage[:MAX_PASSAGE].strip().removeprefix(self.pair.title).strip()


class Pools:
    """The pools of a folder of runs; those that were graded last are kept open."""

    def __init__(self, runs: Path) -> None:
        self.folder = runs / _FOLDER
        self._open: OrderedDict[tuple[str, int], GradedPool] = OrderedDict()
        self._lock = Lock()

    def path(self, name: str) -> Path:
        """The table of a pool. Raises `UsageError` for a name that is no plain file name."""
        if not _NAME.fullmatch(name):
            raise UsageError(
                f"a pool's name has 1 to 64 letters, digits or . _ -, got {name[:80]!r}"
            )
        return self.folder / f"{name}.csv"

    def open(self, name: str) -> GradedPool | None:
        """The pool of that name, read again where its table has changed; None if there is none."""
        if not _NAME.fullmatch(name) or not self.path(name).is_file():
            return None
        key = (name, self.path(name).stat().st_mtime_ns)
        with self._lock:
            if key not in self._open:
                self._open[key] = GradedPool(self.path(name))
            self._open.move_to_end(key)
            while len(self._open) > _OPEN:
                self._open.popitem(last=False)
            return self._open[key]

    def lines(self) -> list[PoolLine]:
        """All of them, by name."""
        names = sorted(path.stem for path in self.folder.glob("*.csv"))
        return [self._line(name) for name in names if _NAME.fullmatch(name)]

    def _line(self, name: str) -> PoolLine:
        try:
            pool = self.open(name)
            assert pool is not None
            graders = {grader: len(found) for grader, found in pool.grades().items()}
        except AssayError as error:
            return PoolLine(name, problem=str(error))
        queries = len({pair.query_id for pair in pool.pairs})
        return PoolLine(name, len(pool.pairs), queries, graders)


async def pools_page(request: Request) -> Response:
    """The pools, and the form that takes in a table."""
    ui = ui_of(request)
    pools = _pools(request)
    lines = await asyncio.to_thread(pools.lines)
    return ui.page(request, "pools.html", pools=lines, folder=pools.folder)


async def grade_runs(request: Request, names: Sequence[str], query: str = "") -> Response:
    """Open the pool of what these runs returned and nobody judged; it is made the first time.

    With `query` it is opened at that query.
    """
    ui = ui_of(request)
    if ui.read_only:
        raise HTTPException(403, "these pages are read-only: nothing can be graded here")
    lines = ui.lines(names)
    if len({line.fingerprint for line in lines}) > 1:
        raise UsageError("these runs are on different data; choose runs on one data set")
    # The same runs have the same pool, so that whoever comes back goes on where they were.
    digest = hashlib.sha256("\n".join(sorted(names)).encode()).hexdigest()[:8]
    title = re.sub(r"[^A-Za-z0-9]+", "-", lines[0].label or lines[0].target or "").strip("-")
    name = f"{title[:40] or 'pool'}-{digest}"
    path = _pools(request).path(name)
    if not path.exists():
        depth = min(_DEPTH, max(line.top_k or 1 for line in lines))
        pairs = await _pairs(ui, [RunFolder(ui.runs / each) for each in names], depth)
        await asyncio.to_thread(write_pool, path, pairs)
    fields = {"grader": request.cookies.get(_GRADER) or _DEFAULT_GRADER}
    pool = await asyncio.to_thread(_pools(request).open, name)
    pairs = pool.pairs if pool else []
    at = next((str(place) for place, pair in enumerate(pairs) if pair.query_id == query), "")
    fields |= {"at": at} if at else {}
    return RedirectResponse(f"/grade/{name}/grade?{urlencode(fields)}", 303)


async def _pairs(ui: Ui, folders: Sequence[RunFolder], depth: int) -> Sequence[PassagePair]:
    headers = [folder.read_header() for folder in folders]
    header, dataset = headers[0], await ui.datasets.of(*headers)
    if dataset is None:
        raise UsageError(
            f"the texts of run {folders[0].name!r} are not on this machine, or a run is private"
        )

    def collect() -> Sequence[PassagePair]:
        rankings = [
            {row.query_id: row.retrieved_docs[:depth] for row in each.read_rows()}
            for each in folders
        ]
        people = dataset.judgments.get(header.config.split, {})
        return choose_pairs(rankings, dataset, people, depth=depth, check=0, texts=False).pairs

    pairs = await asyncio.to_thread(collect)
    if not pairs:
        raise UsageError("every document that these runs return is already judged")
    if len(pairs) > _MAX_PAIRS:
        raise UsageError(
            f"{len(pairs):,} documents are more than people can grade; choose fewer runs or a "
            "smaller depth"
        )
    return pairs


async def import_table(request: Request) -> Response:
    """Take a table in: a new pool, or the grades of one person for a pool that is there."""
    ui = ui_of(request)
    form = await asyncio.to_thread(
        read_multipart, request.headers.get("content-type", ""), await request.body()
    )
    ui.check_form_token(form.pop("form_token", b"").decode("utf-8", "replace"))
    name, grader = (form.get(key, b"").decode("utf-8", "replace").strip() for key in _FIELDS)
    if grader:
        check_grader(grader)
    await asyncio.to_thread(_import, _pools(request), name, grader, form.get("table", b""))
    return RedirectResponse(f"/grade/{name}", 303)


_FIELDS = ("name", "grader")


def _import(pools: Pools, name: str, grader: str, content: bytes) -> None:
    path = pools.path(name)
    with staging_folder(path) as part:
        (part / path.name).write_bytes(content)
        try:
            pairs, labels = read_pool(part / path.name, texts=False)
        except AssayError as error:
            raise UsageError(str(error).replace(str(part / path.name), "the table")) from None
    if labels and not grader:
        raise UsageError("the table has labels: enter the name of the grader")
    for grade in labels.values():
        check_grade(grade)
    if not path.exists():
        write_pool(path, pairs)
    pool = pools.open(name)
    assert pool is not None
    if labels:
        pool.save(grader, labels)


def read_multipart(content_type: str, body: bytes) -> dict[str, bytes]:
    """The fields of a form that has a file, byte for byte.

    Its parts are cut here, in one pass: a parser of mail would go into forms within forms, and
    change the ends of lines.
    """
    head = Message()
    head["content-type"] = content_type.encode("ascii", "replace").decode()
    boundary = head.get_param("boundary")
    if not isinstance(boundary, str) or not boundary:
        return {}
    mark = f"\r\n--{boundary}".encode("latin-1", "replace")
    found = {}
    for part in (b"\r\n" + body).split(mark, _PARTS)[1:_PARTS]:
        lines, _, content = part.partition(b"\r\n\r\n")
        named = BytesParser().parsebytes(lines[:_PART_HEAD].lstrip(), headersonly=True)
        name = named.get_param("name", header="content-disposition")
        if isinstance(name, str) and not part.startswith(b"--"):
            found[name] = content
    return found


async def pool_page(request: Request) -> Response:
    """How far each grader is, how far they agree, and where they differ."""
    ui, pool = ui_of(request), await _pool(request)
    grades = await asyncio.to_thread(pool.grades)
    return ui.page(
        request,
        "pool.html",
        name=request.path_params["pool"],
        path=pool.path,
        total=len(pool.pairs),
        graders={grader: len(found) for grader, found in grades.items()},
        agreement=await asyncio.to_thread(pool.agreement),
        differences=_differences(pool, grades),
        comments=[
            (grader, pool.pairs[pool.place[name]], found[name], words)
            for grader, found in grades.items()
            for name, words in pool.comments(grader).items()
            if name in found
        ][:_DIFFERENCES],
    )


def _differences(
    pool: GradedPool, grades: Mapping[str, Mapping[PairName, int]]
) -> list[tuple[int, PassagePair, list[int | None]]]:
    """Documents with different grades, those that are furthest apart first."""
    found = []
    for place, pair in enumerate(pool.pairs):
        each = [labels.get(pool.name(place)) for labels in grades.values()]
        given = [grade for grade in each if grade is not None]
        if len(set(given)) > 1:
            found.append((min(given) - max(given), place, pair, each))
    return [(place, pair, each) for _, place, pair, each in sorted(found)[:_DIFFERENCES]]


async def grade_page(request: Request) -> Response:
    """One document with its query and the buttons; the next one without a grade by default."""
    ui, pool = ui_of(request), await _pool(request)
    grader = request.query_params.get("grader", "").strip()
    check_grader(grader)
    at = request.query_params.get("at", "")
    grades = await asyncio.to_thread(pool.grades_of, grader)
    place = int(at) if at.isdecimal() and len(at) < 9 else pool.next_ungraded(grader)
    last = len(pool.pairs) - 1
    address = f"/grade/{request.path_params['pool']}/grade"
    shown = None if place is None else GradedDocument.at(pool, min(place, last), grades)
    answer = ui.page(
        request,
        "grade.html",
        name=request.path_params["pool"],
        grader=grader,
        target=address,
        graded=len(grades),
        total=len(pool.pairs),
        scale=list(zip(GRADES, MEANINGS, strict=True)),
        link=lambda to: f"{address}?{urlencode({'grader': grader, 'at': to})}",
        shown=shown,
        previous=last if shown is None else shown.place - 1 if shown.place else None,
        next=shown.place + 1 if shown is not None and shown.place < last else None,
        comment=pool.comments(grader).get(shown.pair.name, "") if shown else "",
    )
    answer.set_cookie(_GRADER, grader, httponly=True, samesite="lax")
    return answer


async def save_grade(request: Request) -> Response:
    """Save one grade, or take the last one back; then the next document."""
    ui, pool = ui_of(request), await _pool(request)
    given = await ui.form(request)
    grader = given.get("grader", "").strip()
    check_grader(grader)
    address = f"/grade/{request.path_params['pool']}/grade"
    fields: dict[str, str | int] = {"grader": grader}
    if given.get("undo"):
        name = await asyncio.to_thread(pool.undo, grader)
        if name is not None and name in pool.place:
            fields["at"] = pool.place[name]
        return RedirectResponse(f"{address}?{urlencode(fields)}", 303)
    name = (given.get("query_id", ""), given.get("doc_id", ""))
    grade = given.get("grade", "")
    if grade not in map(str, GRADES):
        raise UsageError(f"a grade is one of {', '.join(map(str, GRADES))}, got {grade[:20]!r}")
    comment = given.get("comment", "").strip()[:_MAX_COMMENT]
    await asyncio.to_thread(pool.save, grader, {name: int(grade)}, comment)
    following = await asyncio.to_thread(pool.next_ungraded, grader, pool.place[name])
    if following is not None:
        fields["at"] = following
    return RedirectResponse(f"{address}?{urlencode(fields)}", 303)


async def table_file(request: Request) -> Response:
    """The table as one person filled it in."""
    pool = await _pool(request)
    grader = request.query_params.get("grader", "")
    check_grader(grader)
    plain = re.sub(r"[^A-Za-z0-9]+", "-", grader).strip("-") or "grader"
    content = await asyncio.to_thread(pool.table, grader)
    return download(content, f"{request.path_params['pool']}-{plain}.csv", "text/csv")


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
