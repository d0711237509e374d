"""Targets `builtin:MODE[#PROVIDER]`: Assay's own retriever, and its answers, in process."""

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from assay.data.dataset import Dataset
from assay.errors import (
    AgentFailure,
    AssayError,
    FailureKind,
    ProviderError,
    ProviderFailure,
    SearchUnavailable,
    TargetError,
    UsageError,
)
from assay.extras import require_extras
from assay.llm.passages import EXTRACTIVE, Passage
from assay.progress import Progress, silent
from assay.targets.protocol import AgentAnswer, AgentInfo
from assay.targets.target_kinds import OpenContext, Target, builtin_track, require_mode
from assay.targets.threads import DaemonThreads

if TYPE_CHECKING:
    from assay.search.bm25 import Bm25Settings
    from assay.search.embedding import EmbedderSettings

_Search = Callable[[str, int], list[tuple[str, float]]]
_ANSWER_TOKENS = 500


class BuiltinAgent:
    """Assay's own retriever. `bm25` needs no model, and ranks as an index in Qdrant would.

    `spec` is the mode, with `#PROVIDER` for a model that answers, else `answers` are quotes. Which
    splits `tuned` learned from is recorded once it is open. Without `bm25` and `embedder`, the
    environment has their settings.
    """

    def __init__(
        self,
        spec: str,
        dataset: Dataset,
        *,
        track: str = "undeclared",
        answers: bool = False,
        bm25: "Bm25Settings | None" = None,
        embedder: "EmbedderSettings | None" = None,
        progress: Progress = silent,
    ) -> None:
        from assay.search.bm25 import Bm25Settings

        mode, _, provider = spec.partition("#")
        require_mode(mode)
        if provider and not answers:
            raise UsageError(
                f"target 'builtin:{spec}' names a model, which is used only for answers; "
                "add --answers, or leave out the part after #"
            )
        self._answers = BuiltinAnswers(dataset, provider) if answers else None
        self._bm25 = bm25 or Bm25Settings.from_environment()
        facts = [f"BM25 {self._bm25}"] * (mode != "dense" and self._bm25 != Bm25Settings())
        facts += [f"answers: {self._answers.description}"] if self._answers else []
        learned = builtin_track(mode, track)
        self.info = AgentInfo(f"builtin:{spec}", "builtin", learned, "; ".join(facts))
        self._mode = mode
        names = ("ASSAY_EMBEDDER", "ASSAY_DEVICE")
        if embedder is None and any(os.environ.get(name) for name in names):
            from assay.search.embedding import EmbedderSettings  # which BM25 alone does not need

            embedder = EmbedderSettings.from_environment()
        self._embedder = embedder
        self._dataset = dataset
        self._progress = progress
        self._threads = DaemonThreads()
        self._search: _Search | None = None
        self._close: Callable[[], None] = lambda: None

    @classmethod
    def from_target(cls, target: Target, context: OpenContext) -> "BuiltinAgent":
        """`builtin:MODE`, or `builtin:MODE#PROVIDER`."""
        spec = str(target).partition(":")[2]
        return cls(
            spec,
            context.dataset,
            track=context.track,
            answers=context.answers,
            bm25=context.bm25,
            embedder=context.embedder,
            progress=context.progress,
        )

    async def open(self) -> None:
        """Load or build the index."""
        try:
            self._search = await self._threads.run(self._load_retriever)
        except SearchUnavailable as error:
            raise TargetError(str(error)) from error

    async def close(self) -> None:
        """Release the index and the model."""
        self._close()
        self._threads.close()
        if self._answers is not None:
            await self._answers.close()

    async def ask(self, query: str, top_k: int) -> AgentAnswer:
        """Search, and answer if answers were requested."""
        assert self._search is not None, "call open() before ask()"
        from assay.search.sealed_folder import DamagedIndexError

        try:
            found = await self._threads.run(self._search, query, top_k)
        except (SearchUnavailable, DamagedIndexError) as error:
            # The index is gone, which says nothing about a query: an outage, as of any agent.
            raise AgentFailure(FailureKind.CONNECTION, str(error)) from error
        except AssayError as error:
            raise AgentFailure(FailureKind.AGENT_ERROR, str(error)) from error
        doc_ids = tuple(doc_id for doc_id, _ in found)
        if self._answers is None:
            return AgentAnswer(doc_ids=doc_ids, scores=tuple(score for _, score in found))
        return await self._answers.from_documents(query, doc_ids)

    @property
    def takes_context(self) -> bool:
        """Whether it answers at all."""
        return self._answers is not None

    async def answer_from(self, query: str, passages: Sequence[Passage]) -> AgentAnswer:
        """Answer from these passages, without a search."""
        assert self._answers is not None, (
            "this agent does not take a context; check takes_context first"
        )
        return await self._answers.from_passages(query, passages)

    def _load_retriever(self) -> _Search:
        if self._mode == "tuned":  # this extra brings [search] too: one command, not two in turn
            require_extras("builtin:tuned", "lightgbm", "scipy", "threadpoolctl")
        from assay.search.embedding import open_embedder
        from assay.search.index import open_retriever
        from assay.search.retriever import check_request

        mode = check_request("any", 1, self._mode)
        embedder = None if mode == "bm25" else open_embedder(self._embedder)
        retriever = open_retriever(
            self._dataset, mode, embedder=embedder, bm25=self._bm25, progress=self._progress
        )
        self._close = retriever.close
        words = replace(self._bm25, language=retriever.bm25.language)
        settings = {"mode": mode, "bm25": str(words)}
        settings |= {"embedder": embedder.name} if embedder else {}
        self.info = replace(self.info, retriever=settings)
        if learned_from := retriever.learned_from:
            learned = f"learned from {' and '.join(learned_from)}"
            details = "; ".join(filter(None, [learned, self.info.details]))
            self.info = replace(self.info, details=details, learned_from=learned_from)

        def search(query: str, top_k: int) -> list[tuple[str, float]]:
            return [(hit.doc_id, hit.score) for hit in retriever.search(query, top_k, mode=mode)]

        return search


