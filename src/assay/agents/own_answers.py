"""Answers of the built-in agent: from whatever documents it found, or is given."""

from collections.abc import Sequence

from assay.agents.protocol import AgentAnswer
from assay.answer.answerer import ModelAnswerer, open_answerer
from assay.answer.citations import EMPTY_REPLY
from assay.answer.extractive import EXTRACTIVE
from assay.answer.passages import Passage
from assay.data.dataset import Dataset
from assay.errors import AgentFailure, FailureKind, ProviderError

_TOKENS = 500


class OwnAnswers:
    """`provider` as `--judge` names one; left empty, sentences are quoted and no model is asked."""

    def __init__(self, dataset: Dataset, provider: str = "") -> None:
        self._documents = dataset.documents
        self._answerer = open_answerer(provider or EXTRACTIVE)

    @property
    def description(self) -> str:
        """For the record of a run: who answers, and by which wording of the task."""
        if isinstance(self._answerer, ModelAnswerer):
            return f"{self._answerer.name}, prompts {', '.join(self._answerer.prompts.values())}"
        return self._answerer.name

    async def from_documents(self, question: str, doc_ids: Sequence[str]) -> AgentAnswer:
        documents = [self._documents[doc_id] for doc_id in doc_ids]
        passages = [Passage(each.id, each.title, each.text) for each in documents]
        return await self.from_passages(question, passages)

    async def from_passages(self, question: str, passages: Sequence[Passage]) -> AgentAnswer:
        try:
            if isinstance(self._answerer, ModelAnswerer) and not passages:
                answer = await self._answerer.answer_from_memory(question, _TOKENS)
            else:
                answer = await self._answerer.answer(question, passages, _TOKENS)
        except ProviderError as error:
            raise AgentFailure(FailureKind.AGENT_ERROR, str(error)) from error
        if EMPTY_REPLY in answer.warnings:
            raise AgentFailure(FailureKind.AGENT_ERROR, EMPTY_REPLY)
        return AgentAnswer(
            doc_ids=tuple(passage.id for passage in passages),
            answer=answer.text,
            citations=tuple(passages[place - 1].id for place in answer.citations),
        )

    async def close(self) -> None:
        await self._answerer.close()
