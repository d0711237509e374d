"""The interface of a language model, and its failures."""

import os
from dataclasses import dataclass
from typing import Protocol
from urllib.parse import SplitResult, urlsplit

from assay.errors import ProviderError, ProviderFailure, UsageError
from assay.net.redact import redact_secrets
from assay.net.retry import parse_retry_after

REPLY_MAX_BYTES = 8_000_000
"""What the reply of a model service may have; the longest texts are below one percent of it."""


class LLMProvider(Protocol):
    """The interface that callers use. To plug in your own model, implement these two members."""

    @property
    def name(self) -> str:
        """`KIND:MODEL`, for reports."""
        ...

    async def generate(self, prompt: str, max_tokens: int = 100) -> str:
        """The model's reply to `prompt`, of at most `max_tokens` tokens."""
        ...


@dataclass(frozen=True, slots=True)
class TokenUsage:
    """Tokens of one call, as the service counted them; 0 where it did not."""

    input_tokens: int = 0
    output_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Completion:
    """A reply. `stop_reason` is `end` or `length`; `cached` replies were paid for earlier."""

    text: str
    usage: TokenUsage
    stop_reason: str = "end"
    cached: bool = False


class Model(Protocol):
    """One service or model file, asked once: retries, cache and budget are up to the caller."""

    @property
    def name(self) -> str:
        """`KIND:MODEL`."""
        ...

    @property
    def identity(self) -> str:
        """Differs between models whose replies may differ: part of the key of cached replies."""
        ...

    async def complete(self, prompt: str, max_tokens: int) -> Completion:
        """The reply at temperature 0, where the model allows it. Raises `ProviderError`."""
        ...

    async def close(self) -> None:
        """Free connections and memory."""
        ...


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

    Args:
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
    from httpx import DecodingError

    from assay.net.client import EncodingRefused, ResponseTooLarge

    if isinstance(error, (ResponseTooLarge, EncodingRefused, DecodingError)):
        return ProviderError(
            ProviderFailure.INVALID_REPLY, f"the response from {service} cannot be parsed: {error}"
        )
    reason = type(error).__name__
    message = f"{service} cannot be reached ({reason})" + (f"; {hint}" if hint else "")
    return ProviderError(ProviderFailure.CONNECTION, message)


def setting(*variables: str) -> str | None:
    """The first environment variable that is set, stripped: pasted keys may end with a newline."""
    values = (os.environ.get(name, "").strip() for name in variables)
    return next((value for value in values if value), None)


def parse_address(url: str, variable: str, example: str) -> SplitResult:
    """The parts of a service's address, or `UsageError`, which names `variable` and `example`."""
    import httpx

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
