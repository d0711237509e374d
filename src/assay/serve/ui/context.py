"""What every page of the web UI uses: the runs, their data sets, templates and forms."""

import asyncio
import re
import secrets
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from assay.data.dataset import Dataset
from assay.net.outbound import UNRESTRICTED, OutboundPolicy
from assay.report.html_templates import environment
from assay.run.config import RunConfig
from assay.run.folder import RunFolder, find_run_dataset
from assay.run.index import RunIndex, RunLine, damage_of
from assay.run.models import RunHeader
from assay.run.state import RunState
from assay.serve.ui.evaluations import Evaluations

TEMPLATES = Path(__file__).parent / "templates"
PER_PAGE = 50
_DATASETS = 3


class DatasetCache:
    """The data sets of the runs that were looked at last."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, Dataset] = OrderedDict()
        self._lock = asyncio.Lock()

    async def of(self, header: RunHeader, *others: RunHeader) -> Dataset | None:
        """The data set of a run, or of the first of several that one page shows.

        None if it is not on this machine, or has changed, or any of the runs is private: that
        another run has brought its texts here makes no difference.
        """
        if any(each.config.private for each in (header, *others)):
            return None
        fingerprint = header.dataset.fingerprint
        async with self._lock:
            if fingerprint not in self._kept:
                found, _ = await asyncio.to_thread(find_run_dataset, header)
                if found is None:
                    return None
                self._kept[fingerprint] = found
                while len(self._kept) > _DATASETS:
                    self._kept.popitem(last=False)
            self._kept.move_to_end(fingerprint)
            return self._kept[fingerprint]


class DatasetKey:
    """A data set as a key of the cache, compared by identity: its content may be huge."""

    def __init__(self, dataset: Dataset | None) -> None:
        self.dataset = dataset

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DatasetKey) and other.dataset is self.dataset

    def __hash__(self) -> int:
        return id(self.dataset)


class Ui:
    """The state that all pages share.

    `form_token` is in every form, so that no other site can send one (CSRF). `named` are the
    targets of assay.toml with their settings.
    """

    def __init__(
        self,
        runs: Path,
        *,
        policy: OutboundPolicy = UNRESTRICTED,
        read_only: bool = False,
        named: Mapping[str, RunConfig] | None = None,
    ) -> None:
        self.runs = runs
        self.named = named or {}
        self.read_only = read_only
        self.policy = policy
        self.evaluations = Evaluations(runs, policy)
        self.index = RunIndex(runs)
        self.datasets = DatasetCache()
        self.form_token = secrets.token_urlsafe(24)
        self.comparing = asyncio.Lock()
        """Held while runs are compared: six of 100,000 queries each take gigabytes for a moment."""

    async def refresh(self) -> None:
        """Read what has changed in the folder of runs."""
        await asyncio.to_thread(self.index.refresh)

    def page(
        self, request: Request, template: str, *, status: int = 200, **values: Any
    ) -> HTMLResponse:
        """A rendered template. Browsers must not cache it: a running run changes every second.

        A script that asks for a part of the page (`fragment`) gets that block alone.
        """
        page = environment(TEMPLATES).get_template(template)
        values |= {
            "here": request.url.path,
            "form_token": self.form_token,
            "read_only": self.read_only,
            "address": partial(address, request),
        }
        block = page.blocks.get(request.headers.get("fragment", ""))
        content = "".join(block(page.new_context(values))) if block else page.render(values)
        return HTMLResponse(content, status, {"cache-control": "no-store"})

    async def run(self, request: Request) -> tuple[RunLine, RunFolder]:
        """The run that the address names. Only names that the index has are ever opened."""
        await self.refresh()
        name = request.path_params["name"]
        line = self.index.get(name)
        if line is None:
            raise HTTPException(404, f"no run {name!r} in {self.runs}")
        if line.state == RunState.DAMAGED:
            damage = await asyncio.to_thread(damage_of, RunFolder(self.runs / name))
            raise HTTPException(409, f"run {name!r} cannot be read: {damage}")
        return line, RunFolder(self.runs / name)

    async def form(self, request: Request) -> dict[str, str]:
        """The fields of a form, whose token must be ours; the last one of each name."""
        return dict(await self.form_values(request))

    async def form_values(self, request: Request) -> list[tuple[str, str]]:
        """The fields of a form in their order, where one name may have several values."""
        values = parse_qsl((await request.body()).decode("utf-8", "replace"))
        self.check_form_token(dict(values).get("form_token", ""))
        return [(name, value) for name, value in values if name != "form_token"]

    def check_form_token(self, given: str) -> None:
        """Answer 403 for a form that is not ours."""
        if not secrets.compare_digest(given.encode(), self.form_token.encode()):
            raise HTTPException(
                403, "this form has expired; go back, reload the page and try again"
            )

    async def chosen_lines(self, request: Request) -> list[RunLine]:
        """The runs that an address names; answers 404 for one that the index does not have."""
        await self.refresh()
        return self.lines(chosen_runs(request.query_params.multi_items()))

    def lines(self, names: Sequence[str]) -> list[RunLine]:
        """The runs of these names; answers 404 for one that the index does not have."""
        found = [(name, self.index.get(name)) for name in names]
        for name, line in found:
            if line is None:
                raise HTTPException(404, f"no run {name!r} in {self.runs}")
        return [line for _, line in found if line is not None]


def download(content: str | bytes, name: str, media_type: str = "text/html") -> Response:
    """A file to be kept under a name, of which a header takes plain letters."""
    plain = re.sub(r"[^\w.-]", "-", name, flags=re.ASCII)
    headers = {
        "content-disposition": f'attachment; filename="{plain}"',
        "cache-control": "no-store",
    }
    return Response(content, media_type=media_type, headers=headers)


def chosen_runs(values: Iterable[tuple[str, str]]) -> list[str]:
    """The runs that an address or a form names, each once."""
    return list(dict.fromkeys(value for name, value in values if name == "run" and value))


def ui_of(request: Request) -> Ui:
    """The state of the application that serves a request."""
    ui = request.app.state.ui
    assert isinstance(ui, Ui)
    return ui


@dataclass(frozen=True, slots=True)
class PageSlice:
    """One page of a list: which of its items, and the links to its neighbors."""

    skip: int
    total: int
    previous: str | None
    next: str | None

    @property
    def last(self) -> int:
        """The number of the last item."""
        return min(self.total, self.skip + PER_PAGE)


def slice_of(request: Request, total: int) -> PageSlice:
    """The page that the address asks for, or the last one if there are fewer."""
    given = request.query_params.get("page", "1")
    last = max(1, -(-total // PER_PAGE))
    number = min(last, max(1, int(given))) if given.isdecimal() and len(given) < 9 else 1
    return PageSlice(
        skip=(number - 1) * PER_PAGE,
        total=total,
        previous=address(request, page=str(number - 1)) if number > 1 else None,
        next=address(request, page=str(number + 1)) if number < last else None,
    )


def address(request: Request, **changes: str) -> str:
    """This address with other parameters; an empty one is left out."""
    url = request.url.include_query_params(**changes)
    url = url.remove_query_params([name for name, value in changes.items() if not value])
    return f"{url.path}?{url.query}" if url.query else url.path
