"""The reference index behind the search box, opened when somebody asks for it."""

import asyncio
from typing import Any

from assay.data import load_dataset
from assay.progress import Progress
from assay.search.retriever import Hit, Retriever, check_request
from assay.serve.readiness import Loading

SHOWN = 10


class SearchDesk:
    """The index of one data set. It is opened by a button: the first time takes minutes."""

    def __init__(self, dataset: str) -> None:
        self.dataset = dataset
        self._loading: Loading[Retriever] | None = None

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

    async def search(self, query: str, mode: str) -> list[Hit]:
        assert self._loading is not None, "open() comes before search()"
        retriever = await self._loading.get()
        wanted = check_request(query, SHOWN, mode)
        return await asyncio.to_thread(retriever.search, query, SHOWN, mode=wanted)

    async def close(self) -> None:
        if self._loading is None:
            return
        if self._loading.status == "ready":
            (await self._loading.get()).close()
        await self._loading.stop()


async def _open(dataset: str, progress: Progress) -> Retriever:
    from assay.search.reference import open_retriever

    def load() -> Retriever:
        return open_retriever(load_dataset(dataset, progress=progress), progress=progress)

    return await asyncio.to_thread(load)
