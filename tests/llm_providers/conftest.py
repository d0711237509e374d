"""A clean environment, a server, and pauses that are counted instead of waited."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.llm_providers.model_server import ModelServer

from assay.llm.providers.opening import CachedProvider, open_provider
from assay.net.retry import RetryPolicy

KEY = "sk-very-secret-0123456789"
OpenProvider = Callable[..., CachedProvider]


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for kind in ("OLLAMA", "ANTHROPIC", "OPENAI"):
        for name in ("BASE_URL", "MODEL", "API_KEY"):
            monkeypatch.delenv(f"RAG_EVAL_{kind}_{name}", raising=False)
            monkeypatch.delenv(f"{kind}_{name}", raising=False)
    for name in ("RAG_EVAL_PROVIDER", "RAG_EVAL_PRICES", "OLLAMA_HOST"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ASSAY_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer().running() as server:
        yield server


@pytest.fixture
def pauses() -> list[float]:
    return []


@pytest.fixture
def retries(pauses: list[float]) -> RetryPolicy:
    async def sleep(seconds: float) -> None:
        pauses.append(seconds)

    return RetryPolicy(attempts=4, timeout=20.0, first_delay=1.0, max_delay=60.0, sleep=sleep)


@pytest.fixture
def opened(
    server: ModelServer, retries: RetryPolicy, monkeypatch: pytest.MonkeyPatch
) -> OpenProvider:

    def open_one(kind: str, **options: object) -> CachedProvider:
        monkeypatch.setenv("RAG_EVAL_OLLAMA_BASE_URL", server.url)
        monkeypatch.setenv("RAG_EVAL_ANTHROPIC_BASE_URL", server.url)
        monkeypatch.setenv("RAG_EVAL_OPENAI_BASE_URL", server.url)
        monkeypatch.setenv("RAG_EVAL_ANTHROPIC_API_KEY", KEY)
        monkeypatch.setenv("RAG_EVAL_OPENAI_API_KEY", KEY)
        monkeypatch.setenv("RAG_EVAL_OPENAI_MODEL", "gpt-4o-mini")
        settings: dict[str, object] = {"retries": retries, "cache": False, **options}
        return open_provider(kind, **settings)  # type: ignore[arg-type]

    return open_one
