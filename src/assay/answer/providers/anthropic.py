"""A model of Anthropic, or of a server that implements its Messages API."""

import os
from typing import Any

import httpx

from assay.answer.providers.provider import (
    REPLY_MAX_BYTES,
    Completion,
    TokenUsage,
    http_failure,
    parse_address,
    request_failure,
    setting,
)
from assay.errors import ProviderError, ProviderFailure, UsageError
from assay.net.client import open_client
from assay.net.redact import redact_secrets, redact_url

DEFAULT_MODEL = "claude-3-5-sonnet-20241022"
KEY_VARIABLE = "RAG_EVAL_ANTHROPIC_API_KEY"
_DEFAULT_URL = "https://api.anthropic.com"
_API_VERSION = "2023-06-01"


def open_anthropic(spec: str) -> "AnthropicModel":
    """The model of `[MODEL]`; key, address and default model come from the environment."""
    if "@" in spec:
        raise UsageError("'anthropic:MODEL' takes no URL; set RAG_EVAL_ANTHROPIC_BASE_URL instead")
    key = setting(KEY_VARIABLE)
    if key is None:
        raise ProviderError(
            ProviderFailure.SETTING, f"the provider 'anthropic' needs a key: set {KEY_VARIABLE}"
        )
    model = spec or setting("RAG_EVAL_ANTHROPIC_MODEL") or DEFAULT_MODEL
    return AnthropicModel(key, model, setting("RAG_EVAL_ANTHROPIC_BASE_URL"))


class AnthropicModel:
    """A model of Anthropic's API, or of a server that implements it."""

    def __init__(self, api_key: str, model: str, base_url: str | None = None) -> None:
        address = base_url or os.environ.get("ANTHROPIC_BASE_URL") or _DEFAULT_URL
        parse_address(address, "RAG_EVAL_ANTHROPIC_BASE_URL, ANTHROPIC_BASE_URL", _DEFAULT_URL)
        self._base = address.rstrip("/")
        self._key = api_key
        self._model = model
        # Older models need it to be repeatable, newer ones refuse it.
        self._sampling: dict[str, float] = {"temperature": 0.0}
        # No connection outlives its call, because the next may come from another event loop.
        headers = {
            "Connection": "close",
            "anthropic-version": _API_VERSION,
            "x-api-key": api_key,
        }
        self._client = open_client(headers=headers, max_bytes=REPLY_MAX_BYTES)

    @property
    def name(self) -> str:
        """`anthropic:MODEL`."""
        return f"anthropic:{self._model}"

    @property
    def identity(self) -> str:
        """With the address, unless it is Anthropic's: other servers may reply differently."""
        at = redact_url(self._base).rstrip("/")
        return self.name if at == _DEFAULT_URL else f"{self.name}@{at}"

    async def complete(self, prompt: str, max_tokens: int) -> Completion:
        """The reply. A model that refuses a temperature is asked without one from then on."""
        try:
            return await self._once(prompt, max_tokens)
        except ProviderError as error:
            refused = error.kind is ProviderFailure.BAD_REQUEST and "temperature" in str(error)
            if not refused or not self._sampling:
                raise
            self._sampling = {}
            return await self._once(prompt, max_tokens)

    async def _once(self, prompt: str, max_tokens: int) -> Completion:
        body = {
            "model": self._model,
            "max_tokens": max_tokens,
            "messages": [{"role": "user", "content": prompt}],
            **self._sampling,
        }
        try:
            response = await self._client.post(f"{self._base}/v1/messages", json=body)
        except httpx.RequestError as error:
            raise request_failure("Anthropic", error) from None
        if not response.is_success:
            raise self._failure(response)
        try:
            return _read(response.json())
        except (ValueError, RecursionError):
            raise _unreadable() from None

    def _failure(self, response: httpx.Response) -> ProviderError:
        return http_failure(
            "Anthropic",
            response.status_code,
            redact_secrets(response.text, self._key),
            retry_after=response.headers.get("retry-after"),
            bad_key=f"check {KEY_VARIABLE}",
            not_found=f"check the model name, {self._model!r} (RAG_EVAL_ANTHROPIC_MODEL)",
        )

    async def close(self) -> None:
        """Close the HTTP client."""
        await self._client.aclose()


def _read(message: Any) -> Completion:
    try:
        text = "".join(block["text"] for block in message["content"] if block["type"] == "text")
        usage = message["usage"]
        tokens = TokenUsage(int(usage["input_tokens"]), int(usage["output_tokens"]))
        stop_reason = message.get("stop_reason")
    except (KeyError, TypeError, ValueError, AttributeError):
        raise _unreadable() from None
    if stop_reason == "refusal":
        raise ProviderError(ProviderFailure.REFUSAL, "Anthropic's model refused to answer")
    return Completion(text, tokens, "length" if stop_reason == "max_tokens" else "end")


def _unreadable() -> ProviderError:
    return ProviderError(
        ProviderFailure.INVALID_REPLY, "the response from Anthropic does not match its API"
    )
