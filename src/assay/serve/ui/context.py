"""What every page of the web UI uses: the runs, their data sets, templates and forms.

A page is a function of its request; Starlette calls one that is not `async` in a thread.
"""

import re
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any, NoReturn, TypeVar
from urllib.parse import parse_qsl

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from assay.data.dataset import Dataset
from assay.net.outbound import UNRESTRICTED, OutboundPolicy
from assay.report.html import environment
from assay.run.config import RunConfig
from assay.run.folder import RunFolder, find_run_dataset
from assay.run.listing import RunIndex, RunLine
from assay.run.models import RunHeader, RunState
from assay.serve.ui.evaluations import Evaluations, StartedEvaluation

TEMPLATES = Path(__file__).parent / "templates"
PAGES = {"/": "Runs", "/trends": "Trend", "/evaluate": "Evaluate", "/grade": "Grade"}
PER_PAGE = 50

_Value = TypeVar("_Value")


class RecentlyUsed:
    """The values that were used last: `pages.get(key, make)`, one made at a time."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._kept: dict[Hashable, Any] = {}
        self._lock = Lock()

    def get(self, key: Hashable, make: Callable[[], _Value]) -> _Value:
        """The value of `key`; what `make` returns is kept unless it is None."""
        # Under the lock: six comparisons of 100,000 queries at once would take gigabytes.
        with self._lock:
            value: _Value = self._kept.pop(key) if key in self._kept else make()
            if value is not None:
                self._kept[key] = value
            if len(self._kept) > self._size:
                del self._kept[next(iter(self._kept))]
            return value


class Ui:
    """The state that all pages share; `named` are the targets of assay.toml."""

    def __init__(
        self,
        runs: Path,
        *,
        policy: OutboundPolicy = UNRESTRICTED,
        read_only: bool = False,
        named: Mapping[str, RunConfig] | None = None,
    ) -> None:
        self.runs = runs
        # A visitor of another machine could send their secrets to a host of his own.
        self.named = {} if policy.public_only or named is None else named
        self.read_only = read_only
        self.policy = policy
        self.evaluations = Evaluations(runs, policy)
        self.index = RunIndex(runs)
        self.recent = RecentlyUsed(12)
        self._datasets = RecentlyUsed(3)

    def dataset(self, *headers: RunHeader) -> Dataset | None:
        """The data set of the first of the runs that one page shows.

        None if it is not on this machine, or has changed, or any of the runs is private: that
        another run has brought its texts here makes no difference.
        """
        if any(header.config.private for header in headers):
            return None
        key, find = headers[0].dataset.fingerprint, lambda: find_run_dataset(headers[0])[0]
        return self._datasets.get(key, find)

    def page(
        self, request: Request, template: str, *, status: int = 200, **values: Any
    ) -> HTMLResponse:
        """A rendered template. Browsers must not cache it: a running run changes every second.

        A script that asks for a part of the page (`fragment`) gets that block alone.
        """
        page, here = environment(TEMPLATES).get_template(template), request.url.path
        values |= {
            "ui_pages": PAGES.items(),
            "ui_page": next((path for path in [*PAGES][1:] if here.startswith(path)), "/"),
            "read_only": self.read_only,
            "address": partial(address, request),
            "sort_link": partial(sort_link, request),
        }
        block = page.blocks.get(request.headers.get("fragment", ""))
        content = "".join(block(page.new_context(values))) if block else page.render(values)
        return HTMLResponse(content, status, {"cache-control": "no-store"})

    def run(self, request: Request) -> tuple[RunLine, RunFolder]:
        """The run that the address names. Only names that the index has are ever opened."""
        self.index.refresh()
        (line,) = self.lines([request.path_params["name"]])
        folder = RunFolder(self.runs / line.name)
        if line.state == RunState.DAMAGED:
            raise HTTPException(409, f"run {line.name!r} cannot be read: {line.damage}")
        return line, folder

    def find_run(self, started: StartedEvaluation) -> str | None:
        """The name of the run that an evaluation makes, once there is one; not of its baseline."""
        self.index.refresh()
        made = self.index.lines(lambda line: started.makes(line) and line.baseline_of is None)
        return made[-1].name if made else None

    def chosen_lines(self, values: Iterable[tuple[str, str]]) -> list[RunLine]:
        """The runs that an address or a form names, each once."""
        self.index.refresh()
        return self.lines(list(dict.fromkeys(v for name, v in values if name == "run" and v)))

    def lines(self, names: Sequence[str]) -> list[RunLine]:
        """The runs of these names; answers 404 for one that the index does not have."""
        found = {name: self.index.get(name) for name in names}
        for name, line in found.items():
            if line is None:
                raise HTTPException(404, f"no run {name!r} in {self.runs}")
        return [line for line in found.values() if line is not None]


def ui_of(request: Request) -> Ui:
    """The state of the application that serves a request."""
    ui = request.app.state.ui
    assert isinstance(ui, Ui)
    return ui


def forbid_change(_request: Request) -> NoReturn:
    """Answers instead of what starts, ends or grades something, if the pages are read-only."""
    words = "these pages are read-only; to start or grade, run your own: assay serve ui"
    raise HTTPException(403, words)


async def posted(request: Request) -> list[tuple[str, str]]:
    """The fields of a form in their order, where one name may have several values."""
    return parse_qsl((await request.body()).decode("utf-8", "replace"))


def download(content: str | bytes, name: str, media_type: str = "text/html") -> Response:
    """A file to be kept under a name, of which a header takes plain letters."""
    plain = re.sub(r"[^\w.-]", "-", name, flags=re.ASCII)
    headers = {"content-disposition": f'attachment; filename="{plain}"'}
    return Response(
        content, media_type=media_type, headers={**headers, "cache-control": "no-store"}
    )


def asked_for(request: Request, *names: str) -> dict[str, str]:
    """Parameters of the address; empty if they are missing."""
    return {name: request.query_params.get(name, "") for name in names}


@dataclass(frozen=True, slots=True)
class PageSlice:
    """One page of a list: the range of its items, and the links to its neighbors."""

    skip: int
    last: int
    total: int
    previous: str | None
    next: str | None


def slice_of(request: Request, total: int, size: int = PER_PAGE) -> PageSlice:
    """The page that the address asks for, or the last one if there are fewer."""
    given = request.query_params.get("page", "1")
    last = max(1, -(-total // size))
    # `int` of a text of a million digits takes seconds.
    number = min(last, max(1, int(given))) if given.isdecimal() and len(given) < 9 else 1
    return PageSlice(
        skip=(number - 1) * size,
        last=min(total, number * size),
        total=total,
        previous=address(request, page=str(number - 1)) if number > 1 else None,
        next=address(request, page=str(number + 1)) if number < last else None,
    )


def sort_link(request: Request, sort: str, name: str, largest_first: bool) -> str:
    """The address of a list in another order; the same column again turns it around."""
    first, second = (f"-{name}", name) if largest_first else (name, f"-{name}")
    return address(request, sort=second if sort == first else first, page="")


def address(request: Request, **changes: str) -> str:
    """This address with other parameters; an empty one is left out."""
    url = request.url.include_query_params(**changes)
    url = url.remove_query_params([name for name, value in changes.items() if not value])
    return f"{url.path}?{url.query}" if url.query else url.path