class BuiltinAnswers:
    """Answers from documents that were found or are given.

    Answerers and models are imported here: a run without answers does not need them. `provider` is
    the model that answers, named as for `--judge`; without one, sentences are quoted. Without a
    `dataset`, all questions come with passages.
    """

    def __init__(self, dataset: Dataset | None, provider: str = "") -> None:
        from assay.llm.answerer import open_answerer

        self._documents = dataset.documents if dataset else {}
        self._answerer = open_answerer(provider or EXTRACTIVE)

    @property
    def description(self) -> str:
        """For the record of a run: the answerer, and the versions of its prompts."""
        from assay.llm.answerer import ModelAnswerer

        if isinstance(self._answerer, ModelAnswerer):
            return f"{self._answerer.name}, prompts {', '.join(self._answerer.prompts.values())}"
        return self._answerer.name

    async def from_documents(self, question: str, doc_ids: Sequence[str]) -> AgentAnswer:
        """Answer from documents of the data set."""
        documents = [self._documents[doc_id] for doc_id in doc_ids]
        passages = [Passage(each.id, each.title, each.text) for each in documents]
        return await self.from_passages(question, passages)

    async def from_passages(self, question: str, passages: Sequence[Passage]) -> AgentAnswer:
        """Answer from these passages; a model that gets none answers from memory."""
        from assay.llm.answerer import ModelAnswerer
        from assay.llm.prompt import EMPTY_REPLY

        try:
            if isinstance(self._answerer, ModelAnswerer) and not passages:
                answer = await self._answerer.answer_from_memory(question, _ANSWER_TOKENS)
            else:
                answer = await self._answerer.answer(question, passages, _ANSWER_TOKENS)
        except ProviderError as error:
            # A model that nobody serves is an outage: the run stops, and can be resumed.
            unreachable = error.kind is ProviderFailure.CONNECTION
            kind = FailureKind.CONNECTION if unreachable else FailureKind.AGENT_ERROR
            raise AgentFailure(kind, str(error)) from error
        if EMPTY_REPLY in answer.warnings:
            raise AgentFailure(FailureKind.AGENT_ERROR, EMPTY_REPLY)
        return AgentAnswer(
            doc_ids=tuple(passage.id for passage in passages),
            answer=answer.text,
            citations=tuple(passages[place - 1].id for place in answer.citations),
        )

    async def close(self) -> None:
        """Close the connections to the model."""
        await self._answerer.close()
