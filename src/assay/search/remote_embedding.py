"""Embeddings from a server with the API of OpenAI: `openai:MODEL[@URL]`.

vLLM, LM Studio, LiteLLM, Ollama and text-embeddings-inference have it as well.
"""

import math
import os
from collections.abc import Sequence
from urllib.parse import urlsplit

import httpx
import numpy as np

from assay.errors import ProviderError, ProviderFailure, SearchError, UsageError
from assay.net.client import open_client
from assay.net.gather import for_each, run_coroutine
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
        raise UsageError(f"--embedder {redact_url(spec)!r} is invalid; use one of {EMBEDDER_FORMS}")
    return RemoteEmbedder(model, (url or OPENAI_URL).rstrip("/"))


class RemoteEmbedder:
    """A model behind `POST URL/embeddings`, asked from any thread.

    Its `name` has model and dimension, and not the address, which changes no vector.
    """

    max_tokens = MAX_TOKENS
    prompts = NO_PROMPTS  # the server adds what its model needs
    texts_at_once = TEXTS_IN_A_REQUEST * REQUESTS_AT_ONCE

    def __init__(self, model: str, url: str) -> None:
        self._model, self._url = model, url
        self._key = next((os.environ[one] for one in _KEYS if os.environ.get(one)), None)
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
        """One vector of length 1 for each text, 64 texts a request and four requests at once."""
        if not texts:
            return np.zeros((0, self.dimension), np.float32)
        vectors = np.concatenate(run_coroutine(self._request_all(texts, progress)))
        # In double precision, in which no square of a number overflows.
        norms = np.sqrt(np.einsum("ij,ij->i", vectors, vectors, dtype=np.float64))[:, np.newaxis]
        return np.asarray(vectors / np.maximum(norms, 1e-12), np.float32)

    async def _request_all(self, texts: Sequence[str], progress: Progress) -> list[Vectors]:
        found: dict[int, Vectors] = {}
        headers = {"Authorization": f"Bearer {self._key}"} if self._key else {}
        async with open_client(timeout=_TIMEOUT, headers=headers) as client:

            async def request(start: int) -> None:
                some = texts[start : start + TEXTS_IN_A_REQUEST]
                batch = [strip_controls(text) or " " for text in some]
                found[start] = await self._request(client, batch)
                progress("embedding", sum(map(len, found.values())), len(texts))

            starts = range(0, len(texts), TEXTS_IN_A_REQUEST)
            await for_each(starts, request, REQUESTS_AT_ONCE)
        return [found[start] for start in starts]

    async def _request(self, client: httpx.AsyncClient, texts: list[str]) -> Vectors:
        slow = ProviderError(ProviderFailure.TIMEOUT, "response too slow")
        try:
            answer = await RETRIES.run(lambda: self._post(client, texts), on_timeout=lambda _: slow)
        except ProviderError as error:
            raise self._error(str(error)) from None
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
        is_matrix = vectors.shape == wanted and 0 < wanted[1] <= MAX_DIMENSION
        # A vector of zeros has no direction: every cosine with it would be 0.
        if not is_matrix or not np.isfinite(vectors).all() or not vectors.any(axis=1).all():
            raise self._error(
                f"expected {wanted} finite numbers and no vector of zeros, got {vectors.shape}"
            )
        return vectors

    async def _post(self, client: httpx.AsyncClient, texts: list[str]) -> bytes:
        request = {"model": self._model, "input": texts}
        try:
            answer = await client.post(f"{self._url}/embeddings", json=request)
        except httpx.HTTPError as error:
            failed = isinstance(error, httpx.TransportError)
            reason = connect_reason(error) if isinstance(error, httpx.ConnectError) else error
            raise ProviderError(
                ProviderFailure.CONNECTION if failed else ProviderFailure.BAD_REQUEST,
                f"{type(error).__name__}: {reason}",
            ) from None
        if answer.is_success:
            return answer.content
        status, said = answer.status_code, redact_secrets(answer.text, self._key)
        is_transient = status == 429 or status >= 500
        raise ProviderError(
            ProviderFailure.SERVER if is_transient else ProviderFailure.BAD_REQUEST,
            f"HTTP {status}: {said}" if said else f"HTTP {status}",
            retry_after=parse_retry_after(answer.headers.get("Retry-After")),
        )

    def _error(self, reason: str) -> SearchError:
        return SearchError(
            f"could not get embeddings of model {self._model!r} from {redact_url(self._url)}: "
            f"{reason}; check the URL (usually .../v1), the model and the key in {_KEYS[0]}"
        )
