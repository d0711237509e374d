"""Progress callbacks of long-running work."""

from collections.abc import Callable

# Called with what is being done, how much of it is done, and how much there is (None: unknown).
Progress = Callable[[str, int, int | None], None]


def silent(_what: str, _done: int, _total: int | None) -> None:
    """A callback that ignores all progress."""
