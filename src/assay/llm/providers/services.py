"""Models behind HTTP services: OpenAI's chat completions, Anthropic's Messages, Ollama's chat, and
servers that implement one of them.
"""

from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import SplitResult, urlsplit

import httpx

from assay.errors import (
    RATE_LIMITED,
    AgentFailure,
    FailureKind,
    ProviderError,
    ProviderFailure,
    UsageError,
)
from assay.llm.providers.provider import Completion, max_tokens_of, setting
from assay.net.client import open_client
from assay.net.http import classify_http_errors
from assay.net.json import JsonObject, parse_json
from assay.net.outbound import UNRESTRICTED, policy_of_process
from assay.net.redact import redact_secrets, redact_url
from assay.net.retry import parse_retry_after

MAX_REPLY_BYTES = 8_000_000  # the longest texts are below one percent of it
_NEWER_LIMIT = "max_completion_tokens"
_MIN_CONTEXT, _MAX_CONTEXT = 4096, 131_072


class ServiceModel:
    """A model of a service, asked by one POST: `OpenAIModel("gpt-4o-mini")`; one subclass a format.

    `spec` is `[MODEL[@URL]]`; what it leaves out comes from the environment, from the first of the
    variables that is set, or is the default.
    """

    kind = ""
    models: tuple[str, ...] = ()
    default_model = ""
    addresses: tuple[str, ...] = ()
    default_address = ""
    path = ""
    keys: tuple[str, ...] = ()
    requires_key = True  # at the default address
    key_header = "Authorization"
    headers: Mapping[str, str] = {}
    hint = ""  # if the service cannot be reached
    hint_404 = "check the URL and the model name, {model!r}"
    # Parameters that make replies repeatable, as far as the service allows them.
    sampling: Mapping[str, float] = {"temperature": 0}

    def __init__(self, spec: str, key: str | None = None, address: str | None = None) -> None:
        model, _, url = spec.partition("@")
        if "@" in url:  # command lines show in the process list
            variable = self.addresses[0]
            raise UsageError(f"a model URL must not have a password here; set {variable} instead")
        # In a restricted process an address came in a request, and the key is the operator's.
        policy = policy_of_process() if url else UNRESTRICTED
        key = key or (None if policy.public_only else setting(*self.keys))
        given = self._parse(address or url or setting(*self.addresses) or self.default_address)
        model = model or setting(*self.models) or self.default_model
        if not model:
            names = f"{self.kind}:MODEL, or set {self.models[0]}"
            raise UsageError(f"no model given: use {names}")
        full = given.geturl().rstrip("/")
        if key is None and self.requires_key and full == self.default_address:
            message = f"{self.kind!r} needs a key: set {self.keys[-1]}, or {self.addresses[0]}"
            raise ProviderError(ProviderFailure.SETTING, message)
        self._url, self._model, self._key = f"{full}{self.path}", model, key
        self._service = f"{self.kind} at {given.netloc.rpartition('@')[2]}"
        self.name = f"{self.kind}:{model}"
        # With the address: two endpoints may use one name for two models.
        self.identity = f"{self.name}@{redact_url(self._url)}"
        self._sampling = dict(self.sampling)
        self._limit = "max_tokens"
        # No connection outlives its call, because the next may come from another event loop.
        sent = {"Connection": "close", **self.headers}
        if key:
            sent[self.key_header] = f"Bearer {key}" if self.key_header == "Authorization" else key
        self._client = open_client(policy, headers=sent, max_bytes=MAX_REPLY_BYTES)

    def _parse(self, url: str) -> SplitResult:
        """The parts of the service's address; `UsageError` if it is not one."""
        try:
            parts = urlsplit(url)
            _ = parts.port, httpx.URL(url)
            if parts.scheme in ("http", "https") and parts.hostname:
                return parts
        except (ValueError, httpx.InvalidURL):
            pass
        got = "a URL with an '@' (not shown)" if "@" in url else repr(url)
        form = f"an http(s) URL such as {self.default_address}, got {got}"
        raise UsageError(f"the model URL ({', '.join(self.addresses)}) must be {form}")

    async def complete(self, prompt: str, max_tokens: int) -> Completion:
        """The reply. A parameter that the service refuses by name is left out from then on."""
        while True:
            body = self._body(prompt, max_tokens)
            try:
                return read_reply(self._read, await self._post(body), self._service)
            except ProviderError as error:
                if error.kind is not ProviderFailure.BAD_REQUEST:
                    raise
                for name in error.refused:
                    self._sampling.pop(name, None)
                if _NEWER_LIMIT in error.refused:
                    self._limit = _NEWER_LIMIT
                if self._body(prompt, max_tokens) == body:  # nor did a call beside this one
                    raise

    async def close(self) -> None:
        """Close the HTTP client."""
        await self._client.aclose()

    def _body(self, prompt: str, max_tokens: int) -> JsonObject:
        messages = [{"role": "user", "content": prompt}]
        limit = {self._limit: max_tokens}
        return {"model": self._model, "messages": messages, **limit, **self._sampling}

    @staticmethod
    def _read(reply: Any) -> Completion:
        raise NotImplementedError

    async def _post(self, body: JsonObject) -> Any:
        """The JSON of the response; None for one that is not JSON."""
        try:
            with classify_http_errors():
                response = await self._client.post(self._url, json=body)
        except AgentFailure as failure:
            if failure.kind in (FailureKind.PROTOCOL, FailureKind.INVALID_ANSWER):
                raise _unreadable(f"{self._service} ({failure})") from None
            message = f"{self._service} cannot be reached ({failure})"
            message += f"; {self.hint}" if self.hint else ""
            raise ProviderError(ProviderFailure.CONNECTION, message) from None
        if not response.is_success:
            raise self._rejection(response)
        try:
            return parse_json(response.content)
        except ValueError:
            return None

    def _rejection(self, response: httpx.Response) -> ProviderError:
        status, kind = response.status_code, ProviderFailure.BAD_REQUEST
        message = f"{self._service} answered HTTP {status}"
        if said := redact_secrets(response.text, self._key):
            message += f": {said}"
        if status in (401, 403):
            kind = ProviderFailure.REFUSED_KEY
            message += f"; check {' or '.join(self.keys)}"
        elif status == 404:
            message += f"; {self.hint_404.format(model=self._model)}"
        elif status == RATE_LIMITED:
            kind = ProviderFailure.RATE_LIMIT
        # 408 and 409 are transient at the services that send them; 529 is Anthropic's "overloaded".
        elif status >= 500 or status in (408, 409):
            kind = ProviderFailure.SERVER
        return ProviderError(
            kind,
            message,
            retry_after=parse_retry_after(response.headers.get("Retry-After")),
            # By the whole text: the message quotes the beginning, or nothing in a private run.
            refused=tuple(
                name for name in (*self._sampling, _NEWER_LIMIT) if name in response.text
            ),
        )


