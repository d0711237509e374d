"""A model behind any endpoint that implements OpenAI's chat completions."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import httpx

from assay.answer.providers.provider import (
    REPLY_MAX_BYTES,
    Completion,
    TokenUsage,
    http_failure,
    parse_address,
    request_failure,
    setting,
    split_spec,
)
from assay.errors import ProviderError, ProviderFailure, UsageError
from assay.net.client import open_client
from assay.net.outbound import UNRESTRICTED, OutboundPolicy, policy_of_process
from assay.net.redact import redact_secrets

DEFAULT_URL = "https://api.openai.com/v1"
KEY_VARIABLE = "RAG_EVAL_OPENAI_API_KEY"


def open_openai(spec: str) -> "OpenAIModel":
    """The model of `MODEL[@URL]`; what is left out comes from the environment."""
    model, url = split_spec(spec)
    model = model or setting("RAG_EVAL_OPENAI_MODEL") or ""
    if not model:
        raise UsageError(
            "no model given for the provider 'openai'; use openai:MODEL, or set "
            "RAG_EVAL_OPENAI_MODEL to a name that the endpoint knows"
        )
    policy = policy_of_process() if url else UNRESTRICTED
    url = url or setting("RAG_EVAL_OPENAI_BASE_URL") or DEFAULT_URL
    # In a restricted process the address came in a request, and the key is the operator's.
    key = None if policy.public_only else setting(KEY_VARIABLE)
    if key is None and url == DEFAULT_URL:
        raise ProviderError(
            ProviderFailure.SETTING,
            f"OpenAI needs a key: set {KEY_VARIABLE}; for an endpoint without keys, set "
            "RAG_EVAL_OPENAI_BASE_URL",
        )
    return OpenAIModel(url, model, key, policy)


class OpenAIModel:
    """A model of OpenAI or of a compatible server such as vLLM or llama.cpp."""

    def __init__(
        self,
        url: str,
        model: str,
        api_key: str | None = None,
        policy: OutboundPolicy = UNRESTRICTED,
    ) -> None:
        self._url = _endpoint(url)
        self._model = model
        self._key = api_key
        self._where = f"the model service at {urlsplit(self._url).netloc.rpartition('@')[2]}"
        # No connection outlives its call, because the next may come from another event loop.
        headers = {"Connection": "close"}
        if api_key:
            headers["Authorization"] = f"Bearer {api_key}"
        self._client = open_client(policy, headers=headers, max_bytes=REPLY_MAX_BYTES)
        self._sampling: dict[str, int] = {"temperature": 0, "seed": 0}
        self._limit = "max_tokens"

    @property
    def name(self) -> str:
        """`openai:MODEL`."""
        return f"openai:{self._model}"

    @property
    def identity(self) -> str:
        """With the address: two endpoints may use one name for two models."""
        return f"{self.name}@{self._url}"

    async def complete(self, prompt: str, max_tokens: int) -> Completion:
        """The reply. A parameter that the endpoint refuses by name is left out from then on."""
        while True:
            try:
                reply = await self._post(prompt, max_tokens)
                return read_chat_completion(reply, self._where)
            except ProviderError as error:
                bad_request = error.kind is ProviderFailure.BAD_REQUEST
                if not bad_request or not self._drop_refused(str(error)):
                    raise

    def _drop_refused(self, refusal: str) -> bool:
        if "max_completion_tokens" in refusal and self._limit == "max_tokens":
            self._limit = "max_completion_tokens"
            return True
        named = [name for name in self._sampling if name in refusal]
        for name in named:
            del self._sampling[name]
        return bool(named)

    async def _post(self, prompt: str, max_tokens: int) -> Any:
        body = {
            "model": self._model,
            "messages": [{"role": "user", "content": prompt}],
            self._limit: max_tokens,
            **self._sampling,
        }
        try:
            response = await self._client.post(self._url, json=body)
        except httpx.RequestError as error:
            raise request_failure(self._where, error) from None
        if not response.is_success:
            raise http_failure(
                self._where,
                response.status_code,
                redact_secrets(response.text, self._key),
                retry_after=response.headers.get("Retry-After"),
                bad_key=f"check {KEY_VARIABLE}",
                not_found=f"check the URL and the model name, {self._model!r}",
            )
        try:
            return response.json()
        except (ValueError, RecursionError):
            raise _unreadable(self._where) from None

    async def close(self) -> None:
        """Close the HTTP client."""
        await self._client.aclose()


def read_chat_completion(reply: Any, where: str) -> Completion:
    """The completion in a reply of OpenAI's shape, which llama.cpp uses too."""
    try:
        choice = reply["choices"][0]
        message, reason = choice["message"], choice.get("finish_reason")
        usage: Mapping[str, Any] = reply.get("usage") or {}
        tokens = TokenUsage(
            int(usage.get("prompt_tokens", 0)), int(usage.get("completion_tokens", 0))
        )
        refused = bool(message.get("refusal")) or reason == "content_filter"
        text = message.get("content")
    except (KeyError, IndexError, TypeError, ValueError, AttributeError):
        raise _unreadable(where) from None
    if refused:
        raise ProviderError(ProviderFailure.REFUSAL, f"the model at {where} refused to answer")
    if text is None and reason == "length":  # all tokens were used for reasoning
        text = ""
    if not isinstance(text, str):
        raise _unreadable(where)
    return Completion(text, tokens, "length" if reason == "length" else "end")


def _unreadable(where: str) -> ProviderError:
    return ProviderError(
        ProviderFailure.INVALID_REPLY, f"the response from {where} is not an OpenAI chat completion"
    )


def _endpoint(url: str) -> str:
    parts = parse_address(url, "RAG_EVAL_OPENAI_BASE_URL", DEFAULT_URL)
    path = parts.path.rstrip("/") or "/v1"
    return parts._replace(path=f"{path}/chat/completions").geturl()
