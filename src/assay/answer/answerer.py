"""Answer a question from passages: with a language model, or with quotes if there is no model."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from assay.answer.extractive import ExtractiveAnswerer
from assay.answer.passages import EXTRACTIVE, Answer, Passage, not_found
from assay.answer.prompt import (
    SYSTEM,
    answer_prompts,
    delimited,
    delimiter_code,
    load_prompt,
    question_prompt,
    read_generated,
)

if TYPE_CHECKING:
    from assay.answer.providers.provider import LLMProvider

_STOP_REASONS = {"end": "endTurn", "length": "maxTokens"}


class ModelAnswerer:
    """Answers that a language model writes from passages, or from memory."""

    def __init__(self, provider: "LLMProvider") -> None:
        self._provider = provider

    @property
    def name(self) -> str:
        """The provider's name, `KIND:MODEL`."""
        return self._provider.name

    @property
    def prompts(self) -> dict[str, str]:
        """Names and ids of the prompts, for the record of a run."""
        return answer_prompts()

    async def answer(self, question: str, passages: Sequence[Passage], max_tokens: int) -> Answer:
        """An answer with citations. Without passages the model is not asked: nothing was found."""
        if not passages:
            return not_found(self.name)
        prompt = f"{SYSTEM}\n\n{question_prompt(question, passages)}"
        return await self._ask(prompt, len(passages), max_tokens)

    async def answer_from_memory(self, question: str, max_tokens: int) -> Answer:
        """What the model answers without any document: from memory, without retrieval."""
        code = delimiter_code(question)
        marks = delimited("question", code, question)
        prompt = load_prompt("question_alone").fill(code=code, question=marks)
        return await self._ask(prompt, 0, max_tokens)

    async def close(self) -> None:
        """Close the provider, if it can be closed."""
        close = getattr(self._provider, "close", None)
        if close is not None:
            await close()

    async def _ask(self, prompt: str, passages: int, max_tokens: int) -> Answer:
        from assay.answer.providers.opening import complete

        reply = await complete(self._provider, prompt, max_tokens)
        stop_reason = _STOP_REASONS[reply.stop_reason]
        return read_generated(reply.text, passages, model=self.name, stop_reason=stop_reason)


def open_answerer(spec: str | None = None) -> ExtractiveAnswerer | ModelAnswerer:
    """The answerer that `spec` names, else `RAG_EVAL_PROVIDER`, else the one without a model."""
    if spec == EXTRACTIVE:
        return ExtractiveAnswerer()
    from assay.answer.providers.opening import configured_spec, open_provider

    chosen = spec or configured_spec() or EXTRACTIVE
    return ExtractiveAnswerer() if chosen == EXTRACTIVE else ModelAnswerer(open_provider(chosen))
