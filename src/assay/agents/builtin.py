"""Targets `builtin:...`: Assay's own retriever, asked in process."""

from collections.abc import Callable

from assay.agents.daemon_threads import DaemonThreads
from assay.agents.protocol import AgentAnswer, AgentFailure, AgentInfo, FailureKind
from assay.data.dataset import Dataset
from assay.errors import AssayError, UsageError
from assay.progress import Progress, silent

MODES = ("bm25", "dense", "hybrid", "tuned")

_Search = Callable[[str, int], list[str]]


class BuiltinAgent:
    """`bm25` needs no index: it is built in memory in a second, and shares no code with hybrid."""

    def __init__(self, mode: str, dataset: Dataset, *, progress: Progress = silent) -> None:
        if mode not in MODES:
            known = ", ".join(f"builtin:{each}" for each in MODES)
            raise UsageError(f"there is no builtin:{mode}; there is: {known}")
        track = "trained" if mode == "tuned" else "zero-shot"
        self.info = AgentInfo(name=f"builtin:{mode}", protocol="builtin", track=track)
        self._mode = mode
        self._dataset = dataset
        self._progress = progress
        self._threads = DaemonThreads()
        self._search: _Search | None = None
        self._close: Callable[[], None] = lambda: None

    async def open(self) -> None:
        load = self._load_lexical if self._mode == "bm25" else self._load_retriever
        self._search = await self._threads.run(load)

    async def close(self) -> None:
        self._close()
        self._threads.close()

    async def ask(self, query: str, top_k: int) -> AgentAnswer:
        assert self._search is not None, "open() comes before ask()"
        try:
            return AgentAnswer(doc_ids=tuple(await self._threads.run(self._search, query, top_k)))
        except AssayError as error:
            raise AgentFailure(FailureKind.AGENT_ERROR, str(error)) from error

    def _load_lexical(self) -> _Search:
        from assay.search.lexical import LexicalIndex

        total = len(self._dataset.documents)
        self._progress("indexing", 0, total)
        index = LexicalIndex(self._dataset.documents.values())
        self._progress("indexing", total, total)
        return lambda query, top_k: [doc_id for doc_id, _ in index.search(query, top_k)]

    def _load_retriever(self) -> _Search:
        from assay.search.reference import open_retriever
        from assay.search.retriever import check_request

        mode = check_request("any", 1, self._mode)
        tuned = mode == "tuned"
        retriever = open_retriever(self._dataset, tuned=tuned, progress=self._progress)
        self._close = retriever.close

        def search(query: str, top_k: int) -> list[str]:
            return [hit.doc_id for hit in retriever.search(query, top_k, mode=mode)]

        return search
