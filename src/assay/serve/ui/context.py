"""What every page of the web UI draws on: the runs, their data, and how a page is made."""

import asyncio
import secrets
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse

from assay.data.dataset import Dataset
from assay.evaluation.run_dataset import find_run_dataset
from assay.evaluation.run_folder import RunFolder
from assay.evaluation.run_index import RunIndex
from assay.evaluation.run_lines import DAMAGED, Line
from assay.net.outbound import UNRESTRICTED, OutboundPolicy
from assay.report.html import environment
from assay.serve.ui.evaluations import Evaluations
from assay.serve.ui.targets import TargetRules

TEMPLATES = Path(__file__).parent / "templates"
PER_PAGE = 25
_DATASETS = 3


class Datasets:
    """The data sets of the runs that are looked at, the latest few."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, Dataset] = OrderedDict()
        self._lock = asyncio.Lock()

    async def of(self, header: Mapping[str, Any]) -> Dataset | None:
        fingerprint = header["dataset"]["fingerprint"]
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


class Ui:
    """`form_token` is in every form of ours, so that no other site can make one up."""

    def __init__(self, runs: Path, *, policy: OutboundPolicy = UNRESTRICTED) -> None:
        self.runs = runs
        self.rules = TargetRules(policy)
        self.evaluations = Evaluations(runs)
        self.index = RunIndex(runs)
        self.datasets = Datasets()
        self.form_token = secrets.token_urlsafe(24)
        self._templates = environment(TEMPLATES)
        self._templates.globals["form_token"] = self.form_token

    async def refresh(self) -> None:
        await asyncio.to_thread(self.index.refresh)

    def page(
        self, request: Request, template: str, *, status: int = 200, **values: Any
    ) -> HTMLResponse:
        """Never kept by the browser: a run that goes on is another one a second later."""
        here = request.url.path
        content = self._templates.get_template(template).render(here=here, **values)
        return HTMLResponse(content, status, {"cache-control": "no-store"})

    async def run(self, request: Request) -> tuple[Line, RunFolder]:
        """The run that the address names. Only names that the folder has are ever opened."""
        await self.refresh()
        name = request.path_params["name"]
        line = self.index.get(name)
        if line is None:
            raise HTTPException(404, f"there is no run {name!r} under {self.runs}")
        if line["state"] == DAMAGED:
            raise HTTPException(409, f"run {name!r} cannot be read: its files are damaged")
        return line, RunFolder(self.runs / name)

    async def form(self, request: Request) -> dict[str, str]:
        """What a form of ours sent."""
        values = dict(parse_qsl((await request.body()).decode("utf-8", "replace")))
        if not secrets.compare_digest(values.pop("form_token", ""), self.form_token):
            raise HTTPException(403, "this form is out of date; go back, reload and try again")
        return values


def ui_of(request: Request) -> Ui:
    ui = request.app.state.ui
    assert isinstance(ui, Ui)
    return ui


@dataclass(frozen=True, slots=True)
class Slice:
    """One page of a list: which of its items, and where the neighbours are."""

    skip: int
    total: int
    previous: str | None
    next: str | None

    @property
    def first(self) -> int:
        return min(self.total, self.skip + 1)

    @property
    def last(self) -> int:
        return min(self.total, self.skip + PER_PAGE)


def slice_of(request: Request, total: int) -> Slice:
    """The page that the address asks for, the last one where that is past the end."""
    given = request.query_params.get("page", "1")
    last = max(1, -(-total // PER_PAGE))
    number = min(last, max(1, int(given))) if given.isdecimal() and len(given) < 9 else 1

    def link(page: int) -> str:
        url = request.url.include_query_params(page=page)
        return f"{url.path}?{url.query}"

    return Slice(
        skip=(number - 1) * PER_PAGE,
        total=total,
        previous=link(number - 1) if number > 1 else None,
        next=link(number + 1) if number < last else None,
    )
