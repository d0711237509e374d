"""The providers under the seed's names speak to the services that they are named after."""

import pytest
from tests.llm_providers.model_server import ModelServer
from tests.rag_evaluation.llm_providers import (
    AnthropicProvider,
    LLMProvider,
    OllamaProvider,
    create_llm_provider,
)


async def test_each_provider_asks_its_own_service(monkeypatch: pytest.MonkeyPatch) -> None:
    with ModelServer().running() as server:
        monkeypatch.setenv("RAG_EVAL_PROVIDER", f"ollama:other@{server.url}")
        providers: list[LLMProvider] = [
            OllamaProvider(server.url, "llama3.1:8b"),
            AnthropicProvider("sk-key", "claude", server.url),
            create_llm_provider(),
        ]
        for provider in providers:
            assert await provider.generate("Is it so?", max_tokens=9) == "TRUE"
    asked = [(path, body["model"]) for path, body, _ in server.requests]
    assert asked == [
        ("/api/chat", "llama3.1:8b"),
        ("/v1/messages", "claude"),
        ("/api/chat", "other"),
    ]
