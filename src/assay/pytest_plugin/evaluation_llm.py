"""The model that judges, as a provider and as a function."""

from dataclasses import dataclass

from assay.answer.providers.provider import LLMProvider

_TOKENS = 100


@dataclass(frozen=True, slots=True)
class EvaluationLLM:
    """An `LLMProvider`, which may also be called with a prompt alone."""

    provider: LLMProvider

    @property
    def name(self) -> str:
        return self.provider.name

    async def generate(self, prompt: str, max_tokens: int = _TOKENS) -> str:
        return await self.provider.generate(prompt, max_tokens)

    async def __call__(self, prompt: str) -> str:
        return await self.generate(prompt)
