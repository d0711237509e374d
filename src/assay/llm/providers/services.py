"""Models behind HTTP services: OpenAI's chat completions, Anthropic's Messages, and servers that
implement either; and what the failures of such a service mean.
"""

import os
from collections.abc import Mapping
from typing import Any
from urllib.parse import SplitResult, urlsplit

import httpx

from assay.errors import ProviderError, ProviderFailure, UsageError
from assay.llm.providers.provider import Completion, TokenUsage, setting
from assay.net.client import EncodingRefused, ResponseTooLarge, open_client
from assay.net.http import connect_reason
from assay.net.outbound import UNRESTRICTED, OutboundPolicy, policy_of_process
from assay.net.redact import redact_secrets, redact_url
from assay.net.retry import parse_retry_after

REPLY_MAX_BYTES = 8_000_000
"""What the reply of a model service may have; the longest texts are below one percent of it."""

OPENAI_URL = "https://api.openai.com/v1"
OPENAI_KEYS = ("RAG_EVAL_OPENAI_API_KEY", "OPENAI_API_KEY")
"""Where the key is looked for, in this order."""
ANTHROPIC_URL = "https://api.anthropic.com"
ANTHROPIC_KEYS = ("RAG_EVAL_ANTHROPIC_API_KEY", "ANTHROPIC_API_KEY")
ANTHROPIC_MODEL = "claude-sonnet-4-5"
_ANTHROPIC_VERSION = "2023-06-01"
_NEWER_LIMIT = "max_completion_tokens"


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
    url = url or setting("RAG_EVAL_OPENAI_BASE_URL", "OPENAI_BASE_URL") or OPENAI_URL
    # In a restricted process the address came in a request, and the key is the operator's.
    key = None if policy.public_only else setting(*OPENAI_KEYS)
    if key is None and url == OPENAI_URL:
        raise ProviderError(
            ProviderFailure.SETTING,
            f"OpenAI needs a key: set {OPENAI_KEYS[-1]}; for an endpoint without keys, set "
            "RAG_EVAL_OPENAI_BASE_URL",
        )
    return OpenAIModel(url, model, key, policy)


def open_anthropic(spec: str) -> "AnthropicModel":
    """The model of `[MODEL]`; key, address and default model come from the environment."""
    if "@" in spec:
        raise UsageError("'anthropic:MODEL' takes no URL; set RAG_EVAL_ANTHROPIC_BASE_URL instead")
    key = setting(*ANTHROPIC_KEYS)
    if key is None:
        raise ProviderError(
            ProviderFailure.SETTING,
            f"the provider 'anthropic' needs a key: set {ANTHROPIC_KEYS[-1]}",
        )
    model = spec or setting("RAG_EVAL_ANTHROPIC_MODEL") or ANTHROPIC_MODEL
    return AnthropicModel(key, model, setting("RAG_EVAL_ANTHROPIC_BASE_URL"))


class _ServiceModel:
    """A model of a service, asked by one POST.

    Parameters:
        service: who answers, for messages.
        model: its name at the service.
        key: the key, which no message may show.
        key_variable: the variable that holds it.
        not_found: what to do if the service does not have the model.
        sampling: parameters that make replies repeatable, where the service allows them.
    """

    def __init__(
        self,
        client: httpx.AsyncClient,
        service: str,
        model: str,
        key: str | None,
        *,
        key_variable: str,
        not_found: str,
        sampling: dict[str, float],
    ) -> None:
        self._client = client
        self._service = service
        self._model = model
        self._key = key
        self._key_variable = key_variable
        self._not_found = not_found
        self._sampling = sampling

    async def complete(self, prompt: str, max_tokens: int) -> Completion:
        """The reply. A parameter that the service refuses by name is left out from then on."""
        while True:
            sent = self._parameters()
            try:
                return await self._once(prompt, max_tokens)
            except ProviderError as error:
                if error.kind is not ProviderFailure.BAD_REQUEST:
                    raise
                self._drop_refused(error.refused)
                if self._parameters() == sent:  # neither this call nor one beside it dropped any
                    raise

    async def close(self) -> None:
        """Close the HTTP client."""
        await self._client.aclose()

    async def _once(self, prompt: str, max_tokens: int) -> Completion:
        raise NotImplementedError

    def _parameters(self) -> tuple[str, ...]:
        """The names that are sent and that a service may refuse."""
        return tuple(self._sampling)

    def _drop_refused(self, names: tuple[str, ...]) -> None:
        for name in names:
            self._sampling.pop(name, None)

    async def _post(self, url: str, **body: Any) -> Any:
        """The JSON of the response; None for one that is not JSON."""
        try:
            response = await self._client.post(url, json={**body, **self._sampling})
        except httpx.RequestError as error:
            raise request_failure(self._service, error) from None
        if not response.is_success:
            failure = http_failure(
                self._service,
                response.status_code,
                redact_secrets(response.text, self._key),
                retry_after=response.headers.get("Retry-After"),
                bad_key=f"check {self._key_variable}",
                not_found=self._not_found,
            )
            names = (*self._sampling, _NEWER_LIMIT)
            failure.refused = tuple(name for name in names if name in response.text)
            raise failure
        try:
            return response.json()
        except (ValueError, RecursionError):
            return None


