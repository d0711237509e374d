"""Embeddings from a server: `openai:MODEL@URL` (OpenAI, vLLM, LM Studio, ...), `ollama:MODEL@URL`,
`tei:URL` (text-embeddings-inference).
"""

import asyncio
import math
import os
import threading
import weakref
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import httpx
import numpy as np

from assay.errors import SearchError, UsageError
from assay.net.client import open_client
from assay.net.http import connect_reason
from assay.net.json import JsonObject, parse_json
from assay.net.redact import redact_secrets, redact_url
from assay.net.retry import RetryPolicy, parse_retry_after
from assay.progress import Progress, silent
from assay.search.embedding import EMBEDDER_FORMS, NO_PROMPTS, Vectors
from assay.text import strip_controls

MAX_TOKENS = 256
TEXTS_IN_A_REQUEST = 64
TIMEOUT = httpx.Timeout(120.0, connect=10.0)
MAX_SECONDS = 300.0
"""For one request as a whole: a server that sends a byte now and then keeps every other limit."""
MAX_DIMENSION = 65_536
_MAX_NAME = 200
RETRIES = RetryPolicy(attempts=5, max_retry_after=60.0, cap_retry_after=True)


@dataclass(frozen=True, slots=True)
class _Api:
    """How a kind of server is called, and where the vectors are in its answer.

    The paths are tried in turn while a server answers 404.
    """

    default_url: str
    paths: tuple[str, ...]
    key_names: tuple[str, ...]
    vectors: Callable[[Any], Any]
    body: Callable[[str, list[str]], JsonObject] = lambda model, texts: {
        "model": model,
        "input": texts,
    }


class _IndexError(Exception):
    """Whose the vectors are is not told; the message quotes nothing that came."""


def _openai_vectors(answer: Any) -> Any:
    # The order of `data` is not guaranteed; `index` identifies the text of a vector.
    found = {item["index"]: item["embedding"] for item in answer["data"]}
    count = len(answer["data"])
    if found.keys() != set(range(count)):
        raise _IndexError(f"the items of `data` must have the `index` 0 to {count - 1}, each once")
    return [found[place] for place in range(count)]


_APIS: Mapping[str, _Api] = {
    "ollama": _Api(
        "http://127.0.0.1:11434",
        ("/api/embed",),
        ("ASSAY_EMBEDDER_KEY",),
        lambda answer: answer["embeddings"],
    ),
    "openai": _Api(
        "https://api.openai.com",
        ("/v1/embeddings", "/embeddings"),
        ("ASSAY_EMBEDDER_KEY", "RAG_EVAL_OPENAI_API_KEY", "OPENAI_API_KEY"),
        _openai_vectors,
    ),
    "tei": _Api(
        "",
        ("/embed",),
        ("ASSAY_EMBEDDER_KEY",),
        lambda answer: answer,
        lambda _model, texts: {"inputs": texts, "truncate": True},
    ),
}


def open_remote(spec: str) -> "RemoteEmbedder":
    """`KIND:MODEL[@URL]`; the model is asked once, to learn its dimension."""
    kind, _, rest = spec.partition(":")
    model, _, url = ("", "", rest) if kind == "tei" else rest.partition("@")
    if kind not in _APIS or not (model or kind == "tei"):
        known = f"use one of {EMBEDDER_FORMS}"
        hint = "" if ":" in spec else f". Did you mean st:{spec}?"
        raise UsageError(f"--embedder {redact_url(spec)!r} is invalid; {known}{hint}")
    api = _APIS[kind]
    url = url or os.environ.get("OLLAMA_HOST", "") * (kind == "ollama") or api.default_url
    url = url.rstrip("/").removesuffix("/v1") if kind == "openai" else url.rstrip("/")
    if urlsplit(url).scheme not in ("http", "https") or not urlsplit(url).hostname:
        raise UsageError(
            f"--embedder {redact_url(spec)!r}: {redact_url(url)!r} is not an http(s) URL"
        )
    if kind == "tei":
        return RemoteEmbedder("tei", "", url, api)
    return RemoteEmbedder(f"{kind}:{model}", model, url, api)


