"""Embeddings from a server with the API of OpenAI: `openai:MODEL[@URL]`.

vLLM, LM Studio, LiteLLM, Ollama and text-embeddings-inference have it as well.
"""

import asyncio
import math
import os
import threading
import weakref
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

import httpx
import numpy as np

from assay.errors import SearchError, UsageError
from assay.net.client import open_client
from assay.net.http import connect_reason
from assay.net.json import parse_json
from assay.net.redact import redact_secrets, redact_url
from assay.net.retry import RetryPolicy, parse_retry_after
from assay.progress import Progress, silent
from assay.search.embedding import EMBEDDER_FORMS, NO_PROMPTS, Vectors
from assay.text import strip_controls

MAX_TOKENS = 256
TEXTS_IN_A_REQUEST = 64
MAX_DIMENSION = 65_536
# For a request as a whole: a server that sends a byte now and then keeps every other limit.
RETRIES = RetryPolicy(attempts=5, timeout=300.0, max_retry_after=60.0, cap_retry_after=True)
_TIMEOUT = httpx.Timeout(120.0, connect=10.0)
_PATHS = ("/v1/embeddings", "/embeddings")
_KEYS = ("ASSAY_EMBEDDER_KEY", "RAG_EVAL_OPENAI_API_KEY", "OPENAI_API_KEY")


def open_remote(spec: str) -> "RemoteEmbedder":
    """open_remote("openai:MODEL@http://localhost:8000")  # asks once, to learn the dimension"""
    kind, _, rest = spec.partition(":")
    model, _, url = rest.partition("@")
    if kind != "openai" or not model:
        hint = "" if ":" in spec else f". Did you mean st:{spec}?"
        raise UsageError(
            f"--embedder {redact_url(spec)!r} is invalid; use one of {EMBEDDER_FORMS}{hint}"
        )
    url = (url or "https://api.openai.com").rstrip("/").removesuffix("/v1")
    if urlsplit(url).scheme not in ("http", "https") or not urlsplit(url).hostname:
        raise UsageError(
            f"--embedder {redact_url(spec)!r}: {redact_url(url)!r} is not an http(s) URL"
        )
    return RemoteEmbedder(model, url)


class _RequestError(Exception):
    """A request failed; `status` is that of the answer, None if there was none."""

    attempts = 1  # counted by `RetryPolicy.run`

    def __init__(
        self, reason: str, status: int | None = None, *, retryable: bool, after: float | None = None
    ) -> None:
        super().__init__(reason)
        self.status, self.retryable, self.retry_after = status, retryable, after

    def __str__(self) -> str:
        again = f" (after {self.attempts} attempts)" if self.retryable else ""
        return f"{super().__str__()}{again}"


class RemoteEmbedder:
    """A model behind `POST URL/v1/embeddings`, asked from any thread over one set of connections.

    Its `name` has model and dimension, and not the address, which changes no vector.
    """

    max_tokens = MAX_TOKENS
    prompts = NO_PROMPTS  # the server adds what its model needs

    def __init__(self, model: str, url: str) -> None:
        self._model, self._url, self._paths = model, url, list(_PATHS)
        self._key = next((os.environ[one] for one in _KEYS if os.environ.get(one)), None)
        headers = {"Authorization": f"Bearer {self._key}"} if self._key else {}
        parallel = _parallel_requests()
        self.texts_at_once = TEXTS_IN_A_REQUEST * parallel
        self._client = open_client(timeout=_TIMEOUT, headers=headers)
        self._slots = asyncio.Semaphore(parallel)
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
            answer = await self._post({"model": self._model, "input": texts})
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
            text = texts[place]
            size = f"{len(text):,} characters" if text.strip() else "blank"
            raise self._error(
                f"the vector of text {place + 1} of {len(texts)} in a request ({size}) contains "
                "only zeros",
                "use another model, or remove documents whose words it does not know",
            )
        return vectors

    async def _post(self, body: dict[str, Any]) -> bytes:
        """The answer of the first path that the server has."""
        while True:
            path = self._paths[0]
            try:
                return await RETRIES.run(
                    lambda path=path: self._once(path, body),  # type: ignore[misc]
                    on_timeout=lambda _: _RequestError("response too slow", retryable=True),
                )
            except _RequestError as error:
                if error.status != 404 or path == _PATHS[-1]:
                    raise self._error(str(error)) from None
            self._paths = [_PATHS[-1]]

    async def _once(self, path: str, body: dict[str, Any]) -> bytes:
        try:
            answer = await self._client.post(f"{self._url}{path}", json=body)
        except httpx.TransportError as error:
            reason = connect_reason(error) if isinstance(error, httpx.ConnectError) else error
            raise _RequestError(f"{type(error).__name__}: {reason}", retryable=True) from None
        except httpx.HTTPError as error:
            raise _RequestError(str(error), retryable=False) from None
        if answer.is_success:
            return answer.content
        status, said = answer.status_code, redact_secrets(answer.text, self._key)
        raise _RequestError(
            f"HTTP {status}: {said}" if said else f"HTTP {status}",
            status,
            retryable=status == 429 or status >= 500,
            after=parse_retry_after(answer.headers.get("Retry-After")),
        )

    def _error(self, reason: str, remedy: str = "") -> SearchError:
        remedy = remedy or f"check the URL, the model name and the API key in {' or '.join(_KEYS)}"
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


def _parallel_requests() -> int:
    chosen = os.environ.get("ASSAY_EMBEDDER_CONCURRENCY", "4")
    if not chosen.isdecimal() or not 1 <= int(chosen) <= 64:
        raise UsageError(f"ASSAY_EMBEDDER_CONCURRENCY must be from 1 to 64, got {chosen!r}")
    return int(chosen)