def _client(policy: OutboundPolicy, headers: Mapping[str, str]) -> httpx.AsyncClient:
    """No connection outlives its call, because the next may come from another event loop."""
    return open_client(
        policy, headers={"Connection": "close", **headers}, max_bytes=REPLY_MAX_BYTES
    )


class OpenAIModel(_ServiceModel):
    """A model of OpenAI or of a compatible server such as vLLM or llama.cpp."""

    def __init__(
        self,
        url: str,
        model: str,
        api_key: str | None = None,
        policy: OutboundPolicy = UNRESTRICTED,
    ) -> None:
        parts = parse_address(url, "RAG_EVAL_OPENAI_BASE_URL", OPENAI_URL)
        path = parts.path.rstrip("/") or "/v1"
        self._url = parts._replace(path=f"{path}/chat/completions").geturl()
        self._limit = "max_tokens"
        super().__init__(
            _client(policy, {"Authorization": f"Bearer {api_key}"} if api_key else {}),
            f"the model service at {urlsplit(self._url).netloc.rpartition('@')[2]}",
            model,
            api_key,
            key_variable=" or ".join(OPENAI_KEYS),
            not_found=f"check the URL and the model name, {model!r}",
            sampling={"temperature": 0, "seed": 0},
        )

    @property
    def name(self) -> str:
        """`openai:MODEL`."""
        return f"openai:{self._model}"

    @property
    def identity(self) -> str:
        """With the address: two endpoints may use one name for two models."""
        return f"{self.name}@{self._url}"

    def _parameters(self) -> tuple[str, ...]:
        return (*super()._parameters(), self._limit)

    def _drop_refused(self, names: tuple[str, ...]) -> None:
        if _NEWER_LIMIT in names:
            self._limit = _NEWER_LIMIT
        super()._drop_refused(names)

    async def _once(self, prompt: str, max_tokens: int) -> Completion:
        messages = [{"role": "user", "content": prompt}]
        limit = {self._limit: max_tokens}
        reply = await self._post(self._url, model=self._model, messages=messages, **limit)
        return read_chat_completion(reply, self._service)


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
        raise _not_a_completion(where) from None
    if refused:
        raise ProviderError(ProviderFailure.REFUSAL, f"the model at {where} refused to answer")
    if text is None and reason == "length":  # all tokens were used for reasoning
        text = ""
    if not isinstance(text, str):
        raise _not_a_completion(where)
    return Completion(text, tokens, "length" if reason == "length" else "end")


def _not_a_completion(where: str) -> ProviderError:
    return ProviderError(
        ProviderFailure.INVALID_REPLY, f"the response from {where} is not an OpenAI chat completion"
    )


class AnthropicModel(_ServiceModel):
    """A model of Anthropic's API, or of a server that implements it."""

    def __init__(self, api_key: str, model: str, base_url: str | None = None) -> None:
        address = base_url or os.environ.get("ANTHROPIC_BASE_URL") or ANTHROPIC_URL
        parse_address(address, "RAG_EVAL_ANTHROPIC_BASE_URL, ANTHROPIC_BASE_URL", ANTHROPIC_URL)
        self._base = address.rstrip("/")
        headers = {"anthropic-version": _ANTHROPIC_VERSION, "x-api-key": api_key}
        super().__init__(
            _client(UNRESTRICTED, headers),
            "Anthropic",
            model,
            api_key,
            key_variable=" or ".join(ANTHROPIC_KEYS),
            not_found=f"check the model name, {model!r} (RAG_EVAL_ANTHROPIC_MODEL)",
            # Older models need it to be repeatable, newer ones refuse it.
            sampling={"temperature": 0.0},
        )

    @property
    def name(self) -> str:
        """`anthropic:MODEL`."""
        return f"anthropic:{self._model}"

    @property
    def identity(self) -> str:
        """With the address, unless it is Anthropic's: other servers may reply differently."""
        at = redact_url(self._base).rstrip("/")
        return self.name if at == ANTHROPIC_URL else f"{self.name}@{at}"

    async def _once(self, prompt: str, max_tokens: int) -> Completion:
        messages = [{"role": "user", "content": prompt}]
        url = f"{self._base}/v1/messages"
        reply = await self._post(url, model=self._model, max_tokens=max_tokens, messages=messages)
        return _read_message(reply)