class PostError(Exception):
    """A request failed; `status` is that of the answer, None where there was none."""

    attempts = 1  # counted by `RetryPolicy.run`

    def __init__(
        self,
        reason: str,
        status: int | None = None,
        *,
        retryable: bool,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(reason)
        self.status, self.retryable, self.retry_after = status, retryable, retry_after

    def __str__(self) -> str:
        again = f" (after {self.attempts} attempts)" if self.retryable else ""
        return f"{super().__str__()}{again}"


class ModelServer:
    """A server that runs a model, asked from any thread over one set of connections.

    Parameters:
        url: its address.
        key: sent as a bearer token, and never part of a message.
    """

    def __init__(self, url: str, key: str | None) -> None:
        self._url, self._key = url, key
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        self._client = open_client(timeout=TIMEOUT, headers=headers)
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=_run_until_stopped, args=[self._loop], daemon=True).start()
        weakref.finalize(self, _stop, self._loop, self._client)

    def post(self, path: str, body: JsonObject) -> bytes:
        """A successful answer; asked again where that can help: no connection, 429, 5xx.

        Raises `PostError`.
        """
        return self._wait(RETRIES.run(lambda: self._once("POST", path, body)))

    def get(self, path: str) -> bytes:
        """A successful answer; asked once. Raises `PostError`."""
        return self._wait(self._once("GET", path))

    def _wait(self, work: Coroutine[Any, Any, bytes]) -> bytes:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    async def _once(self, method: str, path: str, body: JsonObject | None = None) -> bytes:
        try:
            async with asyncio.timeout(MAX_SECONDS):
                answer = await self._client.request(method, f"{self._url}{path}", json=body)
        except TimeoutError:
            raise PostError("the response took too long as a whole", retryable=True) from None
        except httpx.TransportError as error:
            reason = connect_reason(error) if isinstance(error, httpx.ConnectError) else error
            raise PostError(f"{type(error).__name__}: {reason}", retryable=True) from None
        except httpx.HTTPError as error:
            raise PostError(str(error), retryable=False) from None
        if answer.is_success:
            return answer.content
        status, said = answer.status_code, redact_secrets(answer.text, self._key)
        raise PostError(
            ": ".join(filter(None, [f"HTTP {status}", said])),
            status,
            retryable=status == 429 or status >= 500,
            retry_after=parse_retry_after(answer.headers.get("Retry-After")),
        )


def _run_until_stopped(loop: asyncio.AbstractEventLoop) -> None:
    loop.run_forever()
    loop.close()


def _stop(loop: asyncio.AbstractEventLoop, client: httpx.AsyncClient) -> None:
    async def end() -> None:
        await client.aclose()
        loop.stop()

    asyncio.run_coroutine_threadsafe(end(), loop)


