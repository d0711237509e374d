"""What goes over the wire to each service, and what is made of everything that comes back."""

import logging
from typing import Any

import pytest
from tests.llm_providers.conftest import KEY, OpenProvider
from tests.llm_providers.model_server import WAITS, ModelServer

from assay.errors import ProviderError, ProviderFailure
from assay.llm.providers.opening import CachedProvider
from assay.net.retry import RetryPolicy
from assay.privacy import private_mode

WRONG_SHAPES: list[Any] = [{}, [], {"content": 7}, {"choices": []}, {"message": None}]
PATHS = {"ollama": "/api/chat", "anthropic": "/v1/messages", "openai": "/v1/chat/completions"}


async def failure(provider: CachedProvider) -> ProviderError:
    with pytest.raises(ProviderError) as caught:
        await provider.generate("question", 7)
    return caught.value


@pytest.mark.parametrize("kind", PATHS)
async def test_a_prompt_and_its_reply(kind: str, server: ModelServer, opened: OpenProvider) -> None:
    server.text = "Yes – é"
    provider = opened(kind)
    assert await provider.generate("frage ü", 7) == "Yes – é"
    path, body, _ = server.requests[0]
    assert path == PATHS[kind]
    assert body["messages"] == [{"role": "user", "content": "frage ü"}]
    assert body.get("options", body)["temperature"] == 0
    assert 7 in (body.get("max_tokens"), body.get("options", {}).get("num_predict"))
    assert provider.name.startswith(kind + ":")
    spent = provider.spending
    assert (spent.calls, spent.input_tokens, spent.output_tokens) == (1, 12, 3)
    server.patch = {"done_reason": "length", "stop_reason": "max_tokens"}
    server.patch["choices"] = [{"message": {"content": "TR"}, "finish_reason": "length"}]
    assert (await provider.complete("question", 1)).stop_reason == "length"


@pytest.mark.parametrize("kind", PATHS)
async def test_what_passes_is_asked_again_after_the_time_the_service_names(
    kind: str, server: ModelServer, opened: OpenProvider, pauses: list[float]
) -> None:
    server.faults = [
        (429, {"Retry-After": "7"}, {"error": {"message": "slow down"}}),
        (500, {}, b"oops"),
        (529, {}, {"error": {"message": "Overloaded"}}),
    ]
    assert await opened(kind).generate("question") == "TRUE"
    assert len(server.requests) == 4
    assert pauses[0] == 7.0
    assert 0 <= pauses[1] <= 2.0
    assert 0 <= pauses[2] <= 4.0


@pytest.mark.parametrize("kind", PATHS)
@pytest.mark.parametrize(
    ("status", "reply", "why", "attempts"),
    [
        *((200, reply, ProviderFailure.INVALID_REPLY, 4) for reply in WRONG_SHAPES),
        (200, b'{"choices": [', ProviderFailure.INVALID_REPLY, 4),
        (503, {"error": {"message": "loading"}}, ProviderFailure.SERVER, 4),
        (404, {"error": {"message": "no such model"}}, ProviderFailure.BAD_REQUEST, 1),
        (WAITS, b"", ProviderFailure.TIMEOUT, 1),
    ],
)
async def test_a_failure_is_named_and_asked_again_if_that_can_help(
    kind: str,
    status: int,
    reply: Any,
    why: ProviderFailure,
    attempts: int,
    server: ModelServer,
    opened: OpenProvider,
) -> None:
    server.faults = [(status, {}, reply)] * 4
    once = {"retries": RetryPolicy(attempts=1, timeout=0.3)} if status == WAITS else {}
    error = await failure(opened(kind, **once))
    assert (error.kind, len(server.requests)) == (why, attempts)
    if status >= 400:
        assert reply["error"]["message"] in str(error)
    assert ("ollama pull llama3.1:8b" in str(error)) == ((kind, status) == ("ollama", 404))


@pytest.mark.parametrize("kind", ["anthropic", "openai"])
async def test_a_key_is_sent_and_never_told(
    kind: str,
    server: ModelServer,
    opened: OpenProvider,
    caplog: pytest.LogCaptureFixture,
    pauses: list[float],
) -> None:
    caplog.set_level(logging.DEBUG)
    provider = opened(kind)
    server.faults = [(401, {}, {"error": {"message": f"Incorrect key: {KEY}"}})]
    error = await failure(provider)
    _, _, headers = server.requests[0]
    assert KEY in (headers.get("x-api-key") or headers["authorization"].removeprefix("Bearer "))
    assert error.kind is ProviderFailure.REFUSED_KEY
    assert f"check RAG_EVAL_{kind.upper()}_API_KEY" in str(error)
    everything = f"{error!s} {error!r} {provider!r} {vars(error)} {caplog.text}"
    assert "very" not in everything
    assert pauses == []


@pytest.mark.parametrize(
    ("kind", "patch"),
    [
        ("anthropic", {"stop_reason": "refusal", "content": []}),
        ("openai", {"choices": [{"message": {"content": None, "refusal": "I cannot"}}]}),
        ("openai", {"choices": [{"message": {}, "finish_reason": "content_filter"}]}),
    ],
)
async def test_a_refusal_is_known_as_one_and_not_asked_again(
    kind: str, patch: dict[str, Any], server: ModelServer, opened: OpenProvider
) -> None:
    server.patch = patch
    assert (await failure(opened(kind))).kind is ProviderFailure.REFUSAL
    assert len(server.requests) == 1


MAX_TOKENS = " Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead."


@pytest.mark.parametrize("private", [False, True])
@pytest.mark.parametrize(
    ("kind", "words", "refused", "sent"),
    [
        ("anthropic", "temperature is deprecated for this model", "temperature", "max_tokens"),
        ("openai", "temperature is deprecated for this model", "temperature", "seed"),
        ("openai", "x" * 500 + MAX_TOKENS, "max_tokens", "max_completion_tokens"),
    ],
)
async def test_a_refused_parameter_is_dropped(
    kind: str,
    words: str,
    refused: str,
    sent: str,
    private: bool,
    server: ModelServer,
    opened: OpenProvider,
) -> None:
    server.faults = [(400, {}, {"error": {"message": words}})]
    provider = opened(kind)
    with private_mode(private):
        for prompt in ("question", "another"):
            assert await provider.generate(prompt, 9) == "TRUE"
            assert refused not in server.last_body
            assert sent in server.last_body
    assert len(server.requests) == 3


async def test_ollama_gets_room_for_the_prompt(server: ModelServer, opened: OpenProvider) -> None:
    """Left alone it would cut a long prompt in silence."""
    for length, context in ((100, 4096), (20_000, 8192), (60_000, 32_768)):
        await opened("ollama").generate("x" * length)
        assert server.last_body["options"]["num_ctx"] == context
