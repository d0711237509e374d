"""A model of Anthropic, through its official client."""

import os
from typing import TYPE_CHECKING, Any

from assay.answer.providers.provider import (
    Completion,
    TokenUsage,
    http_failure,
    parse_address,
    request_failure,
    setting,
)
from assay.errors import ProviderError, ProviderFailure, UsageError
from assay.net.redact import redact_secrets, redact_url

if TYPE_CHECKING:
    from anthropic import APIStatusError

DEFAULT_MODEL = "claude-3-5-sonnet-20241022"
KEY_VARIABLE = "RAG_EVAL_ANTHROPIC_API_KEY"
_DEFAULT_URL = "https://api.anthropic.com"


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
        try:
            from anthropic import AsyncAnthropic
        except ImportError:
            raise ProviderError(
                ProviderFailure.SETTING,
                "the Anthropic client is not installed: pip install 'agent-assay[anthropic]'",
            ) from None
        # The client reads its own variable where it is given no address.
        if address := base_url or os.environ.get("ANTHROPIC_BASE_URL"):
            parse_address(address, "RAG_EVAL_ANTHROPIC_BASE_URL, ANTHROPIC_BASE_URL", _DEFAULT_URL)
        self._key = api_key
        self._model = model
        # Not a named parameter: newer clients no longer have it, older models still need it.
        self._extra: dict[str, float] = {"temperature": 0.0}
        # Retries are ours, because they know the budget. No connection outlives its call, because
        # the next may come from another event loop. The HTTP client is the SDK's own: recent
        # versions are built on httpx2 and accept no httpx client.
        self._client = AsyncAnthropic(
            api_key=api_key,
            base_url=base_url,
            max_retries=0,
            timeout=None,
            default_headers={"Connection": "close"},
        )

    @property
    def name(self) -> str:
        """`anthropic:MODEL`."""
        return f"anthropic:{self._model}"

    @property
    def identity(self) -> str:
        """With the address, unless it is Anthropic's: other servers may reply differently."""
        at = redact_url(str(self._client.base_url)).rstrip("/")
        return self.name if at == _DEFAULT_URL else f"{self.name}@{at}"

    async def complete(self, prompt: str, max_tokens: int) -> Completion:
        """The reply. A model that refuses a temperature is asked without one from then on."""
        try:
            return await self._once(prompt, max_tokens)
        except ProviderError as error:
            refused = error.kind is ProviderFailure.BAD_REQUEST and "temperature" in str(error)
            if not refused or not self._extra:
                raise
            self._extra = {}
            return await self._once(prompt, max_tokens)

    async def _once(self, prompt: str, max_tokens: int) -> Completion:
        import anthropic

        try:
            message = await self._client.messages.create(
                model=self._model,
                max_tokens=max_tokens,
                messages=[{"role": "user", "content": prompt}],
                extra_body=self._extra,
            )
        except anthropic.APIStatusError as error:
            raise self._failure(error) from None
        except anthropic.APIConnectionError as error:
            raise request_failure("Anthropic", error.__cause__ or error) from None
        except (anthropic.APIError, ValueError):
            raise _unreadable() from None
        return _read(message)

    def _failure(self, error: "APIStatusError") -> ProviderError:
        words = error.api_message if isinstance(error.api_message, str) else error.response.text
        return http_failure(
            "Anthropic",
            error.status_code,
            redact_secrets(words, self._key),
            retry_after=error.response.headers.get("retry-after"),
            bad_key=f"check {KEY_VARIABLE}",
            not_found=f"check the model name, {self._model!r} (RAG_EVAL_ANTHROPIC_MODEL)",
        )

    async def close(self) -> None:
        """Close the HTTP client."""
        await self._client.close()


def _read(message: Any) -> Completion:
    """The client does not validate what it builds, so that is done here."""
    try:
        text = "".join(block.text for block in message.content if block.type == "text")
        usage = TokenUsage(int(message.usage.input_tokens), int(message.usage.output_tokens))
        stop_reason = message.stop_reason
    except (AttributeError, TypeError, ValueError):
        raise _unreadable() from None
    if stop_reason == "refusal":
        raise ProviderError(ProviderFailure.REFUSAL, "Anthropic's model refused to answer")
    return Completion(text, usage, "length" if stop_reason == "max_tokens" else "end")


def _unreadable() -> ProviderError:
    return ProviderError(
        ProviderFailure.INVALID_REPLY, "the response from Anthropic does not match its API"
    )
