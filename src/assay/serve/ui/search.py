"""A search box over the reference index, which shows what each signal found and what it counted."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, replace
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from assay.data import Query, load_dataset
from assay.errors import AssayError
from assay.progress import Progress
from assay.report.numbers import count
from assay.run.models import RunHeader
from assay.search.explanation import Explanation
from assay.search.modes import ZERO_SHOT_MODES, Mode
from assay.search.retriever import Retriever, SearchHit, check_request
from assay.serve.readiness import Loading
from assay.serve.ui.context import ui_of
from assay.serve.ui.evaluations import ProgressView, event_stream
from assay.targets.target_kinds import TARGET_KINDS

MODES: tuple[str, ...] = ZERO_SHOT_MODES[::-1]
"""The best first, which is searched with by default."""
SHOWN = 10
_PAUSE_S = 0.4
_OPENING = ProgressView(message="opening the index")


@dataclass(frozen=True, slots=True)
class OpenIndex:
    """An index that is ready to be searched.

    Parameters:
        retriever: searches it.
        modes: in which ways it can.
        queries: of the data set by id, for the judged queries that `tuned` learned from.
    """

    retriever: Retriever
    modes: tuple[str, ...]
    queries: Mapping[str, Query]


class SearchService:
    """The reference index of one data set, opened on request: the first time takes minutes."""

    def __init__(self, dataset: str) -> None:
        self.dataset = dataset
        self.loading: Loading[OpenIndex] = Loading(
            lambda: asyncio.to_thread(_load, dataset, self.loading.note)
        )
        self._opened = False

    @property
    def status(self) -> str:
        """`closed`, `loading`, `ready`, or `failed: ...`"""
        return self.loading.status if self._opened else "closed"

    def open(self) -> None:
        """Start to load the index, unless it is loaded or being loaded."""
        self._opened = True
        self.loading.start()

    @property
    def modes(self) -> tuple[str, ...]:
        """The search modes, as far as they are known."""
        index = self.loading.value
        return index.modes if index else MODES

    async def search(self, query: str, mode: str) -> "SearchResult":
        """The best documents for a query. Raises `AssayError` where the request is not valid."""
        index = await self.loading.get()
        checked = check_request(query, SHOWN, mode)
        found = await asyncio.to_thread(index.retriever.explain, query, SHOWN, mode=checked)
        return SearchResult([ExplainedHit.of(*one, index.queries) for one in found])

    async def close(self) -> None:
        """Close the index, or stop loading it."""
        if (index := self.loading.value) is not None:
            index.retriever.close()
        await self.loading.stop()


@dataclass(frozen=True, slots=True)
class ExplainedHit:
    """A document that was found, and why it stands where it stands.

    Parameters:
        hit: the document.
        shares: of each signal in the score: its name, the points, and the part of the whole.
        terms: the matched words with their BM25 weights, the heaviest first.
        feedback: ids of the documents that the query was moved towards.
        judged: the judged queries that spoke for it, with their predicted overlaps.
    """

    hit: SearchHit
    shares: list[tuple[str, float, float]]
    terms: list[tuple[str, float]]
    feedback: tuple[str, ...]
    judged: list[tuple[str, float]]

    @classmethod
    def of(cls, hit: SearchHit, why: Explanation, queries: Mapping[str, Query]) -> "ExplainedHit":
        """With the texts of judged queries in place of their ids, where they are known."""
        whole = sum(why.shares.values()) or 1.0
        return cls(
            hit,
            [(name, share, share / whole) for name, share in why.shares.items()],
            sorted(why.terms.items(), key=lambda one: -one[1]),
            why.feedback,
            [
                (
                    queries[one.query_id].text if one.query_id in queries else one.query_id,
                    one.overlap,
                )
                for one in why.judged
            ],
        )


@dataclass(frozen=True, slots=True)
class SearchResult:
    """What a search found, best first."""

    documents: list[ExplainedHit]

    @property
    def signals(self) -> list[str]:
        """Those that found any of the documents, the most informative first."""
        return list(dict.fromkeys(name for one in self.documents for name in one.hit.signals))


def search_routes() -> list[BaseRoute]:
    """The search page, the button that opens the index, and the progress of opening it."""
    return [
        Route("/search", search_page),
        Route("/search/open", open_search_index, methods=["POST"]),
        Route("/search/events", search_events),
    ]


async def search_page(request: Request) -> Response:
    """The search box, with the hits where the index is open."""
    service = _service_of(request)
    query, mode = request.query_params.get("q", ""), request.query_params.get("mode", MODES[0])
    found, problem = None, ""
    if query.strip() and service.status == "ready":
        try:
            found = await service.search(query, mode)
        except AssayError as error:
            problem = str(error)
    return ui_of(request).page(
        request,
        "search.html",
        status=422 if problem else 200,
        query=query,
        mode=mode,
        modes=service.modes,
        service=service,
        found=found,
        problem=problem,
        progress_view=_OPENING,
        events=f"/search/events?{urlencode({'q': query, 'mode': mode})}",
    )


async def open_search_index(request: Request) -> Response:
    """Start to open the index, and go back to the search page."""
    given = await ui_of(request).form(request)
    _service_of(request).open()
    fields = {"q": given.get("q", ""), "mode": given.get("mode", MODES[0])}
    return RedirectResponse(f"/search?{urlencode(fields)}", 303)


async def search_events(request: Request) -> Response:
    """The progress of opening the index, as server-sent events."""
    return event_stream(_stages(_service_of(request)), f"/search?{request.url.query}")


async def _stages(service: SearchService) -> AsyncIterator[ProgressView]:
    while service.status == "loading":
        stage = service.loading.stage or {}
        view = ProgressView(message=str(stage.get("what", _OPENING.message)))
        match stage:
            case {"done": int(done), "total": int(total)} if total > 0:
                view = replace(view, share=done / total, done=f"{count(done)} of {count(total)}")
        yield view
        await asyncio.sleep(_PAUSE_S)


def _service_of(request: Request) -> SearchService:
    service = request.app.state.search
    assert isinstance(service, SearchService)
    return service


def explain_link(request: Request, header: RunHeader, query: str) -> str:
    """The search page with the same query in the mode of a built-in target; else empty.

    Only for the data set that the search box is over.
    """
    name, _, spec = header.target.name.partition(":")
    kind = TARGET_KINDS.get(name)
    own = kind is not None and kind.searches_dataset
    if not own or header.config.dataset != _service_of(request).dataset:
        return ""
    return f"/search?{urlencode({'q': query, 'mode': spec.partition('#')[0]})}"


def _load(name: str, progress: Progress) -> OpenIndex:
    """Offer the tuned ranking only where it has been trained: a search box starts no training."""
    from assay.search.embedding import open_embedder
    from assay.search.index import open_retriever
    from assay.search.tuning.tune import model_path

    dataset, embedder = load_dataset(name, progress=progress), open_embedder()
    tuned = model_path(dataset, embedder).exists()
    mode: Mode = "tuned" if tuned else "hybrid"
    retriever = open_retriever(dataset, mode, embedder=embedder, progress=progress)
    return OpenIndex(retriever, (*MODES, "tuned") if tuned else MODES, dataset.queries)
