"""Which model is meant, by a word or by the environment."""

import re
from pathlib import Path
from typing import Any

import pytest
from tests.llm_providers.conftest import KEY
from tests.llm_providers.model_server import ModelServer

from assay.errors import AssayError, UsageError
from assay.llm.answerer import ExtractiveAnswerer, ModelAnswerer, open_answerer
from assay.llm.providers.opening import open_model, open_provider


@pytest.mark.parametrize(
    ("spec", "given", "name", "calls", "seconds"),
    [
        (None, {}, "anthropic:claude-sonnet-4-5", 4, 120),
        ("anthropic:claude-haiku-4-5", {}, "anthropic:claude-haiku-4-5", 4, 120),
        ("openai:m@https://api.example.com/v1", {}, "openai:m", 4, 120),
        ("ollama:m@http://10.0.0.1:11434", {}, "ollama:m", 4, 120),
        # A model on this machine gets one call at a time, and ten minutes.
        ("ollama", {}, "ollama:from-variable", 1, 600),
        ("ollama:qwen3:0.6b", {}, "ollama:qwen3:0.6b", 1, 600),
        ("openai:m@http://[::1]:8000/v1", {}, "openai:m", 1, 600),
        ("ollama:m", {"concurrency": 3, "timeout": 30.0}, "ollama:m", 3, 30),
    ],
)
def test_a_word_or_the_environment_names_a_model(
    spec: str | None,
    given: dict[str, Any],
    name: str,
    calls: int,
    seconds: float,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("RAG_EVAL_PROVIDER", "anthropic")
    monkeypatch.setenv("RAG_EVAL_OLLAMA_MODEL", "from-variable")
    monkeypatch.setenv("RAG_EVAL_ANTHROPIC_API_KEY", f"{KEY}\n")
    provider = open_provider(spec, **given)
    assert (provider.name, provider.concurrency) == (name, calls)
    assert provider.retries.timeout == seconds


@pytest.mark.parametrize("variable", ["RAG_EVAL_OLLAMA_BASE_URL", "OLLAMA_HOST"])
async def test_addresses_of_ollama(
    variable: str, server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OLLAMA_HOST", "127.0.0.1:9")
    monkeypatch.setenv(variable, server.url.removeprefix("http://"))
    async with open_provider("ollama") as provider:
        assert await provider.generate("p") == "TRUE"


@pytest.mark.parametrize(("address", "path"), [("", "/v1"), ("/v1/", "/v1"), ("/api/x", "/api/x")])
async def test_the_version_may_be_left_out(address: str, path: str, server: ModelServer) -> None:
    async with open_provider(f"openai:m@{server.url}{address}") as provider:
        await provider.generate("p")
    assert server.requests[0][0] == f"{path}/chat/completions"
    assert "authorization" not in server.requests[0][2]


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("anthropic", "needs a key: set ANTHROPIC_API_KEY"),
        ("openai:gpt-4o", "set OPENAI_API_KEY"),
        ("openai", "no model given"),
        ("openai:m@ftp://x", "must be an http"),
        ("magic:m", "unknown provider 'magic:m'; choose one of ollama"),
        ("extractive", "can neither judge"),
        ("gguf:/nowhere/model.gguf", "no such GGUF file: '/nowhere/model.gguf'"),
    ],
)
def test_a_mistake_is_told_in_words(spec: str, message: str) -> None:
    with pytest.raises(AssayError) as caught:
        open_provider(spec)
    if "xllamacpp" not in str(caught.value):  # not installed: told first, with the remedy
        assert message in str(caught.value)


@pytest.mark.parametrize(
    ("spec", "url"),
    [
        ("openai:z@http://bob:PW@host/v1", ""),
        ("ollama:z@bob:PW@host:11434", ""),
        ("anthropic:z@http://bob:PW@host", ""),
        ("opena:z@http://bob:PW@host", ""),
        ("http://bob:PW@host", ""),
        ("ollama:m", "http://h:abc"),
        ("openai:m", "http://bob:PW@[h"),
        ("anthropic:m", "http://bob:PW@h\x01"),
    ],
)
def test_no_password_is_told(spec: str, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAG_EVAL_ANTHROPIC_API_KEY", KEY)
    variable = f"RAG_EVAL_{spec.partition(':')[0].upper()}_BASE_URL" if url else ""
    if url:
        monkeypatch.setenv(variable, url)
    with pytest.raises(UsageError) as caught:
        open_provider(spec)
    assert variable in str(caught.value)
    assert not {"PW", "bob"} & set(re.split(r"\W", str(caught.value)))


def test_without_any_setting_answers_are_quotes() -> None:
    assert isinstance(open_answerer(), ExtractiveAnswerer)
    assert isinstance(open_answerer("extractive"), ExtractiveAnswerer)
    assert isinstance(open_answerer("ollama"), ModelAnswerer)
    with pytest.raises(UsageError):
        open_answerer("magic")


def test_a_file_that_is_no_model_is_told(tmp_path: Path) -> None:
    pytest.importorskip("xllamacpp", reason="xllamacpp is not installed (extra gguf)")
    import asyncio

    path = tmp_path / "broken.gguf"
    path.write_bytes(b"no model at all")
    with pytest.raises(UsageError, match=r"broken\.gguf.*cannot be loaded"):
        asyncio.run(open_provider(f"gguf:{path}", cache=False).generate("p"))


@pytest.mark.parametrize("spec", ["openai:m@http://127.0.0.1:1/v1", "ollama:m@http://127.0.0.1:1"])
async def test_keys_stay_with_their_address(spec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server puts what it starts under its policy: there, addresses come from visitors."""
    key, kind = "sk-operators-key", spec.partition(":")[0]
    monkeypatch.setenv("RAG_EVAL_OPENAI_API_KEY", key)
    monkeypatch.setenv("OLLAMA_API_KEY", key)
    monkeypatch.setenv("RAG_EVAL_OPENAI_BASE_URL", "http://models.internal/v1")

    def sent(model: object) -> str:
        client = model._client  # type: ignore[attr-defined]
        return str(client.headers.get("authorization"))

    assert key in sent(open_model(spec))
    monkeypatch.setenv("ASSAY_OUTBOUND_POLICY", "127.0.0.1:1")
    assert key not in sent(open_model(spec))
    assert key in sent(open_model(f"{kind}:m"))  # where the operator sends it, it still goes
