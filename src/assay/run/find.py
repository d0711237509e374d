"""Finding the folder of a run or a bench by what a user calls it."""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from assay.errors import RunError, did_you_mean

LATEST = "latest"

_Found = TypeVar("_Found")


@dataclass(frozen=True, slots=True)
class FolderKind:
    """Folders that are found by path, by name, by the start of a name or as the latest.

    Parameters:
        one: what such a folder is called in messages.
        many: the same of several.
        marker: the file by which one is recognized.
        creates: the command that makes one.
        remedy: what to do if a name fits none, or several.
    """

    one: str
    many: str
    marker: str
    creates: str
    remedy: str

    def at(self, reference: str, out: Path) -> Path | None:
        """The folder of this path, or of this name in `out`; None if there is none."""
        for path in (Path(reference), out / reference):
            with suppress(OSError):  # longer than a path may be: a label, perhaps
                if (path / self.marker).is_file():
                    return path
        return None

    def latest(self, newest_first: Iterable[_Found], out: Path) -> _Found:
        """The first of all that `out` has. Raises `RunError` if that is none."""
        for found in newest_first:
            return found
        raise RunError(f"no {self.one} in {out}; create one with: {self.creates}")

    def only(
        self, reference: str, matches: Sequence[_Found], known: Iterable[str], out: Path
    ) -> _Found:
        """The one match. Raises `RunError`, which suggests a `known` name if none fits."""
        if len(matches) == 1:
            return matches[0]
        problem = f"{len(matches)} {self.many} are" if matches else f"no {self.one} is"
        hint = "" if matches else did_you_mean(reference, [LATEST, *known])
        raise RunError(f"{problem} called {reference!r} under {out}; {self.remedy}{hint}")


RUNS = FolderKind("run", "runs", "run.json", "assay eval", "list them with: assay runs")
BENCHES = FolderKind(
    "bench",
    "benches",
    "suite.toml",
    "assay bench SUITE",
    "name its folder, or finish the newest with: assay bench --resume latest",
)
