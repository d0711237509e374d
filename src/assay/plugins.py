"""What other packages add by entry points: a plug-in is one function or class.

[project.entry-points."assay.metrics"]
rbp = "my_package:rank_biased_precision"
"""

from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from assay.errors import UsageError

GROUPS = (
    "assay.targets",
    "assay.metrics",
    "assay.datasets",
    "assay.providers",
    "assay.answer_checks",
    "assay.listeners",
)


@dataclass(frozen=True, slots=True)
class Plugin:
    """An installed plug-in; `error` says why it cannot be loaded, and is empty if it can."""

    group: str
    name: str
    value: str
    package: str
    error: str = ""


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


def installed_plugins() -> Iterator[Plugin]:
    """Every plug-in of every group, loaded once to see whether it can be."""
    for group in GROUPS:
        for point in entry_points(group=group):
            error = ""
            try:
                load_plugin(point)
            except UsageError as failure:
                error = str(failure)
            package = f"{point.dist.name} {point.dist.version}" if point.dist else ""
            yield Plugin(group, point.name, point.value, package, error)
