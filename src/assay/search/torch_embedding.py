"""Sentence embeddings with PyTorch: any model of sentence-transformers, on a GPU or a CPU."""

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import Tokenizer

from assay.errors import SearchError, UsageError
from assay.progress import Progress, silent
from assay.search.embedding import TEXTS_UNTIL_SAVED, Prompts, TokenCounter, Vectors

MAX_TOKENS = 512
"""The most tokens of a text that are read, even if the model would take more."""

_TEXTS_IN_A_BATCH = {"cpu": 32, "mps": 128, "cuda": 1024}
_TEXTS_IN_A_WINDOW = 16_384
"""Sorted by length together: enough that hardly anything is padded."""


class TorchEmbedder:
    """TorchEmbedder("BAAI/bge-small-en-v1.5", device="cuda")  # fp16 on a GPU, fp32 on a CPU

    `model` is a folder, or a name that sentence-transformers finds in its cache or downloads. The
    `name` has a hash of the weights; the device changes no more than the last digits of a vector.
    """

    def __init__(self, model: str, *, device: str = "auto") -> None:
        self.device = choose_device(device)
        kind = self.device.partition(":")[0]
        self._model = _load(model, self.device)
        digest = _digest(self._model)  # before the weights are rounded
        if kind == "cuda":
            self._model.half()
        self.max_tokens = min(MAX_TOKENS, int(self._model.max_seq_length or MAX_TOKENS))
        self._model.max_seq_length = self.max_tokens
        self._counter = TokenCounter(_tokenizer(self._model, model))
        self._batch = _TEXTS_IN_A_BATCH[kind]
        self.prompts = Prompts.parse({"prompts": getattr(self._model, "prompts", None)})
        self.dimension = int(self.embed(["dimension"]).shape[1])
        folder = Path(model).expanduser()
        label = folder.name if folder.is_dir() else model
        self.name = f"st:{label}@{digest} tokens={self.max_tokens}"
        self.texts_at_once = TEXTS_UNTIL_SAVED if kind == "cpu" else 4 * _TEXTS_IN_A_WINDOW

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """How many tokens each text has, without special tokens and without a limit."""
        return self._counter(texts)

    def embed(self, texts: Sequence[str], progress: Progress = silent) -> Vectors:
        """One vector of length 1 for each text."""
        parts: list[Vectors] = []
        for start in range(0, len(texts), _TEXTS_IN_A_WINDOW):
            window = list(texts[start : start + _TEXTS_IN_A_WINDOW])
            parts.append(self._encode(window))
            progress("embedding", start + len(window), len(texts))
        return np.concatenate(parts) if parts else np.zeros((0, self.dimension), np.float32)

    def _encode(self, texts: list[str]) -> Vectors:
        import torch

        while True:
            try:
                found = self._model.encode(
                    texts,
                    prompt="",  # the caller has put it before the texts
                    batch_size=self._batch,
                    normalize_embeddings=True,
                    show_progress_bar=False,
                )
                return np.asarray(found, np.float32)
            except torch.OutOfMemoryError:
                if self._batch == 1:
                    raise SearchError(
                        f"a single text does not fit into the memory of {self.device}; use a "
                        "smaller model, or ASSAY_DEVICE=cpu"
                    ) from None
                self._batch //= 2
                torch.cuda.empty_cache()


def choose_device(asked: str) -> str:
    """The device that was asked for, or the best that there is. Raises `UsageError`."""
    import torch

    cuda, mps = torch.cuda.is_available(), torch.backends.mps.is_available()
    if asked == "auto":
        return "cuda" if cuda else "mps" if mps else "cpu"
    if not {"cpu": True, "cuda": cuda, "mps": mps}[asked.partition(":")[0]]:
        raise UsageError(
            f"ASSAY_DEVICE={asked}: PyTorch {torch.__version__} finds no such device here; use "
            "ASSAY_DEVICE=cpu"
        )
    return asked


def _load(model: str, device: str) -> Any:
    from sentence_transformers import SentenceTransformer
    from transformers.utils import logging

    logging.disable_progress_bar()  # of loading weights, which takes no time
    try:
        return SentenceTransformer(model, device=device)
    except Exception as error:  # files, hub and weights have no common class
        reason = (str(error).strip() or type(error).__name__).splitlines()[0][:300]
        raise SearchError(
            f"--embedder st:{model}: the model cannot be loaded ({reason}); pass a folder, or a "
            "name that sentence-transformers finds in its cache or can download"
        ) from None


def _tokenizer(loaded: Any, model: str) -> Tokenizer:
    """A copy that counts without a limit. Only the fast kind has one, as all current models do."""
    backend = getattr(loaded.tokenizer, "backend_tokenizer", None)
    if backend is None:
        raise SearchError(
            f"--embedder st:{model}: the model has no fast tokenizer (tokenizer.json); export it, "
            "or use another model"
        )
    copied = Tokenizer.from_str(backend.to_str())
    copied.no_truncation()
    copied.no_padding()
    return copied


def _digest(loaded: Any) -> str:
    """A hash of the weights' names, shapes and a sample of each: reading all would take seconds."""
    digest = hashlib.sha256()
    for name, tensor in sorted(loaded.state_dict().items()):
        flat = tensor.detach().flatten()
        step = max(1, flat.numel() // 64)
        digest.update(f"{name} {tuple(tensor.shape)}".encode())
        digest.update(flat[::step].float().cpu().numpy().tobytes())
    return digest.hexdigest()[:12]
