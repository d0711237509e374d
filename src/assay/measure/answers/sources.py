"""What was retrieved and what was cited, against the documents that matter. Ids alone, no text."""

from collections.abc import Collection, Sequence


def context_recall(retrieved: Sequence[str], needed: Collection[str]) -> float:
    """The share of the needed documents that were retrieved; says nothing about their use."""
    return _share(set(needed) & set(retrieved), needed)


def context_precision(retrieved: Sequence[str], relevant: Collection[str]) -> float:
    """The share of the retrieved documents that are relevant; order does not count.

    Unjudged documents count as not relevant, so where judgments are sparse this is a lower bound.
    A document that is sent twice counts once.
    """
    distinct = set(retrieved)
    return _share(distinct & set(relevant), distinct)


def citation_precision(cited: Sequence[str], relevant: Collection[str]) -> float:
    """The share of the cited documents that are relevant. A document that does not exist is not,
    and an answer that cites nothing has no right citation: 0.
    """
    distinct = set(cited)
    return _share(distinct & set(relevant), distinct)


def citation_recall(cited: Sequence[str], relevant: Collection[str]) -> float:
    """The share of the relevant documents that are cited. An answer that needs one of ten relevant
    documents is not worse for leaving out nine: see `multi_hop_coverage` for what is needed.
    """
    return _share(set(relevant) & set(cited), relevant)


def multi_hop_coverage(cited: Sequence[str], needed: Collection[str]) -> float:
    """The share of the documents that only together hold the answer, and that the answer cites."""
    return _share(set(needed) & set(cited), needed)


def unknown_citations(cited: Sequence[str], known: Collection[str]) -> list[str]:
    """Citations of documents that do not exist, in the order of the answer."""
    return [each for each in dict.fromkeys(cited) if each not in known]


def _share(part: Collection[str], whole: Collection[str]) -> float:
    return len(part) / len(set(whole)) if whole else 0.0
