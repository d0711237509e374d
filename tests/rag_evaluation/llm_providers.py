"""The providers under the names and with the arguments that the evaluation's authors gave them."""

from assay.llm.providers.opening import CachedProvider, open_provider
from assay.llm.providers.provider import LLMProvider
from assay.llm.providers.services import AnthropicModel, OllamaModel

__all__ = ["AnthropicProvider", "LLMProvider", "OllamaProvider", "create_llm_provider"]


class OllamaProvider(CachedProvider):
    def __init__(self, base_url: str, model: str) -> None:
        super().__init__(OllamaModel(f"{model}@{base_url}"))


class AnthropicProvider(CachedProvider):
    def __init__(self, api_key: str, model: str, base_url: str | None = None) -> None:
        super().__init__(AnthropicModel(model, api_key, base_url))


def create_llm_provider(provider: str | None = None) -> LLMProvider:
    """`ollama`, `anthropic` and the others; left out, what RAG_EVAL_PROVIDER says."""
    return open_provider(provider)
