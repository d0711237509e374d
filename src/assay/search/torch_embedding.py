"""Sentence embeddings with PyTorch: any model of sentence-transformers, on a GPU or a CPU.

On a GPU two stages work at the same time. Processes tokenize; this process sorts what they return
by length, packs it into batches of about the same number of tokens, and keeps the GPU busy. The
model's own modules pool and normalize.
"""

import hashlib
import os
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from assay.errors import SearchError, UsageError
from assay.progress import Progress, silent
from assay.search.embedding import TEXTS_UNTIL_SAVED, Prompts, Vectors
from assay.search.token_ids import TokenIds, TokenProcesses, TokenReader

MAX_TOKENS = 512
"""The most tokens of a text that are read, even where the model would take more."""

_TYPES = {"fp32": "float32", "fp16": "float16", "bf16": "bfloat16"}
PRECISIONS = ("auto", *_TYPES)

_TOKENS_IN_A_BATCH = {"cpu": 4096, "mps": 16_384, "cuda": 262_144}
_TEXTS_IN_A_WINDOW = 16_384
"""Sorted by length together: enough that hardly anything is padded."""
_TOKENIZE_HERE = 2048
"""Fewer texts than this are not worth starting processes for."""


class TorchEmbedder:
    """A model of sentence-transformers.

    Parameters:
        model: a folder, or a name that sentence-transformers finds in its cache or downloads.
        device: `auto`, `cpu`, `cuda`, `cuda:N` or `mps`; `auto` takes a GPU where there is one.
        precision: one of `PRECISIONS`; `auto` is fp16 on a GPU and fp32 on a CPU.
        processes: how many tokenize for a GPU; by default one for each core but one, at most 8.

    Its `name` has a hash of the weights; device and precision change no more than the last digits
    of a vector, and are not in it.
    """

    def __init__(
        self,
        model: str,
        *,
        device: str = "auto",
        precision: str = "auto",
        processes: int | None = None,
    ) -> None:
        import torch

        self._torch = torch
        self.device = choose_device(device)
        kind = self.device.partition(":")[0]
        if precision not in PRECISIONS:
            raise UsageError(f"unknown precision {precision!r}; use one of {', '.join(PRECISIONS)}")
        self.precision = precision if precision != "auto" else "fp32" if kind == "cpu" else "fp16"
        self._model = _load(model, self.device)
        digest = _digest(self._model)  # before the weights are rounded
        self._model.eval().to(getattr(torch, _TYPES[self.precision]))
        self._budget = _TOKENS_IN_A_BATCH[kind]
        self.max_tokens = min(MAX_TOKENS, int(self._model.max_seq_length or MAX_TOKENS))
        self._tokenizer = _tokenizer(self._model, model)
        self._reader = TokenReader(self._tokenizer, self.max_tokens)
        self._processes = (
            processes if processes is not None else min(8, max(1, (os.cpu_count() or 2) - 1))
        )
        self.prompts = Prompts.parse({"prompts": getattr(self._model, "prompts", None)})
        self._tokenizing: TokenProcesses | None = None
        padding = Tokenizer.from_str(self._tokenizer).padding
        self._pad = int(padding["pad_id"]) if padding else 0
        self.dimension = int(self._start(self._reader.encode(["dimension"]))[1][0].shape[1])
        self.name = f"st:{_label(model)}@{digest} tokens={self.max_tokens}"
        self.texts_at_once = TEXTS_UNTIL_SAVED if kind == "cpu" else 4 * _TEXTS_IN_A_WINDOW

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """How many tokens each text has, without special tokens and without a limit."""
        return self._reader.count(texts)

    def embed(self, texts: Sequence[str], progress: Progress = silent) -> Vectors:
        """One vector of length 1 for each text."""
        vectors: Vectors = np.zeros((len(texts), self.dimension), np.float32)
        done = 0
        waiting: deque[tuple[NDArray[np.int64], list[Any]]] = deque()
        for window in self._windows(texts):
            waiting.append(self._start(window))
            if len(waiting) > 1:  # the next window is computed while this one is copied
                done = self._finish(*waiting.popleft(), vectors, done)
                progress("embedding", done, len(texts))
        for one in waiting:
            done = self._finish(*one, vectors, done)
        progress("embedding", done, len(texts))
        return vectors

    def _windows(self, texts: Sequence[str]) -> Iterator[TokenIds]:
        """Token ids of the texts, in order, many texts at a time."""
        if self.device != "cpu" and len(texts) >= _TOKENIZE_HERE and self._processes > 1:
            if self._tokenizing is None:  # kept: a process learns the words that it meets
                self._tokenizing = TokenProcesses(self._tokenizer, self.max_tokens, self._processes)
            yield from self._tokenizing.encode(texts, _TEXTS_IN_A_WINDOW)
            return
        for start in range(0, len(texts), _TEXTS_IN_A_WINDOW):
            yield self._reader.encode(texts[start : start + _TEXTS_IN_A_WINDOW])

    def close(self) -> None:
        """End the processes that tokenize."""
        if self._tokenizing is not None:
            self._tokenizing.close()
            self._tokenizing = None

    def _start(self, window: TokenIds) -> tuple[NDArray[np.int64], list[Any]]:
        """Queue the window's batches on the device, the longest texts first."""
        order = np.argsort(-window.lengths, kind="stable")
        outputs: list[Any] = []
        begin = 0
        while begin < len(order):
            longest = max(1, int(window.lengths[order[begin]]))
            rows = order[begin : begin + max(1, self._budget // longest)]
            equal = int((window.lengths[rows] == longest).sum())
            if 2 * equal > len(rows):  # most texts fill the limit: those need no mask
                rows = rows[:equal]
            output = self._forward(window, rows)
            if output is not None:
                outputs.append(output)
                begin += len(rows)
        return order, outputs

    def _forward(self, window: TokenIds, rows: NDArray[np.int64]) -> Any:
        """The vectors of one batch, still on the device; None where it did not fit its memory,
        and batches are half as large from now on.
        """
        torch = self._torch
        ids, mask = window.padded(rows)
        if self._pad:
            ids = np.where(mask == 1, ids, self._pad)
        features = {"input_ids": self._to_device(torch.from_numpy(ids))}
        if not mask.all():  # without a mask, attention is quicker, and nothing waits to look at it
            features["attention_mask"] = self._to_device(torch.from_numpy(mask))
        try:
            with torch.inference_mode():
                return self._model(features)["sentence_embedding"]
        except torch.OutOfMemoryError:
            if len(rows) == 1:
                raise SearchError(
                    f"a single text of {ids.shape[1]} tokens does not fit into the memory of "
                    f"{self.device}; use a smaller model, or --device cpu"
                ) from None
            self._budget = max(1, self._budget // 2)
            torch.cuda.empty_cache()
            return None

    def _to_device(self, tensor: Any) -> Any:
        if self.device.startswith("cuda"):
            return tensor.pin_memory().to(self.device, non_blocking=True)
        return tensor.to(self.device)

    def _finish(
        self, order: NDArray[np.int64], outputs: Sequence[Any], vectors: Vectors, done: int
    ) -> int:
        """Copy a window's vectors to their rows; returns how many rows are done."""
        torch = self._torch
        with torch.inference_mode():
            computed = torch.nn.functional.normalize(torch.cat(list(outputs)).float(), dim=1)
            # Into the order of the texts on the device, where it costs nothing.
            computed = torch.empty_like(computed).index_copy_(
                0, torch.from_numpy(order).to(computed.device), computed
            )
        vectors[done : done + len(order)] = computed.cpu().numpy()
        return done + len(order)


def choose_device(asked: str) -> str:
    """Where to compute: what was asked for, or the best that there is. Raises `UsageError`."""
    import torch

    cuda, mps = torch.cuda.is_available(), torch.backends.mps.is_available()
    if asked == "auto":
        return "cuda" if cuda else "mps" if mps else "cpu"
    kind = asked.partition(":")[0]
    if not {"cpu": True, "cuda": cuda, "mps": mps}[kind]:
        raise UsageError(
            f"--device {asked}: PyTorch {torch.__version__} finds no such device here; use "
            "--device auto or cpu"
        )
    return asked


def _load(model: str, device: str) -> Any:
    from sentence_transformers import SentenceTransformer
    from transformers.utils import logging

    logging.disable_progress_bar()  # of loading weights, which takes no time
    try:
        return SentenceTransformer(model, device=device)
    except Exception as error:  # files, hub, weights: each has classes of its own
        raise SearchError(
            f"--embedder st:{model}: the model cannot be loaded ({_first_line(error)}); pass a "
            "folder, or a name that sentence-transformers finds in its cache or can download"
        ) from None


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0][:300]


def _tokenizer(loaded: Any, model: str) -> str:
    """The tokenizer as JSON. Only the fast kind has one; every current model comes with it."""
    backend = getattr(loaded.tokenizer, "backend_tokenizer", None)
    if backend is None:
        raise SearchError(
            f"--embedder st:{model}: the model has no fast tokenizer (tokenizer.json); export it, "
            "or use another model"
        )
    return str(backend.to_str())


def _label(model: str) -> str:
    folder = Path(model).expanduser()
    return folder.name if folder.is_dir() else model


def _digest(loaded: Any) -> str:
    """A hash of the weights' names, shapes and a sample of each: reading all would take seconds."""
    digest = hashlib.sha256()
    for name, tensor in sorted(loaded.state_dict().items()):
        flat = tensor.detach().flatten()
        step = max(1, flat.numel() // 64)
        digest.update(f"{name} {tuple(tensor.shape)}".encode())
        digest.update(flat[::step].float().cpu().numpy().tobytes())
    return digest.hexdigest()[:12]
