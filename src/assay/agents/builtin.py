"""Targets `builtin:...`: Assay's own retriever, asked in process."""

from collections.abc import Callable

from assay.agents.daemon_threads import DaemonThreads
from assay.agents.protocol import AgentAnswer, AgentInfo
from assay.data.dataset import Dataset
from assay.errors import UsageError
from assay.progress import Progress, silent

Search = Callable[[str, int], list[str]]
MODES = ("bm25",)
BEST = "builtin:bm25"


class BuiltinAgent:
    def __init__(self, mode: str, dataset: Dataset, *, progress: Progress = silent) -> None:
        if mode not in MODES:
            raise UsageError(
                f"there is no builtin:{mode}; there is: builtin:{', builtin:'.join(MODES)}"
            )
        self.info = AgentInfo(name=f"builtin:{mode}", protocol="builtin", track="zero-shot")
        self._dataset = dataset
        self._progress = progress
        self._threads = DaemonThreads()
        self._search: Search | None = None

    async def open(self) -> None:
        self._search = await self._threads.run(self._load)

    async def close(self) -> None:
        self._threads.close()

    async def ask(self, query: str, top_k: int) -> AgentAnswer:
        assert self._search is not None, "open() comes before ask()"
        return AgentAnswer(doc_ids=tuple(await self._threads.run(self._search, query, top_k)))

    def _load(self) -> Search:
        from assay.search.lexical import LexicalIndex

        total = len(self._dataset.documents)
        self._progress("indexing", 0, total)
        index = LexicalIndex(self._dataset.documents.values())
        self._progress("indexing", total, total)
        return lambda query, top_k: [doc_id for doc_id, _ in index.search(query, top_k)]
