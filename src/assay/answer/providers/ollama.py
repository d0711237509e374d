"""A model that Ollama serves, through its official client."""

from typing import TYPE_CHECKING, Any

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
from assay.answer.providers.spending import max_tokens_of
from assay.errors import ProviderError, ProviderFailure
from assay.net.client import open_client
from assay.net.outbound import UNRESTRICTED, OutboundPolicy, policy_of_process
from assay.net.redact import redact_url

if TYPE_CHECKING:
    import httpx

DEFAULT_URL = "http://localhost:11434"
DEFAULT_MODEL = "llama3.1:8b"
_MIN_CONTEXT = 4096
_MAX_CONTEXT = 131_072


def open_ollama(spec: str) -> "OllamaModel":
    """The model of `[MODEL[@URL]]`; what is left out comes from the environment."""
    model, url = split_spec(spec)
    policy = policy_of_process() if url else UNRESTRICTED
    url = url or setting("RAG_EVAL_OLLAMA_BASE_URL", "OLLAMA_HOST") or DEFAULT_URL
    return OllamaModel(url, model or setting("RAG_EVAL_OLLAMA_MODEL") or DEFAULT_MODEL, policy)


class OllamaModel:
    """A model of an Ollama server."""

    def __init__(self, url: str, model: str, policy: OutboundPolicy = UNRESTRICTED) -> None:
        try:
            from ollama import AsyncClient
        except ImportError:
            raise ProviderError(
                ProviderFailure.SETTING,
                "the Ollama client is not installed: pip install 'agent-assay[ollama]'",
            ) from None
        self._model = model
        parse_address(_with_scheme(url), "RAG_EVAL_OLLAMA_BASE_URL", DEFAULT_URL)
        self._url = redact_url(_with_scheme(url))
        self._where = f"Ollama at {self._url}"
        # No connection outlives its call, because the next may come from another event loop.
        self._client = AsyncClient(host=url, headers={"Connection": "close"})
        own: httpx.AsyncClient = self._client._client
        if policy.public_only:  # the client takes OLLAMA_API_KEY by itself
            own.headers.pop("authorization", None)
        bounded = open_client(policy, headers=own.headers, max_bytes=REPLY_MAX_BYTES)
        bounded.base_url = own.base_url
        # The official client drops the headers of an error, Retry-After among them: the hook sees
        # the response first, and raises instead.
        bounded.event_hooks = {"response": [self._raise_for_status]}
        self._client._client = bounded

    @property
    def name(self) -> str:
        """`ollama:MODEL`."""
        return f"ollama:{self._model}"

    @property
    def identity(self) -> str:
        """With the address, unless it is the default: servers may name models differently."""
        at = self._url.rstrip("/")
        return self.name if at == DEFAULT_URL else f"{self.name}@{at}"

    async def complete(self, prompt: str, max_tokens: int) -> Completion:
        """The reply, with a context that is large enough for the prompt."""
        import httpx
        from pydantic import ValidationError

        try:
            reply = await self._client.chat(
                model=self._model,
                messages=[{"role": "user", "content": prompt}],
                options=_options(prompt, max_tokens),
                stream=False,
                think=False,
            )
        except (ConnectionError, httpx.RequestError) as error:
            hint = "start it with 'ollama serve', or choose another with RAG_EVAL_PROVIDER"
            raise request_failure(self._where, error, hint) from None
        except (ValueError, TypeError, ValidationError):  # truncated JSON, or another shape
            raise self._unreadable("does not match Ollama's API") from None
        return self._read(reply)

    def _read(self, reply: Any) -> Completion:
        text = reply.message.content
        if text is None or not reply.done:
            raise self._unreadable("is not complete")
        usage = TokenUsage(reply.prompt_eval_count or 0, reply.eval_count or 0)
        return Completion(text, usage, "length" if reply.done_reason == "length" else "end")

    def _unreadable(self, what: str) -> ProviderError:
        return ProviderError(
            ProviderFailure.INVALID_REPLY, f"the response from {self._where} {what}"
        )

    async def _raise_for_status(self, response: "httpx.Response") -> None:
        if response.is_success:
            return
        await response.aread()
        raise http_failure(
            self._where,
            response.status_code,
            response.text,
            retry_after=response.headers.get("Retry-After"),
            not_found=f"run 'ollama pull {self._model}'",
        )

    async def close(self) -> None:
        """Close the HTTP client."""
        await self._client.close()  # type: ignore[no-untyped-call]


def _with_scheme(url: str) -> str:
    """`OLLAMA_HOST` is often a bare host, or a port alone."""
    bare = f"localhost{url}" if url.startswith(":") else url
    return bare if "://" in bare else f"http://{bare}"


def _options(prompt: str, max_tokens: int) -> dict[str, int]:
    """Ollama silently cuts a prompt that exceeds its context, from the front. So the context size
    is requested, in powers of two, because each new size makes Ollama load the model again.
    """
    wanted = max_tokens_of(prompt) + max_tokens
    context = _MIN_CONTEXT
    while context < min(wanted, _MAX_CONTEXT):
        context *= 2
    return {"temperature": 0, "seed": 0, "num_predict": max_tokens, "num_ctx": context}
