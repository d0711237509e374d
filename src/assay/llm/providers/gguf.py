"""A GGUF file that llama.cpp runs in this process."""

import asyncio
import importlib
import os
import threading
from functools import cached_property
from pathlib import Path
from typing import Any

from assay.errors import ProviderError, ProviderFailure, UsageError
from assay.extras import require_extras
from assay.llm.providers.provider import Completion, setting
from assay.llm.providers.services import read_chat_completion, read_reply
from assay.net.redact import redact_secrets

GGUF_VARIABLE = "ASSAY_GGUF_MODEL"
_CONTEXT = 8192


class GgufModel:
    """The model in `file`, else in the one that `ASSAY_GGUF_MODEL` names: `GgufModel("m.gguf")`.

    It is loaded on the first call, and answers one prompt at a time.
    """

    def __init__(self, file: str) -> None:
        file = file or setting(GGUF_VARIABLE) or ""
        require_extras("a GGUF file", "xllamacpp")
        self._path = Path(file).expanduser()
        if not self._path.is_file():
            raise UsageError(f"no such GGUF file: {file!r}; use gguf:PATH, or set {GGUF_VARIABLE}")
        self._lock = threading.Lock()

    @property
    def name(self) -> str:
        """`gguf:FILE`, without folder and suffix."""
        return f"gguf:{self._path.stem}"

    @property
    def identity(self) -> str:
        """With the size, which separates files of one name without reading gigabytes."""
        return f"{self.name} {self._path.stat().st_size} context={_CONTEXT}"

    async def complete(self, prompt: str, max_tokens: int) -> Completion:
        """The reply, computed in a thread."""
        messages = [{"role": "user", "content": prompt}]
        request = {"messages": messages, "max_tokens": max_tokens, "temperature": 0, "seed": 0}

        def ask() -> Any:
            with self._lock:
                return self._server.handle_chat_completions(request)

        reply = await asyncio.to_thread(ask)
        if error := reply.get("error"):
            words = redact_secrets(str(error.get("message", error)))
            raise ProviderError(ProviderFailure.BAD_REQUEST, f"{self.name} cannot answer: {words}")
        return read_reply(read_chat_completion, reply, self.name)

    @cached_property
    def _server(self) -> Any:
        xllamacpp: Any = importlib.import_module("xllamacpp")
        parameters = xllamacpp.CommonParams()
        parameters.model.path = str(self._path)
        parameters.n_ctx = _CONTEXT
        parameters.n_parallel = 1
        parameters.warmup = False
        parameters.verbosity = 1  # errors only
        # One core stays free: the threads spin while they wait for each other, so all are slow if
        # one core is busy. On two shared cores, one thread used a third of the CPU time of two.
        threads = max(1, (os.cpu_count() or 1) - 1)
        parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = threads
        try:
            return xllamacpp.Server(parameters)
        except (RuntimeError, ValueError) as error:
            raise UsageError(
                f"{str(self._path)!r} cannot be loaded: {redact_secrets(str(error))}"
            ) from None

    async def close(self) -> None:
        """Free the model's memory."""
        self.__dict__.pop("_server", None)
