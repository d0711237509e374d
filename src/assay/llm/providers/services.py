"""Models behind HTTP services: OpenAI's chat completions, Anthropic's Messages, Ollama's chat, and
servers that implement one of them.
"""

from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import SplitResult, urlsplit

import httpx

from assay.errors import ProviderError, ProviderFailure, UsageError
from assay.llm.providers.provider import Completion, max_tokens_of, setting
from assay.net.client import EncodingRefused, ResponseTooLarge, open_client
from assay.net.http import connect_reason
from assay.net.json import JsonObject
from assay.net.outbound import UNRESTRICTED, OutboundPolicy, policy_of_process
from assay.net.redact import redact_secrets, redact_url
from assay.net.retry import parse_retry_after

MAX_REPLY_BYTES = 8_000_000  # the longest texts are below one percent of it
OPENAI_URL = "https://api.openai.com/v1"
OPENAI_KEYS = ("RAG_EVAL_OPENAI_API_KEY", "OPENAI_API_KEY")
ANTHROPIC_URL = "https://api.anthropic.com"
ANTHROPIC_KEYS = ("RAG_EVAL_ANTHROPIC_API_KEY", "ANTHROPIC_API_KEY")
ANTHROPIC_MODEL = "claude-sonnet-4-5"
OLLAMA_URL = "http://localhost:11434"
OLLAMA_MODEL = "llama3.1:8b"
_NEWER_LIMIT = "max_completion_tokens"
_MIN_CONTEXT, _MAX_CONTEXT = 4096, 131_072