class RemoteEmbedder:
    """A model behind an HTTP API; `open_remote` makes it from what a user wrote.

    Its `name` has kind, model and dimension, and not the address, which changes no vector.
    """

    max_tokens = MAX_TOKENS
    prompts = NO_PROMPTS  # the server adds what its model needs

    def __init__(self, name: str, model: str, url: str, api: _Api) -> None:
        self._model, self._url, self._api = model, url, api
        key = next((os.environ[one] for one in api.key_names if os.environ.get(one)), None)
        self._server = ModelServer(url, key)
        self._parallel = _parallel_requests()
        self.texts_at_once = TEXTS_IN_A_REQUEST * self._parallel
        self._path = api.paths[0]
        self.dimension = 0
        self.dimension = self._request(["dimension"]).shape[1]
        model = model or self._served_model()
        name = f"{name}:{model}" if name == "tei" else name
        self.name = f"{name} d={self.dimension} tokens={MAX_TOKENS}"

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """The server's tokenizer is not available: three characters a token is on the safe side
        for English, and one a token for scripts without spaces.
        """
        return [_estimate(text) for text in texts]

    def embed(self, texts: Sequence[str], progress: Progress = silent) -> Vectors:
        """One vector of length 1 for each text, 64 texts a request and several requests at once."""
        batches = [
            [strip_controls(text) or " " for text in texts[start : start + TEXTS_IN_A_REQUEST]]
            for start in range(0, len(texts), TEXTS_IN_A_REQUEST)
        ]
        parts = [np.zeros((0, self.dimension), np.float32)]
        pool = ThreadPoolExecutor(self._parallel, thread_name_prefix="assay-embed")
        try:
            for part in pool.map(self._request, batches):
                parts.append(part)
                done = min(len(texts), (len(parts) - 1) * TEXTS_IN_A_REQUEST)
                progress("embedding", done, len(texts))
        finally:
            pool.shutdown(cancel_futures=True)
        vectors = np.concatenate(parts)
        # In double precision, where no square of a number is too large.
        squares = np.einsum("ij,ij->i", vectors, vectors, dtype=np.float64)
        norms = np.sqrt(squares)[:, np.newaxis]
        return np.asarray(vectors / np.maximum(norms, 1e-12), np.float32)

    def _request(self, texts: Sequence[str]) -> Vectors:
        answer = self._post(self._api.body(self._model, list(texts)))
        try:
            with np.errstate(over="ignore"):  # what is too large becomes infinite, and is refused
                vectors = np.array(self._api.vectors(parse_json(answer)), np.float32, ndmin=1)
        except _IndexError as error:
            raise self._error(str(error), "update the server, or use another one") from None
        except (ValueError, KeyError, TypeError) as error:
            # The class alone: a message may quote what came.
            raise self._error(f"the response cannot be parsed ({type(error).__name__})") from None
        wanted = (len(texts), self.dimension or vectors.shape[-1])
        if vectors.shape != wanted or 0 in vectors.shape:
            raise self._error(f"expected a matrix of {wanted} numbers, got one of {vectors.shape}")
        if not np.isfinite(vectors).all():
            raise self._error("a vector has a number that is missing, infinite or NaN")
        if not (present := vectors.any(axis=1)).all():
            place = int(present.argmin())
            text = texts[place]
            size = f"{len(text):,} characters" if text.strip() else "blank"
            raise self._error(
                f"the vector of text {place + 1} of {len(texts)} in a request ({size}) contains "
                "only zeros, so no similarity can be computed",
                "use another model, or remove documents whose words it does not know",
            )
        if vectors.shape[1] > MAX_DIMENSION:
            raise self._error(
                f"vectors of {vectors.shape[1]:,} numbers, more than {MAX_DIMENSION:,}"
            )
        return vectors

    def _post(self, body: JsonObject) -> bytes:
        """The answer of the first path that the server has."""
        while True:
            try:
                return self._server.post(self._path, body)
            except PostError as error:
                if error.status != 404 or self._path == self._api.paths[-1]:
                    raise self._error(str(error)) from None
            self._path = self._api.paths[self._api.paths.index(self._path) + 1]

    def _served_model(self) -> str:
        """What the server says that it serves: vectors of two models must never mix."""
        try:
            served = parse_json(self._server.get("/info"))["model_id"]
        except (PostError, ValueError, KeyError, TypeError):
            served = None
        if (
            not isinstance(served, str)
            or not 0 < len(served) <= _MAX_NAME
            or not (served.isprintable())
        ):
            raise self._error("GET /info names no model_id")
        return served

    def _error(self, reason: str, remedy: str = "") -> SearchError:
        keys = " or ".join(self._api.key_names)
        remedy = remedy or (
            "check the URL, the model name and, if the server requires one, the API key in " + keys
        )
        model = f" of model {self._model!r}" if self._model else ""
        return SearchError(
            f"could not get embeddings{model} from {redact_url(self._url)}: {reason}; {remedy}"
        )


def _parallel_requests() -> int:
    chosen = os.environ.get("ASSAY_EMBEDDER_CONCURRENCY", "4")
    if not chosen.isdecimal() or not 1 <= int(chosen) <= 64:
        raise UsageError(f"ASSAY_EMBEDDER_CONCURRENCY must be from 1 to 64, got {chosen!r}")
    return int(chosen)


def _estimate(text: str) -> int:
    ascii_count = sum(character.isascii() for character in text)
    return math.ceil(ascii_count / 3) + len(text) - ascii_count
