"""The reference index behind the search box, opened when somebody asks for it."""

import asyncio
from typing import Any

from assay.data import load_dataset
from assay.progress import Progress
from assay.search.retriever import Hit, Retriever, check_request
from assay.serve.readiness import Loading

MODES: tuple[str, ...] = ("hybrid", "dense", "bm25")
SHOWN = 10


class SearchDesk:
    """The index of one data set. It is opened by a button: the first time takes minutes."""

    def __init__(self, dataset: str) -> None:
        self.dataset = dataset
        self._loading: Loading[tuple[Retriever, tuple[str, ...]]] | None = None

    @property
    def status(self) -> str:
        """`closed`, `loading`, `ready`, or `failed: ...`"""
        return "closed" if self._loading is None else self._loading.status

    @property
    def stage(self) -> dict[str, Any]:
        return dict(self._loading.stage or {}) if self._loading else {}

    def open(self) -> None:
        if self._loading is None or self.status.startswith("failed"):
            self._loading = loading = Loading(lambda: _open(self.dataset, loading.note))
            loading.start()

    async def modes(self) -> tuple[str, ...]:
        """The ways to search, as far as they are known."""
        if self._loading is None or self.status != "ready":
            return MODES
        return (await self._loading.get())[1]

    async def search(self, query: str, mode: str) -> list[Hit]:
        assert self._loading is not None, "open() comes before search()"
        retriever, _ = await self._loading.get()
        wanted = check_request(query, SHOWN, mode)
        return await asyncio.to_thread(retriever.search, query, SHOWN, mode=wanted)

    async def close(self) -> None:
        if self._loading is None:
            return
        if self._loading.status == "ready":
            (await self._loading.get())[0].close()
        await self._loading.stop()


async def _open(name: str, progress: Progress) -> tuple[Retriever, tuple[str, ...]]:
    return await asyncio.to_thread(_load, name, progress)


def _load(name: str, progress: Progress) -> tuple[Retriever, tuple[str, ...]]:
    """The tuned ranking is offered where it has been learned: a search box starts no learning."""
    from assay.search.embedding import open_embedder
    from assay.search.reference import open_retriever
    from assay.search.tuned import model_path

    dataset, embedder = load_dataset(name, progress=progress), open_embedder()
    tuned = model_path(dataset, embedder, seed=0, remember_dev=False).exists()
    retriever = open_retriever(dataset, embedder=embedder, tuned=tuned, progress=progress)
    return retriever, (*MODES, "tuned") if tuned else MODES
