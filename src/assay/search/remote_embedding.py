"""Embeddings from a server with the API of OpenAI: `openai:MODEL[@URL]`.

vLLM, LM Studio, LiteLLM, Ollama and text-embeddings-inference have it as well.
"""

import asyncio
import math
import os
import threading
import weakref
from collections.abc import Sequence
from urllib.parse import urlsplit

import httpx
import numpy as np

from assay.errors import ProviderError, ProviderFailure, SearchError, UsageError
from assay.net.client import open_client
from assay.net.http import connect_reason
from assay.net.json import parse_json
from assay.net.redact import redact_secrets, redact_url
from assay.net.retry import RetryPolicy, parse_retry_after
from assay.progress import Progress, silent
from assay.search.embedding import EMBEDDER_FORMS, NO_PROMPTS, Vectors
from assay.text import strip_controls

OPENAI_URL = "https://api.openai.com/v1"
MAX_TOKENS = 256
TEXTS_IN_A_REQUEST = 64
REQUESTS_AT_ONCE = 4
MAX_DIMENSION = 65_536
# For a request as a whole: a server that sends a byte now and then keeps every other limit.
RETRIES = RetryPolicy(attempts=5, timeout=300.0, max_retry_after=60.0, cap_retry_after=True)
_TIMEOUT = httpx.Timeout(120.0, connect=10.0)
_KEYS = ("ASSAY_EMBEDDER_KEY", "RAG_EVAL_OPENAI_API_KEY", "OPENAI_API_KEY")


def open_remote(spec: str) -> "RemoteEmbedder":
    """open_remote("openai:MODEL@http://localhost:8000/v1")  # asks once, to learn the dimension"""
    kind, _, rest = spec.partition(":")
    model, _, url = rest.partition("@")
    parts = urlsplit(url or OPENAI_URL)
    if kind != "openai" or not model or not (parts.scheme in ("http", "https") and parts.hostname):
        hint = "" if ":" in spec else f". Did you mean st:{spec}?"
        raise UsageError(
            f"--embedder {redact_url(spec)!r} is invalid; use one of {EMBEDDER_FORMS}{hint}"
        )
    return RemoteEmbedder(model, (url or OPENAI_URL).rstrip("/"))


