"""Citations of agents that only number them: `[2]` in the answer is the second of its sources."""

import re
from collections.abc import Sequence

# [1], [1, 3], [Document 2], [Source 4]; a year or a footnote of a document is beyond the sources.
_MARKER = re.compile(
    r"\[\s{0,3}(?:(?:document|doc|source|note|citation)s?\s{0,3}#?)?"
    r"(\d{1,3}(?:\s{0,3}[,;]\s{0,3}\d{1,3})*)\s{0,3}\]",
    re.IGNORECASE,
)


def marked_sources(answer: str | None, sources: Sequence[str]) -> tuple[str, ...]:
    """The sources that the answer names by their number, in the order in which it does."""
    numbers = [
        int(number)
        for match in _MARKER.finditer(answer or "")
        for number in re.findall(r"\d+", match[1])
    ]
    cited = [sources[number - 1] for number in numbers if 1 <= number <= len(sources)]
    return tuple(dict.fromkeys(cited))
