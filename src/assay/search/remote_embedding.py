"""Embeddings from a server that speaks like Ollama or like OpenAI: `ollama:MODEL@URL`."""

import math
import os
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import httpx
import numpy as np

from assay.errors import SearchError, UsageError
from assay.progress import Progress, silent
from assay.search.embedding import Vectors
from assay.search.plain_text import plain

MAX_TOKENS = 256
TEXTS_IN_A_REQUEST = 64
ATTEMPTS = 5
LONGEST_WAIT = 60.0
TIMEOUT = httpx.Timeout(120.0, connect=10.0)


@dataclass(frozen=True, slots=True)
class _Dialect:
    default_url: str
    path: str
    key_names: tuple[str, ...]
    vectors: Callable[[Any], Any]


def _openai_vectors(answer: Any) -> Any:
    # The order of `data` is not promised; `index` says which text a vector is of.
    return [item["embedding"] for item in sorted(answer["data"], key=lambda item: item["index"])]


_DIALECTS: Mapping[str, _Dialect] = {
    "ollama": _Dialect(
        "http://127.0.0.1:11434",
        "/api/embed",
        ("ASSAY_EMBEDDER_KEY",),
        lambda answer: answer["embeddings"],
    ),
    "openai": _Dialect(
        "https://api.openai.com",
        "/v1/embeddings",
        ("ASSAY_EMBEDDER_KEY", "OPENAI_API_KEY"),
        _openai_vectors,
    ),
}


def open_remote(spec: str) -> "RemoteEmbedder":
    """`KIND:MODEL[@URL]`; the model is asked once, to learn its dimension."""
    kind, _, rest = spec.partition(":")
    model, _, url = rest.partition("@")
    if kind not in _DIALECTS or not model:
        raise UsageError(
            f"--embedder {spec!r} is not understood; give ollama:MODEL[@URL] or openai:MODEL[@URL]"
        )
    dialect = _DIALECTS[kind]
    url = url or os.environ.get("OLLAMA_HOST", "") * (kind == "ollama") or dialect.default_url
    url = url.rstrip("/").removesuffix("/v1")
    if urlsplit(url).scheme not in ("http", "https") or not urlsplit(url).hostname:
        raise UsageError(f"--embedder {spec!r}: {url!r} is no http(s) address")
    return RemoteEmbedder(f"{kind}:{model}", model, url, dialect)


class RemoteEmbedder:
    def __init__(self, name: str, model: str, url: str, dialect: _Dialect) -> None:
        self._model, self._url, self._dialect = model, url, dialect
        key = next((os.environ[one] for one in dialect.key_names if os.environ.get(one)), None)
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        self._client = httpx.Client(timeout=TIMEOUT, headers=headers)
        weakref.finalize(self, self._client.close)
        self._dimension = 0
        self._dimension = self._request(["dimension"]).shape[1]
        self._name = f"{name} d={self._dimension} tokens={MAX_TOKENS}"

    @property
    def name(self) -> str:
        return self._name

    @property
    def dimension(self) -> int:
        return self._dimension

    @property
    def max_tokens(self) -> int:
        return MAX_TOKENS

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """The server's tokenizer is not at hand: three characters a token is on the safe side
        for English, and one a token for scripts without spaces.
        """
        return [_estimate(text) for text in texts]

    def embed(self, texts: Sequence[str], progress: Progress = silent) -> Vectors:
        parts = [np.zeros((0, self._dimension), np.float32)]
        for start in range(0, len(texts), TEXTS_IN_A_REQUEST):
            batch = texts[start : start + TEXTS_IN_A_REQUEST]
            parts.append(self._request([plain(text) or " " for text in batch]))
            progress("embedding", start + len(batch), len(texts))
        vectors = np.concatenate(parts)
        norms = np.linalg.norm(vectors, axis=1, keepdims=True)
        return np.asarray(vectors / np.maximum(norms, 1e-12), np.float32)

    def _request(self, texts: Sequence[str]) -> Vectors:
        answer = self._ask({"model": self._model, "input": list(texts)})
        try:
            vectors = np.array(self._dialect.vectors(answer.json()), np.float32, ndmin=1)
        except (ValueError, KeyError, TypeError) as error:
            raise self._refusal(f"its answer is not understood ({error!r})") from None
        wanted = (len(texts), self._dimension or vectors.shape[-1])
        if vectors.shape != wanted or 0 in vectors.shape or not np.isfinite(vectors).all():
            raise self._refusal(
                f"its answer is no matrix of {wanted} finite numbers, but one of {vectors.shape}"
            )
        return vectors

    def _ask(self, body: Mapping[str, Any]) -> httpx.Response:
        """Ask again where that can help: no connection, 429, 5xx."""
        for attempt in range(1, ATTEMPTS + 1):
            pause = min(2.0 ** (attempt - 2), LONGEST_WAIT)
            try:
                answer = self._client.post(self._url + self._dialect.path, json=body)
            except httpx.HTTPError as error:
                why = f"{type(error).__name__}: {error}"
            else:
                if answer.is_success:
                    return answer
                why = f"HTTP {answer.status_code}: {_reason(answer)}"
                if answer.status_code != 429 and answer.status_code < 500:
                    raise self._refusal(why)
                pause = _retry_after(answer, pause)
            if attempt < ATTEMPTS:
                time.sleep(pause)
        raise self._refusal(f"{why} (asked {ATTEMPTS} times)")

    def _refusal(self, why: str) -> SearchError:
        keys = " or ".join(self._dialect.key_names)
        return SearchError(
            f"no embeddings of the model {self._model!r} from {_without_password(self._url)}: "
            f"{why}; check the address, the model's name and, where it wants one, the key in {keys}"
        )


def _estimate(text: str) -> int:
    ascii_count = sum(character.isascii() for character in text)
    return math.ceil(ascii_count / 3) + len(text) - ascii_count


def _retry_after(answer: httpx.Response, pause: float) -> float:
    try:
        return min(max(float(answer.headers["Retry-After"]), 0.0), LONGEST_WAIT)
    except (KeyError, ValueError):  # absent, or a date
        return pause


def _reason(answer: httpx.Response) -> str:
    """The server's own words: short, and on one line."""
    return " ".join(answer.text.split())[:200] or answer.reason_phrase


def _without_password(url: str) -> str:
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