class RemoteEmbedder:
    """A model behind `POST URL/embeddings`, asked from any thread over one set of connections.

    Its `name` has model and dimension, and not the address, which changes no vector.
    """

    max_tokens = MAX_TOKENS
    prompts = NO_PROMPTS  # the server adds what its model needs
    texts_at_once = TEXTS_IN_A_REQUEST * REQUESTS_AT_ONCE

    def __init__(self, model: str, url: str) -> None:
        self._model, self._url = model, url
        self._key = next((os.environ[one] for one in _KEYS if os.environ.get(one)), None)
        headers = {"Authorization": f"Bearer {self._key}"} if self._key else {}
        self._client = open_client(timeout=_TIMEOUT, headers=headers)
        self._slots = asyncio.Semaphore(REQUESTS_AT_ONCE)
        # In a thread of its own: the caller may be in an event loop, or in many threads.
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=_run_until_stopped, args=[self._loop], daemon=True).start()
        weakref.finalize(self, _stop, self._loop, self._client)
        self.dimension = 0
        self.dimension = self.embed(["dimension"]).shape[1]
        self.name = f"openai:{model} d={self.dimension} tokens={MAX_TOKENS}"

    @staticmethod
    def count_tokens(texts: Sequence[str]) -> list[int]:
        """The server's tokenizer is not available: three characters a token is on the safe side
        for English, and one a token for scripts without spaces.
        """
        ascii_counts = [sum(character.isascii() for character in text) for text in texts]
        sizes = zip(texts, ascii_counts, strict=True)
        return [math.ceil(count / 3) + len(text) - count for text, count in sizes]

    def embed(self, texts: Sequence[str], progress: Progress = silent) -> Vectors:
        """One vector of length 1 for each text, 64 texts a request and several requests at once."""
        batches = [
            [strip_controls(text) or " " for text in texts[start : start + TEXTS_IN_A_REQUEST]]
            for start in range(0, len(texts), TEXTS_IN_A_REQUEST)
        ]
        asked = [
            asyncio.run_coroutine_threadsafe(self._request(batch), self._loop) for batch in batches
        ]
        parts = [np.zeros((0, self.dimension), np.float32)] if not asked else []
        try:
            for one in asked:
                parts.append(one.result())
                progress("embedding", sum(map(len, parts)), len(texts))
        finally:
            for one in asked:
                one.cancel()
        vectors = np.concatenate(parts)
        # In double precision, in which no square of a number overflows.
        norms = np.sqrt(np.einsum("ij,ij->i", vectors, vectors, dtype=np.float64))[:, np.newaxis]
        return np.asarray(vectors / np.maximum(norms, 1e-12), np.float32)

    async def _request(self, texts: list[str]) -> Vectors:
        async with self._slots:
            try:
                answer = await RETRIES.run(
                    lambda: self._post(texts),
                    on_timeout=lambda _: ProviderError(
                        ProviderFailure.TIMEOUT, "response too slow"
                    ),
                )
            except ProviderError as error:
                attempts = getattr(error, "attempts", 1)
                again = f" (after {attempts} attempts)" if attempts > 1 else ""
                raise self._error(f"{error}{again}") from None
        try:
            data = parse_json(answer)["data"]
            # The order of `data` is not guaranteed; `index` says which text a vector belongs to.
            found = {item["index"]: item["embedding"] for item in data}
            with np.errstate(over="ignore"):  # too large a number becomes infinite
                rows = [found[place] for place in range(len(data))]
                vectors = np.array(rows, np.float32, ndmin=1)
        except (ValueError, KeyError, TypeError) as error:
            # The class alone: a message may quote what came.
            raise self._error(f"the response cannot be parsed ({type(error).__name__})") from None
        wanted = (len(texts), self.dimension or vectors.shape[-1])
        if vectors.shape != wanted or 0 in vectors.shape or wanted[1] > MAX_DIMENSION:
            raise self._error(f"expected a matrix of {wanted} numbers, got one of {vectors.shape}")
        if not np.isfinite(vectors).all():
            raise self._error("a vector has a number that is missing, infinite or NaN")
        if not (present := vectors.any(axis=1)).all():
            place = int(present.argmin())
            size = f"{len(texts[place]):,} characters" if texts[place].strip() else "blank"
            raise self._error(
                f"the vector of text {place + 1} of {len(texts)} in a request ({size}) contains "
                "only zeros",
                "use another model, or remove documents whose words it does not know",
            )
        return vectors

    async def _post(self, texts: list[str]) -> bytes:
        try:
            answer = await self._client.post(
                f"{self._url}/embeddings", json={"model": self._model, "input": texts}
            )
        except httpx.TransportError as error:
            reason = connect_reason(error) if isinstance(error, httpx.ConnectError) else error
            message = f"{type(error).__name__}: {reason}"
            raise ProviderError(ProviderFailure.CONNECTION, message) from None
        except httpx.HTTPError as error:
            raise ProviderError(ProviderFailure.BAD_REQUEST, str(error)) from None
        if answer.is_success:
            return answer.content
        status, said = answer.status_code, redact_secrets(answer.text, self._key)
        is_transient = status == 429 or status >= 500
        raise ProviderError(
            ProviderFailure.SERVER if is_transient else ProviderFailure.BAD_REQUEST,
            f"HTTP {status}: {said}" if said else f"HTTP {status}",
            retry_after=parse_retry_after(answer.headers.get("Retry-After")),
        )

    def _error(self, reason: str, remedy: str = "") -> SearchError:
        remedy = remedy or (
            "check the URL, which usually ends in /v1, the model name and the API key in "
            f"{' or '.join(_KEYS)}"
        )
        return SearchError(
            f"could not get embeddings of model {self._model!r} from {redact_url(self._url)}: "
            f"{reason}; {remedy}"
        )


def _run_until_stopped(loop: asyncio.AbstractEventLoop) -> None:
    loop.run_forever()
    loop.close()


def _stop(loop: asyncio.AbstractEventLoop, client: httpx.AsyncClient) -> None:
    async def end() -> None:
        await client.aclose()
        loop.stop()

    asyncio.run_coroutine_threadsafe(end(), loop)
