"""A model of Anthropic, through its official client."""

import os
from typing import TYPE_CHECKING, Any

from assay.answer.providers.address import parse_address, without_password
from assay.answer.providers.failures import from_status, quoted
from assay.answer.providers.protocol import Completion, Usage
from assay.errors import ProviderError, ProviderFailure

if TYPE_CHECKING:
    from anthropic import APIStatusError

DEFAULT_MODEL = "claude-3-5-sonnet-20241022"
KEY_VARIABLE = "RAG_EVAL_ANTHROPIC_API_KEY"
_OWN_URL = "https://api.anthropic.com"


class AnthropicModel:
    def __init__(self, api_key: str, model: str, base_url: str | None = None) -> None:
        try:
            from anthropic import AsyncAnthropic
        except ImportError:
            raise ProviderError(
                ProviderFailure.SETTING,
                "Anthropic is asked through its own client, which is not installed: "
                "pip install 'agent-assay[anthropic]'",
            ) from None
        # The client reads its own variable where it is given no address.
        if address := base_url or os.environ.get("ANTHROPIC_BASE_URL"):
            parse_address(address, "RAG_EVAL_ANTHROPIC_BASE_URL, ANTHROPIC_BASE_URL", _OWN_URL)
        self._key = api_key
        self._model = model
        # Beside the named parameters: newer clients no longer know it, older models still want it.
        self._extra: dict[str, float] = {"temperature": 0.0}
        # Asking again is not the client's business: ours honours the budget and tells what it does.
        # No connection outlives its call, because the next may come from another event loop.
        self._client = AsyncAnthropic(
            api_key=api_key,
            base_url=base_url,
            max_retries=0,
            timeout=None,
            default_headers={"Connection": "close"},
        )

    @property
    def name(self) -> str:
        return f"anthropic:{self._model}"

    @property
    def identity(self) -> str:
        """With the address, where it is not Anthropic's own: somebody else's may say otherwise."""
        at = without_password(str(self._client.base_url)).rstrip("/")
        return self.name if at == _OWN_URL else f"{self.name}@{at}"

    async def complete(self, prompt: str, max_tokens: int) -> Completion:
        try:
            return await self._once(prompt, max_tokens)
        except ProviderError as error:
            # Some models take no temperature; they say so, and are then asked without.
            if error.kind is not ProviderFailure.BAD_REQUEST or "temperature" not in str(error):
                raise
            if not self._extra:
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
            reason = type(error.__cause__ or error).__name__
            raise ProviderError(
                ProviderFailure.CONNECTION, f"Anthropic cannot be reached ({reason})"
            ) from None
        except (anthropic.APIError, ValueError):
            raise _unreadable() from None
        return _read(message)

    def _failure(self, error: "APIStatusError") -> ProviderError:
        words = error.api_message if isinstance(error.api_message, str) else error.response.text
        return from_status(
            "Anthropic",
            error.status_code,
            quoted(words, self._key),
            retry_after=error.response.headers.get("retry-after"),
            remedy=f"check {KEY_VARIABLE}",
            unknown=f"check the model's name, {self._model!r} (RAG_EVAL_ANTHROPIC_MODEL)",
        )

    async def close(self) -> None:
        await self._client.close()


def _read(message: Any) -> Completion:
    """The client does not check what it builds, so that is done here."""
    try:
        text = "".join(block.text for block in message.content if block.type == "text")
        usage = Usage(int(message.usage.input_tokens), int(message.usage.output_tokens))
        stop_reason = message.stop_reason
    except (AttributeError, TypeError, ValueError):
        raise _unreadable() from None
    if stop_reason == "refusal":
        raise ProviderError(ProviderFailure.REFUSAL, "Anthropic's model refused to answer")
    return Completion(text, usage, "length" if stop_reason == "max_tokens" else "end")


def _unreadable() -> ProviderError:
    return ProviderError(
        ProviderFailure.INVALID_REPLY, "the reply of Anthropic is not what its interface describes"
    )
