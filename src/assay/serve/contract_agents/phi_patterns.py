"""Finding text that looks like protected health information, without ever repeating it."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class PhiPatterns:
    """Kinds and their patterns; a kind may have several."""

    patterns: Sequence[tuple[str, re.Pattern[str]]]

    def kinds_in(self, value: Any) -> tuple[str, ...]:
        """The kinds found anywhere in a value of JSON, keys included, in the order of the rules."""
        texts = list(_texts(value))
        found = {
            kind for kind, pattern in self.patterns if any(pattern.search(text) for text in texts)
        }
        return tuple(dict.fromkeys(kind for kind, _ in self.patterns if kind in found))


def _texts(value: Any, label: str = "") -> Iterator[str]:
    """Every text, as `key: value` where it stands under a key: the label may be the key."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield str(key)
            yield from _texts(item, str(key).replace("_", " "))
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _texts(item, label)
    elif isinstance(value, str | int | float) and not isinstance(value, bool):
        yield f"{label}: {value}" if label else str(value)
