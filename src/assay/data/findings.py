"""What a reader noticed and could live with, told once for each kind and not once for each line."""


class Findings:
    """Collects warnings while files are read; `messages` is what a data set carries away."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[int, str]] = {}

    def note(self, what: str, example: str, count: int = 1) -> None:
        """`what` in the plural, since a count follows it: "documents without text: 3"."""
        before, first = self._seen.get(what, (0, example))
        self._seen[what] = (before + count, first)

    @property
    def messages(self) -> tuple[str, ...]:
        return tuple(_sentence(what, *seen) for what, seen in self._seen.items())


def _sentence(what: str, count: int, example: str) -> str:
    return f"{what}: {count:,}, for example {example}" if count > 1 else f"{what}: 1, {example}"