def _read_message(message: Any) -> Completion:
    try:
        text = "".join(block["text"] for block in message["content"] if block["type"] == "text")
        usage = message["usage"]
        tokens = TokenUsage(int(usage["input_tokens"]), int(usage["output_tokens"]))
        stop_reason = message.get("stop_reason")
    except (KeyError, TypeError, ValueError, AttributeError):
        raise ProviderError(
            ProviderFailure.INVALID_REPLY, "the response from Anthropic does not match its API"
        ) from None
    if stop_reason == "refusal":
        raise ProviderError(ProviderFailure.REFUSAL, "Anthropic's model refused to answer")
    return Completion(text, tokens, "length" if stop_reason == "max_tokens" else "end")


def http_failure(
    service: str,
    status: int,
    body: str,
    *,
    retry_after: str | None = None,
    bad_key: str = "",
    not_found: str = "",
) -> ProviderError:
    """The `ProviderError` for an HTTP error response, with the service's own words.

    Parameters:
        service: who answered, for the message.
        body: the text of the response; anything that looks like a key is redacted.
        retry_after: the Retry-After header.
        bad_key: what to do if the key was refused.
        not_found: what to do if the service does not have the model.
    """
    kind = _kind(status)
    hint = bad_key if kind is ProviderFailure.REFUSED_KEY else not_found if status == 404 else ""
    parts = [f"{service} answered HTTP {status}", *filter(None, [redact_secrets(body)])]
    message = ": ".join(parts) + (f"; {hint}" if hint else "")
    return ProviderError(kind, message, retry_after=parse_retry_after(retry_after))


def _kind(status: int) -> ProviderFailure:
    if status in (401, 403):
        return ProviderFailure.REFUSED_KEY
    if status == 429:
        return ProviderFailure.RATE_LIMIT
    # 408 and 409 are transient at the services that send them; 529 is Anthropic's "overloaded".
    transient = status >= 500 or status in (408, 409)
    return ProviderFailure.SERVER if transient else ProviderFailure.BAD_REQUEST


def request_failure(service: str, error: BaseException, hint: str = "") -> ProviderError:
    """The `ProviderError` for a request without a usable response."""
    if isinstance(error, (ResponseTooLarge, EncodingRefused, httpx.DecodingError)):
        return ProviderError(
            ProviderFailure.INVALID_REPLY, f"the response from {service} cannot be parsed: {error}"
        )
    connecting = isinstance(error, ConnectionError | httpx.ConnectError | httpx.ConnectTimeout)
    reason = connect_reason(error) if connecting else type(error).__name__
    message = f"{service} cannot be reached ({reason})" + (f"; {hint}" if hint else "")
    return ProviderError(ProviderFailure.CONNECTION, message)


def parse_address(url: str, variable: str, example: str) -> SplitResult:
    """The parts of a service's address, or `UsageError`, which names `variable` and `example`."""
    try:
        parts = urlsplit(url)
        _ = parts.port
        httpx.URL(url)
    except (ValueError, httpx.InvalidURL):
        raise _bad_address(url, variable, example) from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise _bad_address(url, variable, example)
    return parts


def split_spec(spec: str) -> tuple[str, str]:
    """Model and address of `MODEL@URL`. A password in the address is refused: command lines show
    in the process list.
    """
    model, _, url = spec.partition("@")
    if "@" in url:
        raise UsageError(
            "a model URL must not contain a user name or password, because other "
            "users of the machine can see the command line; set RAG_EVAL_OLLAMA_BASE_URL or "
            "RAG_EVAL_OPENAI_BASE_URL instead"
        )
    return model, url


def _bad_address(url: str, variable: str, example: str) -> UsageError:
    got = "a URL with an '@' (not shown)" if "@" in url else repr(url)
    return UsageError(
        f"the model URL ({variable}) must be an http(s) URL such as {example}, got {got}"
    )