def read_reply(read: Callable[[Any], Completion], reply: Any, where: str) -> Completion:
    """What `read` makes of a JSON reply; `ProviderError` if that has another shape."""
    try:
        return read(reply)
    except (KeyError, IndexError, TypeError, ValueError, AttributeError):
        raise _unreadable(where) from None


def _unreadable(where: str) -> ProviderError:
    message = f"the response from {where} cannot be read, or is not of its API"
    return ProviderError(ProviderFailure.INVALID_REPLY, message)


def _completion(text: Any, given: Any, made: Any, *, refused: bool, cut: bool) -> Completion:
    if refused:
        raise ProviderError(ProviderFailure.REFUSAL, "the model refused to answer")
    if not isinstance(text, str):
        raise TypeError
    return Completion(text, int(given or 0), int(made or 0), "length" if cut else "end")


def read_chat_completion(reply: Any) -> Completion:
    """The completion in a reply of OpenAI's shape, which llama.cpp uses too."""
    choice, usage = reply["choices"][0], reply.get("usage") or {}
    message, reason = choice["message"], choice.get("finish_reason")
    text = message.get("content")
    return _completion(
        # Without any text, all tokens were used for reasoning.
        "" if text is None and reason == "length" else text,
        usage.get("prompt_tokens"),
        usage.get("completion_tokens"),
        refused=bool(message.get("refusal")) or reason == "content_filter",
        cut=reason == "length",
    )


