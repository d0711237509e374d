"""A model that Ollama serves, through its official client."""

from typing import TYPE_CHECKING, Any

from assay.answer.providers.address import parse_address, without_password
from assay.answer.providers.failures import from_status
from assay.answer.providers.meter import tokens_at_most
from assay.answer.providers.protocol import Completion, Usage
from assay.errors import ProviderError, ProviderFailure

if TYPE_CHECKING:
    import httpx

DEFAULT_URL = "http://localhost:11434"
DEFAULT_MODEL = "llama3.1:8b"
_LEAST_CONTEXT = 4096
_MOST_CONTEXT = 131_072


class OllamaModel:
    def __init__(self, url: str, model: str) -> None:
        try:
            from ollama import AsyncClient
        except ImportError:
            raise ProviderError(
                ProviderFailure.SETTING,
                "Ollama is asked through its own client, which is not installed: "
                "pip install 'agent-assay[ollama]'",
            ) from None
        self._model = model
        parse_address(_with_scheme(url), "RAG_EVAL_OLLAMA_BASE_URL", DEFAULT_URL)
        self._url = without_password(url)
        self._where = f"Ollama at {self._url}"
        # The client forgets the headers of an error, among them how long to wait. So the hook,
        # which sees the reply first, raises in its place. No connection outlives its call, because
        # the next call may come from another event loop.
        self._client = AsyncClient(
            host=url,
            timeout=None,
            headers={"Connection": "close"},
            event_hooks={"response": [self._refuse_errors]},
        )

    @property
    def name(self) -> str:
        return f"ollama:{self._model}"

    @property
    def identity(self) -> str:
        """With the address, where it is not the usual one: a name means there what it means."""
        at = self._url.rstrip("/")
        return self.name if at == DEFAULT_URL else f"{self.name}@{at}"

    async def complete(self, prompt: str, max_tokens: int) -> Completion:
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
        except (ConnectionError, httpx.TransportError) as error:
            raise ProviderError(
                ProviderFailure.CONNECTION,
                f"{self._where} cannot be reached ({type(error).__name__}); start it with "
                "'ollama serve', or choose another with RAG_EVAL_PROVIDER",
            ) from None
        except (ValueError, TypeError, ValidationError):  # half a JSON, or another shape
            raise self._unreadable("is not what Ollama's interface describes") from None
        return self._read(reply)

    def _read(self, reply: Any) -> Completion:
        text = reply.message.content
        if text is None or not reply.done:
            raise self._unreadable("is not complete")
        usage = Usage(reply.prompt_eval_count or 0, reply.eval_count or 0)
        return Completion(text, usage, "length" if reply.done_reason == "length" else "end")

    def _unreadable(self, what: str) -> ProviderError:
        return ProviderError(ProviderFailure.INVALID_REPLY, f"the reply of {self._where} {what}")

    async def _refuse_errors(self, response: "httpx.Response") -> None:
        if response.is_success:
            return
        await response.aread()
        raise from_status(
            self._where,
            response.status_code,
            response.text,
            retry_after=response.headers.get("Retry-After"),
            unknown=f"run 'ollama pull {self._model}'",
        )

    async def close(self) -> None:
        await self._client.close()  # type: ignore[no-untyped-call]


def _with_scheme(url: str) -> str:
    """`OLLAMA_HOST` is often a bare host, or a port alone."""
    bare = f"localhost{url}" if url.startswith(":") else url
    return bare if "://" in bare else f"http://{bare}"


def _options(prompt: str, max_tokens: int) -> dict[str, int]:
    """Ollama cuts a prompt that exceeds its context in silence, from the front. So the context is
    asked for, in powers of two, because each new size makes Ollama load the model again.
    """
    wanted = tokens_at_most(prompt) + max_tokens
    context = _LEAST_CONTEXT
    while context < min(wanted, _MOST_CONTEXT):
        context *= 2
    return {"temperature": 0, "seed": 0, "num_predict": max_tokens, "num_ctx": context}
