"""Answers that a model writes from passages, or, where there is no model, quotes from them."""

from collections.abc import Sequence

from assay.answer.citations import read_generated
from assay.answer.extractive import ExtractiveAnswerer
from assay.answer.passages import Answer, Answerer, Passage, not_found
from assay.answer.prompt import SYSTEM, answer_prompts, question_prompt
from assay.answer.prompt_files import load_prompt, mark_code, marked
from assay.answer.providers.careful import CarefulProvider
from assay.answer.providers.opening import EXTRACTIVE, configured_spec, open_provider
from assay.answer.providers.protocol import LLMProvider

_STOPPED = {"end": "endTurn", "length": "maxTokens"}


class ModelAnswerer:
    def __init__(self, provider: LLMProvider) -> None:
        self._provider = provider

    @property
    def name(self) -> str:
        return self._provider.name

    @property
    def prompts(self) -> dict[str, str]:
        """For the record of a run."""
        return answer_prompts()

    async def answer(self, question: str, passages: Sequence[Passage], max_tokens: int) -> Answer:
        """Without passages there is no evidence, so nobody is asked."""
        if not passages:
            return not_found(self.name)
        prompt = f"{SYSTEM}\n\n{question_prompt(question, passages)}"
        text, stop_reason = await self._ask(prompt, max_tokens)
        return read_generated(text, len(passages), model=self.name, stop_reason=stop_reason)

    async def answer_from_memory(self, question: str, max_tokens: int) -> Answer:
        """What the model says without any document: who is right then does not need retrieval."""
        code = mark_code(question)
        marks = marked("question", code, question)
        prompt = load_prompt("question_alone").fill(code=code, question=marks)
        text, stop_reason = await self._ask(prompt, max_tokens)
        return read_generated(text, 0, model=self.name, stop_reason=stop_reason)

    async def _ask(self, prompt: str, max_tokens: int) -> tuple[str, str]:
        """Only our own provider tells why a reply ended; somebody else's need not know."""
        if not isinstance(self._provider, CarefulProvider):
            return await self._provider.generate(prompt, max_tokens), "endTurn"
        completion = await self._provider.complete(prompt, max_tokens)
        return completion.text, _STOPPED[completion.stop_reason]


def open_answerer(spec: str | None = None) -> Answerer:
    """`spec`, else what `RAG_EVAL_PROVIDER` says, else the one that needs no model."""
    chosen = spec or configured_spec() or EXTRACTIVE
    if chosen == EXTRACTIVE:
        return ExtractiveAnswerer()
    return ModelAnswerer(open_provider(chosen))