class ServiceModel:
    """A model of a service, asked by one POST; each wire format is a subclass.

    `service` is who answers, for messages, none of which shows the `key`; `hint` is what to do if
    it cannot be reached, `hint_404` if it has no such model.
    """

    kind = ""
    keys: tuple[str, ...] = ()
    hint = ""
    hint_404 = "check the URL and the model name, {model!r}"
    # Parameters that make replies repeatable, as far as the service allows them.
    sampling: Mapping[str, float] = {"temperature": 0}

    def __init__(
        self,
        service: str,
        url: str,
        model: str,
        headers: Mapping[str, str],
        key: str | None = None,
        policy: OutboundPolicy = UNRESTRICTED,
    ) -> None:
        self._service, self._url, self._model, self._key = service, url, model, key
        self.name = f"{self.kind}:{model}"
        # With the address: two endpoints may use one name for two models.
        self.identity = f"{self.name}@{redact_url(url)}"
        self._sampling = dict(self.sampling)
        self._limit = "max_tokens"
        # No connection outlives its call, because the next may come from another event loop.
        sent = {"Connection": "close", **headers}
        self._client = open_client(policy, headers=sent, max_bytes=MAX_REPLY_BYTES)

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
            response = await self._client.post(self._url, json=body)
        except (ResponseTooLarge, EncodingRefused, httpx.DecodingError) as error:
            raise _unreadable(f"{self._service} ({error})") from None
        except httpx.RequestError as error:
            connecting = isinstance(error, httpx.ConnectError | httpx.ConnectTimeout)
            reason = connect_reason(error) if connecting else type(error).__name__
            message = f"{self._service} cannot be reached ({reason})"
            message += f"; {self.hint}" if self.hint else ""
            raise ProviderError(ProviderFailure.CONNECTION, message) from None
        if not response.is_success:
            raise self._rejection(response)
        try:
            return response.json()
        except (ValueError, RecursionError):
            return None

    def _rejection(self, response: httpx.Response) -> ProviderError:
        status, kind = response.status_code, ProviderFailure.BAD_REQUEST
        message = f"{self._service} answered HTTP {status}"
        if said := redact_secrets(response.text, self._key):
            message += f": {said}"
        if status in (401, 403):
            kind = ProviderFailure.REFUSED_KEY
            message += f"; check {' or '.join(self.keys)}" if self.keys else ""
        elif status == 404:
            message += f"; {self.hint_404.format(model=self._model)}"
        elif status == 429:
            kind = ProviderFailure.RATE_LIMIT
        # 408 and 409 are transient at the services that send them; 529 is Anthropic's "overloaded".
        elif status >= 500 or status in (408, 409):
            kind = ProviderFailure.SERVER
        names = (*self._sampling, _NEWER_LIMIT)
        return ProviderError(
            kind,
            message,
            retry_after=parse_retry_after(response.headers.get("Retry-After")),
            # By the whole text: the message quotes the beginning, or nothing in a private run.
            refused=tuple(name for name in names if name in response.text),
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
    keys = OPENAI_KEYS
    sampling: Mapping[str, float] = {"temperature": 0, "seed": 0}
    _read = staticmethod(read_chat_completion)


def open_openai(spec: str) -> OpenAIModel:
    """The model of `MODEL[@URL]`; what is left out comes from the environment."""
    model, url, policy = _split_spec(spec)
    model = model or setting("RAG_EVAL_OPENAI_MODEL") or ""
    if not model:
        raise UsageError("no model given: use openai:MODEL, or set RAG_EVAL_OPENAI_MODEL")
    url = url or setting("RAG_EVAL_OPENAI_BASE_URL", "OPENAI_BASE_URL") or OPENAI_URL
    # In a restricted process the address came in a request, and the key is the operator's.
    key = None if policy.public_only else setting(*OPENAI_KEYS)
    if key is None and url == OPENAI_URL:
        raise ProviderError(
            ProviderFailure.SETTING,
            f"OpenAI needs a key: set {OPENAI_KEYS[-1]}; for an endpoint without keys, set "
            "RAG_EVAL_OPENAI_BASE_URL",
        )
    parts = _parse_address(url, "RAG_EVAL_OPENAI_BASE_URL", OPENAI_URL)
    path = parts.path.rstrip("/") or "/v1"
    full = parts._replace(path=f"{path}/chat/completions").geturl()
    service = f"the model service at {parts.netloc.rpartition('@')[2]}"
    return OpenAIModel(service, full, model, _bearer(key), key, policy)


class AnthropicModel(ServiceModel):
    """A model of Anthropic's API, or of a server that implements it."""

    kind = "anthropic"
    keys = ANTHROPIC_KEYS
    hint_404 = "check the model name, {model!r} (RAG_EVAL_ANTHROPIC_MODEL)"

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


def open_anthropic(spec: str, key: str | None = None, address: str | None = None) -> AnthropicModel:
    """The model of `[MODEL]`; what is left out comes from the environment."""
    if "@" in spec:
        raise UsageError("'anthropic:MODEL' takes no URL; set RAG_EVAL_ANTHROPIC_BASE_URL instead")
    key = key or setting(*ANTHROPIC_KEYS)
    if key is None:
        message = f"the provider 'anthropic' needs a key: set {ANTHROPIC_KEYS[-1]}"
        raise ProviderError(ProviderFailure.SETTING, message)
    variables = "RAG_EVAL_ANTHROPIC_BASE_URL", "ANTHROPIC_BASE_URL"
    address = address or setting(*variables) or ANTHROPIC_URL
    _parse_address(address, ", ".join(variables), ANTHROPIC_URL)
    model = spec or setting("RAG_EVAL_ANTHROPIC_MODEL") or ANTHROPIC_MODEL
    headers = {"anthropic-version": "2023-06-01", "x-api-key": key}
    url = f"{address.rstrip('/')}/v1/messages"
    return AnthropicModel("Anthropic", url, model, headers, key)


class OllamaModel(ServiceModel):
    """A model of an Ollama server."""

    kind = "ollama"
    hint = "start it with 'ollama serve', or choose another with RAG_EVAL_PROVIDER"
    hint_404 = "run 'ollama pull {model}'"

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


def open_ollama(spec: str) -> OllamaModel:
    """The model of `[MODEL[@URL]]`; what is left out comes from the environment."""
    model, url, policy = _split_spec(spec)
    url = url or setting("RAG_EVAL_OLLAMA_BASE_URL", "OLLAMA_HOST") or OLLAMA_URL
    # OLLAMA_HOST is often a bare host, or a port alone.
    bare = f"localhost{url}" if url.startswith(":") else url
    parts = _parse_address(
        bare if "://" in bare else f"http://{bare}", "RAG_EVAL_OLLAMA_BASE_URL", OLLAMA_URL
    )
    if parts.port is None and "://" not in bare:
        parts = parts._replace(netloc=f"{parts.netloc}:11434")
    full = parts.geturl().rstrip("/")
    key = None if policy.public_only else setting("OLLAMA_API_KEY")
    model = model or setting("RAG_EVAL_OLLAMA_MODEL") or OLLAMA_MODEL
    service = f"Ollama at {redact_url(full)}"
    return OllamaModel(service, f"{full}/api/chat", model, _bearer(key), key, policy)


def _bearer(key: str | None) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"} if key else {}


def _parse_address(url: str, variable: str, example: str) -> SplitResult:
    """The parts of a service's address, or `UsageError`, which names `variable` and `example`."""
    try:
        parts = urlsplit(url)
        _ = parts.port, httpx.URL(url)
        if parts.scheme in ("http", "https") and parts.hostname:
            return parts
    except (ValueError, httpx.InvalidURL):
        pass
    got = "a URL with an '@' (not shown)" if "@" in url else repr(url)
    raise UsageError(
        f"the model URL ({variable}) must be an http(s) URL such as {example}, got {got}"
    )


def _split_spec(spec: str) -> tuple[str, str, OutboundPolicy]:
    """Model and address of `MODEL@URL`, and which addresses may be called."""
    model, _, url = spec.partition("@")
    if "@" in url:  # command lines show in the process list
        raise UsageError(
            "a model URL on the command line must not have a password; set "
            "RAG_EVAL_OLLAMA_BASE_URL or RAG_EVAL_OPENAI_BASE_URL instead"
        )
    return model, url, policy_of_process() if url else UNRESTRICTED
