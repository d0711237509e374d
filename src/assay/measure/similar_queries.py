"""Queries that say nearly the same: where a trained system can remember instead of search."""

from collections import defaultdict
from collections.abc import Iterable
from math import ceil

from assay.data.dataset import Query
from assay.text import words

SIMILAR = 0.6
"""From this share of common words on, a query says nearly the same as another."""


def similar_pairs(these: Iterable[Query], those: Iterable[Query]) -> list[tuple[str, str]]:
    """For each of `these` the first of `those` with a Jaccard similarity of at least SIMILAR.

    Only the rarest words are looked up: two sets that similar share one of the first
    n - ceil(SIMILAR * n) + 1 words in any order (Bayardo, Ma and Srikant 2007), and the order by
    rarity keeps the candidates few.
    """
    sets = {query.id: _words(query.text) for query in those}
    holders: defaultdict[str, list[str]] = defaultdict(list)
    for identifier, held in sets.items():
        for word in held:
            holders[word].append(identifier)
    pairs = []
    for query in these:
        own = _words(query.text)
        rarest = sorted(own, key=lambda word: (len(holders.get(word, ())), word))
        probes = rarest[: len(own) - ceil(SIMILAR * len(own)) + 1]
        candidates = (other for word in probes for other in holders.get(word, ()))
        match = next((other for other in candidates if _jaccard(own, sets[other]) >= SIMILAR), "")
        if match:
            pairs.append((query.id, match))
    return pairs


def _words(text: str) -> frozenset[str]:
    return frozenset(words(text))


def _jaccard(a: frozenset[str], b: frozenset[str]) -> float:
    return len(a & b) / len(a | b)
