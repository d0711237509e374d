"""A model behind any endpoint that speaks as OpenAI's chat completions do."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import httpx

from assay.answer.providers.address import parse_address
from assay.answer.providers.failures import from_status, quoted
from assay.answer.providers.protocol import Completion, Usage
from assay.errors import ProviderError, ProviderFailure

DEFAULT_URL = "https://api.openai.com/v1"
KEY_VARIABLE = "RAG_EVAL_OPENAI_API_KEY"
# How long a reply may take as a whole is the caller's to say.
_TIMEOUT = httpx.Timeout(None, connect=10.0)


class OpenAICompatibleModel:
    def __init__(self, url: str, model: str, api_key: str | None = None) -> None:
        self._url = _endpoint(url)
        self._model = model
        self._key = api_key
        self._where = f"the model service at {urlsplit(self._url).netloc.rpartition('@')[2]}"
        # No connection outlives its call, because the next may come from another event loop.
        headers = {"Connection": "close"}
        if api_key:
            headers["Authorization"] = f"Bearer {api_key}"
        self._client = httpx.AsyncClient(timeout=_TIMEOUT, headers=headers)
        self._temperature: dict[str, Any] = {"temperature": 0, "seed": 0}
        self._limit = "max_tokens"

    @property
    def name(self) -> str:
        return f"openai:{self._model}"

    @property
    def identity(self) -> str:
        """With the address: model names of such endpoints mean something at that place alone."""
        return f"{self.name}@{self._url}"

    async def complete(self, prompt: str, max_tokens: int) -> Completion:
        """Endpoints differ in what they take and name it when they refuse: asked again without."""
        while True:
            try:
                reply = await self._post(prompt, max_tokens)
                return read_chat_completion(reply, self._where)
            except ProviderError as error:
                if error.kind is not ProviderFailure.BAD_REQUEST or not self._yields(str(error)):
                    raise

    def _yields(self, refusal: str) -> bool:
        if "max_completion_tokens" in refusal and self._limit == "max_tokens":
            self._limit = "max_completion_tokens"
            return True
        named = [name for name in self._temperature if name in refusal]
        for name in named:
            del self._temperature[name]
        return bool(named)

    async def _post(self, prompt: str, max_tokens: int) -> Any:
        body = {
            "model": self._model,
            "messages": [{"role": "user", "content": prompt}],
            self._limit: max_tokens,
            **self._temperature,
        }
        try:
            response = await self._client.post(self._url, json=body)
        except httpx.TransportError as error:
            raise ProviderError(
                ProviderFailure.CONNECTION,
                f"{self._where} cannot be reached ({type(error).__name__})",
            ) from None
        if not response.is_success:
            raise from_status(
                self._where,
                response.status_code,
                quoted(response.text, self._key),
                retry_after=response.headers.get("Retry-After"),
                remedy=f"check {KEY_VARIABLE}",
                unknown=f"check the address and the model's name, {self._model!r}",
            )
        try:
            return response.json()
        except ValueError:
            raise _unreadable(self._where) from None

    async def close(self) -> None:
        await self._client.aclose()


def read_chat_completion(reply: Any, where: str) -> Completion:
    """Also for a local model whose library answers in this shape."""
    try:
        choice = reply["choices"][0]
        message, reason = choice["message"], choice.get("finish_reason")
        usage: Mapping[str, Any] = reply.get("usage") or {}
        tokens = Usage(int(usage.get("prompt_tokens", 0)), int(usage.get("completion_tokens", 0)))
        refused = bool(message.get("refusal")) or reason == "content_filter"
        text = message.get("content")
    except (KeyError, IndexError, TypeError, ValueError, AttributeError):
        raise _unreadable(where) from None
    if refused:
        raise ProviderError(ProviderFailure.REFUSAL, f"the model of {where} refused to answer")
    if text is None and reason == "length":  # all its room went into thinking
        text = ""
    if not isinstance(text, str):
        raise _unreadable(where)
    return Completion(text, tokens, "length" if reason == "length" else "end")


def _unreadable(where: str) -> ProviderError:
    return ProviderError(
        ProviderFailure.INVALID_REPLY,
        f"the reply of {where} is no chat completion of OpenAI's shape",
    )


def _endpoint(url: str) -> str:
    parts = parse_address(url, "RAG_EVAL_OPENAI_BASE_URL", DEFAULT_URL)
    path = parts.path.rstrip("/") or "/v1"
    return parts._replace(path=f"{path}/chat/completions").geturl()
