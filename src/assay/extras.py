"""What is installed beside the core: extras, what to say if one is missing, and plug-ins.

A plug-in is one function or class that another package names as an entry point:

[project.entry-points."assay.metrics"]
rbp = "my_package:rank_biased_precision"
"""

from collections.abc import Iterable, Iterator
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from assay.errors import UsageError

if TYPE_CHECKING:
    from pandas import DataFrame

# The import name of each optional package, with the extra that installs it.
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
GROUPS = (
    "assay.targets",
    "assay.metrics",
    "assay.datasets",
    "assay.providers",
    "assay.answer_checks",
    "assay.listeners",
)


class MissingExtra(UsageError):
    """`feature` needs packages that are not installed; the message has the command for all."""

    def __init__(self, feature: str, *packages: str) -> None:
        self.package = ", ".join(packages)
        self.extra = ",".join(sorted({PACKAGES[package] for package in packages}))
        super().__init__(
            f"{feature} needs packages that are not installed: {self.package}; "
            f"run: pip install 'agent-assay[{self.extra}]'"
        )


def missing_extra(error: ImportError) -> MissingExtra | None:
    """The message for a failed import of an optional package; None for any other import."""
    package = (error.name or "").partition(".")[0]
    return MissingExtra("this", package) if package in PACKAGES else None


def require_extras(feature: str, *packages: str) -> None:
    """Raise `MissingExtra` if some of `packages` are not installed."""
    if missing := [package for package in packages if find_spec(package) is None]:
        raise MissingExtra(feature, *missing)


def data_frame(rows: "Iterable[dict[str, Any]]") -> "DataFrame":
    """The rows as a pandas data frame. pandas belongs to no extra: who wants frames has it."""
    try:
        from pandas import DataFrame
    except ImportError:
        raise UsageError(
            "to_pandas needs pandas, which is not installed; run: pip install pandas"
        ) from None
    return DataFrame(list(rows))


def find_plugin(group: str, name: str) -> EntryPoint | None:
    """The plug-in of this name, or None: `find_plugin("assay.metrics", "rbp")`."""
    return next(iter(entry_points(group=group, name=name)), None)


def load_plugin(point: EntryPoint) -> Any:
    """What the entry point names; `UsageError` if importing it fails, for whatever reason."""
    try:
        return point.load()
    except Exception as error:
        raise UsageError(
            f"plug-in {point.name!r} of {point.group} ({point.value}) cannot be loaded: "
            f"{type(error).__name__}: {error}; update or uninstall its package"
        ) from error


def installed_plugins() -> Iterator[dict[str, str]]:
    """Every plug-in of every group; `error` says why it cannot be loaded, and is "" if it can."""
    for group in GROUPS:
        for point in entry_points(group=group):
            plugin = {"group": group, "name": point.name, "value": point.value, "error": ""}
            plugin["package"] = f"{point.dist.name} {point.dist.version}" if point.dist else ""
            try:
                load_plugin(point)
            except UsageError as failure:
                plugin["error"] = str(failure)
            yield plugin
