"""Sentence embeddings with PyTorch: any model of sentence-transformers, on a GPU or a CPU."""

import hashlib
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from assay.errors import SearchError, UsageError
from assay.progress import Progress, silent
from assay.search.embedding import TEXTS_UNTIL_SAVED, Prompts, TokenCounter, Vectors
from assay.search.workers import ahead

# The most tokens of a text that are read, even if the model would take more
MAX_TOKENS = 512

_TOKENS_IN_A_BATCH = {"cpu": 4096, "mps": 16_384, "cuda": 131_072}
# Sorted by length together: enough that hardly anything is padded
_TEXTS_IN_A_WINDOW = 8192

# Those of all texts one after the other, and how many each text has
_Tokens = tuple[NDArray[np.int32], NDArray[np.int64]]


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
        backend = getattr(self._model.tokenizer, "backend_tokenizer", None)
        if backend is None:
            raise SearchError(f"--embedder st:{model} has no fast tokenizer (tokenizer.json)")
        counting, tokenizer = (Tokenizer.from_str(backend.to_str()) for _ in range(2))
        for one in (counting, tokenizer):
            one.no_padding()
        counting.no_truncation()
        self.count_tokens = TokenCounter(counting)
        tokenizer.enable_truncation(self.max_tokens)
        self._tokenizer, self._padding = tokenizer, self._model.tokenizer.pad_token_id or 0
        self._batch = _TOKENS_IN_A_BATCH[kind]
        self.prompts = Prompts.parse({"prompts": getattr(self._model, "prompts", None)})
        self.dimension = int(self.embed(["dimension"]).shape[1])
        folder = Path(model).expanduser()
        label = folder.name if folder.is_dir() else model
        self.name = f"st:{label}@{digest} tokens={self.max_tokens}"
        self.texts_at_once = TEXTS_UNTIL_SAVED if kind == "cpu" else 4 * _TEXTS_IN_A_WINDOW

    def embed(self, texts: Sequence[str], progress: Progress = silent) -> Vectors:
        """One vector of length 1 for each text."""
        # Not by `SentenceTransformer.encode`, which tokenizes while the GPU waits.
        starts = range(0, len(texts), _TEXTS_IN_A_WINDOW)
        windows = (self._tokenize(texts[start : start + _TEXTS_IN_A_WINDOW]) for start in starts)
        parts: list[Vectors] = []
        for tokens in ahead(windows):
            parts.append(self._encode(tokens))
            progress("embedding", sum(map(len, parts)), len(texts))
        return np.concatenate(parts) if parts else np.zeros((0, self.dimension), np.float32)

    def _tokenize(self, texts: Sequence[str]) -> _Tokens:
        found = [one.ids for one in self._tokenizer.encode_batch_fast(list(texts))]
        lengths = np.array([len(ids) for ids in found], np.int64)
        return np.fromiter(chain.from_iterable(found), np.int32, int(lengths.sum())), lengths

    def _encode(self, tokens: _Tokens) -> Vectors:
        """Of one window, longest texts first. Vectors are copied from the device once."""
        import torch

        flat, lengths = tokens
        # The longest first: where memory does not suffice, the first batch shows it.
        order, starts = np.argsort(-lengths, kind="stable"), np.cumsum(lengths) - lengths
        parts, done = [], 0
        while done < len(order):
            longest = max(1, int(lengths[order[done]]))
            rows = order[done : done + max(1, self._batch // longest)]
            mask = np.arange(longest) < lengths[rows, None]
            ids = np.full(mask.shape, self._padding, np.int64)
            ids[mask] = flat[(starts[rows, None] + np.arange(longest))[mask]]
            pair = {"input_ids": ids, "attention_mask": mask.astype(np.int64)}
            try:
                with torch.inference_mode():
                    given = {key: torch.from_numpy(v).to(self.device) for key, v in pair.items()}
                    found = self._model(given)["sentence_embedding"].float()
                    parts.append(torch.nn.functional.normalize(found, dim=1))
                done += len(rows)
            except torch.OutOfMemoryError:
                if len(rows) == 1:
                    raise SearchError(
                        f"a single text does not fit into the memory of {self.device}; use a "
                        "smaller model, or ASSAY_DEVICE=cpu"
                    ) from None
                self._batch = longest * (len(rows) // 2)
                torch.cuda.empty_cache()
        vectors = np.empty((len(order), parts[0].shape[1]), np.float32)
        vectors[order] = torch.cat(parts).cpu().numpy()
        return vectors


def choose_device(asked: str) -> str:
    """The device that was asked for, or the best that there is. Raises `UsageError`."""
    import torch

    cuda, mps = torch.cuda.is_available(), torch.backends.mps.is_available()
    if asked == "auto":
        return "cuda" if cuda else "mps" if mps else "cpu"
    if not {"cpu": True, "cuda": cuda, "mps": mps}.get(asked.partition(":")[0]):
        raise UsageError(
            f"ASSAY_DEVICE={asked}: PyTorch {torch.__version__} finds no such device here; use "
            "auto, cpu, mps, cuda or cuda:N"
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


def _digest(loaded: Any) -> str:
    """A hash of the weights' names, shapes and a sample of each: reading all would take seconds."""
    digest = hashlib.sha256()
    for name, tensor in sorted(loaded.state_dict().items()):
        flat = tensor.detach().flatten()
        step = max(1, flat.numel() // 64)
        digest.update(f"{name} {tuple(tensor.shape)}".encode())
        digest.update(flat[::step].float().cpu().numpy().tobytes())
    return digest.hexdigest()[:12]
