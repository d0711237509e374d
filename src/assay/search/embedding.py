"""What turns texts into vectors, and which one a command asks for."""

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from assay.errors import UsageError
from assay.progress import Progress, silent

Vectors = NDArray[np.float32]
"""One row for each text, of length 1, so that a dot product is a cosine."""


class Embedder(Protocol):
    """Safe to call from several threads at once."""

    @property
    def name(self) -> str:
        """Says model and settings: vectors are cached by it, an index is refused by it."""
        ...

    @property
    def dimension(self) -> int: ...

    @property
    def max_tokens(self) -> int:
        """Where the model stops reading; longer documents are split."""
        ...

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Without the marks that the model puts around a text."""
        ...

    def embed(self, texts: Sequence[str], progress: Progress = silent) -> Vectors: ...


def open_embedder(*, model: Path | None = None, embedder: str | None = None) -> Embedder:
    """The built-in model, a `model` folder (ONNX), or `embedder` `ollama:MODEL[@URL]`,
    `openai:MODEL[@URL]`.
    """
    if model is not None and embedder is not None:
        raise UsageError("--model and --embedder name two different embedders; give one of them")
    if embedder is not None:
        from assay.search.remote_embedding import open_remote

        return open_remote(embedder)
    from assay.search.onnx_embedding import open_builtin, open_folder

    return open_builtin() if model is None else open_folder(model)
