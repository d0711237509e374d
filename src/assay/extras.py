"""Which extra brings an optional package, and what to say if it is missing."""

from collections.abc import Iterable
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from assay.errors import UsageError

if TYPE_CHECKING:
    from pandas import DataFrame

PACKAGES = {
    "a2a": "serve",
    "google": "serve",
    "httpx2": "mcp",
    "ir_datasets": "ir-datasets",
    "lightgbm": "tuned",
    "mcp": "mcp",
    "mcp_types": "mcp",
    "onnx": "tuned",
    "onnxruntime": "search",
    "pyarrow": "data",
    "qdrant_client": "qdrant",
    "ray": "ray",
    "scipy": "tuned",
    "sentence_transformers": "torch",
    "sse_starlette": "serve",
    "starlette": "serve",
    "threadpoolctl": "tuned",
    "tokenizers": "search",
    "torch": "torch",
    "transformers": "torch",
    "uvicorn": "serve",
    "xllamacpp": "gguf",
}
"""The import name of each optional package, with the extra that installs it."""


class MissingExtra(UsageError):
    """A feature needs a package that the installation does not have."""

    def __init__(self, package: str, extra: str) -> None:
        super().__init__(
            f"this needs the package {package!r}, which is not installed; "
            f"run: pip install 'agent-assay[{extra}]'"
        )
        self.package = package
        self.extra = extra


def missing_extra(error: ImportError) -> MissingExtra | None:
    """The message for a failed import of an optional package; None for any other import."""
    package = (error.name or "").partition(".")[0]
    extra = PACKAGES.get(package)
    return None if extra is None else MissingExtra(package, extra)


def require_extras(feature: str, *packages: str) -> None:
    """Raise `UsageError` with one command for every extra that `feature` lacks."""
    missing = [package for package in packages if find_spec(package) is None]
    if missing:
        extras = ",".join(sorted({PACKAGES[package] for package in missing}))
        raise UsageError(
            f"{feature} needs packages that are not installed: {', '.join(missing)}; "
            f"run: pip install 'agent-assay[{extras}]'"
        )


def data_frame(rows: "Iterable[dict[str, Any]]") -> "DataFrame":
    """The rows as a pandas data frame. pandas belongs to no extra: who wants frames has it."""
    try:
        from pandas import DataFrame
    except ImportError:
        raise UsageError(
            "to_pandas needs pandas, which is not installed; run: pip install pandas"
        ) from None
    return DataFrame(list(rows))
