"""A document cut into sentences that can be quoted."""

import re

from assay.answer.citations import without_markers

# Not after what is short for something, and not before a small letter: neither begins a sentence.
_SHORT_FORMS = "ext tel no No Nr ca approx vs Dr Mr Mrs St Fig"
_BOUNDARY = re.compile(
    r"(?<=[.!?])"
    + "".join(rf"(?<!\b{form}\.)" for form in _SHORT_FORMS.split())
    + r"\s+(?=[^a-z\s])|(?<=[。！？])|\n+"
)
_BULLET = re.compile(r"^\s*(?:[-*•]|\d+[.)])\s+")


def sentences_of(text: str) -> list[str]:
    """Without bullets and reference marks. A sentence stands once."""
    parts = _BOUNDARY.split(without_markers(text))
    bare = (_BULLET.sub("", part).strip() for part in parts if part)
    return list(dict.fromkeys(part for part in bare if part))