class OpenAIModel(ServiceModel):
    """A model of OpenAI or of a compatible server such as vLLM or llama.cpp."""

    kind = "openai"
    models = ("RAG_EVAL_OPENAI_MODEL",)
    addresses = ("RAG_EVAL_OPENAI_BASE_URL", "OPENAI_BASE_URL")
    default_address = "https://api.openai.com/v1"
    path = "/chat/completions"
    keys = ("RAG_EVAL_OPENAI_API_KEY", "OPENAI_API_KEY")
    sampling: Mapping[str, float] = {"temperature": 0, "seed": 0}
    _read = staticmethod(read_chat_completion)

    def _parse(self, url: str) -> SplitResult:
        parts = super()._parse(url)
        return parts._replace(path=parts.path.rstrip("/") or "/v1")


class AnthropicModel(ServiceModel):
    """A model of Anthropic's API, or of a server that implements it."""

    kind = "anthropic"
    models = ("RAG_EVAL_ANTHROPIC_MODEL",)
    default_model = "claude-sonnet-4-5"
    addresses = ("RAG_EVAL_ANTHROPIC_BASE_URL", "ANTHROPIC_BASE_URL")
    default_address = "https://api.anthropic.com"
    path = "/v1/messages"
    keys = ("RAG_EVAL_ANTHROPIC_API_KEY", "ANTHROPIC_API_KEY")
    key_header = "x-api-key"
    headers: Mapping[str, str] = {"anthropic-version": "2023-06-01"}

    @staticmethod
    def _read(reply: Any) -> Completion:
        usage, reason = reply["usage"], reply.get("stop_reason")
        return _completion(
            "".join(block["text"] for block in reply["content"] if block["type"] == "text"),
            usage["input_tokens"],
            usage["output_tokens"],
            refused=reason == "refusal",
            cut=reason == "max_tokens",
        )


class OllamaModel(ServiceModel):
    """A model of an Ollama server."""

    kind = "ollama"
    models = ("RAG_EVAL_OLLAMA_MODEL",)
    default_model = "llama3.1:8b"
    addresses = ("RAG_EVAL_OLLAMA_BASE_URL", "OLLAMA_HOST")
    default_address = "http://localhost:11434"
    path = "/api/chat"
    keys = ("OLLAMA_API_KEY",)
    requires_key = False
    hint = "start it with 'ollama serve', or choose another with RAG_EVAL_PROVIDER"
    hint_404 = "run 'ollama pull {model}'"

    def _parse(self, url: str) -> SplitResult:
        if "://" in url:
            return super()._parse(url)
        # OLLAMA_HOST is often a bare host, or a port alone.
        parts = super()._parse(f"http://localhost{url}" if url[0] == ":" else f"http://{url}")
        return parts if parts.port else parts._replace(netloc=f"{parts.netloc}:11434")

    def _body(self, prompt: str, max_tokens: int) -> JsonObject:
        # Ollama silently cuts a prompt that exceeds its context, from the front. So the size is
        # requested, in powers of two, because each new size makes Ollama load the model again.
        wanted = max_tokens_of(prompt) + max_tokens
        context = _MIN_CONTEXT
        while context < min(wanted, _MAX_CONTEXT):
            context *= 2
        return {
            "model": self._model,
            "messages": [{"role": "user", "content": prompt}],
            "options": {"temperature": 0, "seed": 0, "num_predict": max_tokens, "num_ctx": context},
            "stream": False,
            "think": False,
        }

    @staticmethod
    def _read(reply: Any) -> Completion:
        return _completion(
            reply["message"]["content"] if reply["done"] else None,
            reply.get("prompt_eval_count"),
            reply.get("eval_count"),
            refused=False,
            cut=reply.get("done_reason") == "length",
        )
