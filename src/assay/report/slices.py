"""Slices of queries by length, tags and relevant documents.

Which slice a query falls in depends on the query and its judgments alone, so two runs can be
compared slice by slice.
"""

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from assay.metrics.statistics import PairedResult, compare_paired, holm
from assay.run.models import QueryRow

WORDS, RELEVANT, TAG = "words", "relevant", "tag"
OUTCOME, DOC_TYPE = OUTCOMES = ("outcome", "type")
"""Slices of what became of a query in one run."""

_MAX_TAGS = 14
_MIN_QUERIES = 5
"""Smaller slices are not compared: nothing could be told about them."""

_WORD_STEPS = (1, 2, 3, 5, 8, 12)
_RELEVANT_STEPS = (1, 2, 4, 8, 16, 32, 64)


class Slice(NamedTuple):
    """A group of queries: `kind` is what they have in common, `name` which of them."""

    kind: str
    name: str

    @property
    def title(self) -> str:
        """`1 word`, `8–11 words`, `2–3 relevant`, `tag household`, `type note`."""
        if self.kind == WORDS:
            return f"{self.name} word{'' if self.name == '1' else 's'}"
        titles = {RELEVANT: f"{self.name} relevant", TAG: f"tag {self.name}"}
        return {**titles, DOC_TYPE: f"type {self.name}"}.get(self.kind, self.name)

    @property
    def key(self) -> str:
        """What names a slice in an address."""
        return f"{self.kind}:{self.name}"


def slices_of(row: QueryRow, tags: Iterable[str] = ()) -> Iterator[Slice]:
    """The slices that a query belongs to; the last are what became of it in this run."""
    yield Slice(WORDS, _step(len(row.query_text.split()), _WORD_STEPS))
    yield Slice(RELEVANT, _step(row.total_relevant_docs, _RELEVANT_STEPS))
    for tag in tags:
        yield Slice(TAG, tag)
    if row.failure:
        yield Slice(OUTCOME, f"failed: {row.failure}")
    elif row.total_relevant_docs:
        whole = row.relevant_docs_retrieved >= row.total_relevant_docs
        some = "all found" if whole else "some found"
        yield Slice(OUTCOME, some if row.relevant_docs_retrieved else "nothing found")
    if row.doc_types:
        yield Slice(DOC_TYPE, row.doc_types[0])


def _step(value: int, steps: Sequence[int]) -> str:
    """The step that a value falls in, `3–4`; the last step has no end."""
    place = bisect_right(steps, value)
    if place == 0:
        return f"below {steps[0]}"
    start = steps[place - 1]
    if place == len(steps):
        return f"{start}+"
    return str(start) if steps[place] == start + 1 else f"{start}–{steps[place] - 1}"


def ordered(sizes: Mapping[Slice, int]) -> list[Slice]:
    """Slices in the order to show them; of tags the most frequent, of one kind with one slice none.

    A kind with one slice is the whole run again.
    """
    kinds: dict[str, list[Slice]] = defaultdict(list)
    for found in sizes:
        kinds[found.kind].append(found)
    for kind in (WORDS, RELEVANT):
        kinds[kind].sort(key=lambda found: int(re.findall(r"\d+", found.name)[0]))
    for kind in (TAG, *OUTCOMES):
        kinds[kind].sort(key=lambda found: (-sizes[found], found.name))
    kinds[TAG] = kinds[TAG][:_MAX_TAGS]
    chosen = [kinds[kind] for kind in (WORDS, RELEVANT, TAG, *OUTCOMES)]
    return [found for names in chosen if len(names) > 1 for found in names]


def compare_slices(
    scores: Mapping[Slice, Sequence[tuple[float, float]]],
) -> list[tuple[Slice, PairedResult]]:
    """Every slice of at least five queries, significant changes first, then the largest.

    A slice of what became of a query in the first run can only get better, so it is not compared.
    p-values are corrected for the number of slices (Holm).
    """
    keys = [
        key
        for key in ordered({key: len(values) for key, values in scores.items()})
        if len(scores[key]) >= _MIN_QUERIES and key.kind not in OUTCOMES
    ]
    compared = [compare_paired(*np.array(scores[key]).T) for key in keys]
    adjusted = holm([one.p_value for one in compared])
    found = [replace(one, p_adjusted=p) for one, p in zip(compared, adjusted, strict=True)]
    return sorted(
        zip(keys, found, strict=True),
        key=lambda pair: (not pair[1].significant, -abs(pair[1].difference)),
    )
