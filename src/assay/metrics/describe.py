"""Statistics of a data set that say how far a score on it can be trusted."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from math import ceil
from statistics import median

from assay.data.dataset import Dataset, Query
from assay.metrics.formulas import GradedLists, has_relevant
from assay.metrics.metric import Metric, Precision, Recall
from assay.metrics.statistics import queries_needed
from assay.net.json import JsonObject
from assay.text import words

CUTOFFS = (5, 10, 100)
DIFFERENCES = (0.01, 0.02, 0.05)

# How far nDCG@10 of two systems differs from query to query, if it was not measured: on NFCorpus
# 0.21 for BM25 and a dense retriever, 0.08 for BM25 with and without stemming.
ASSUMED_STD = 0.2
MUCH_SEEN = 0.5
# From this Jaccard similarity of their words, two queries count as nearly the same.
SIMILAR = 0.6


def describe_dataset(dataset: Dataset, split: str = "test") -> JsonObject:
    """Describe a data set: sizes, grades, ceilings, overlap with train, and what it can resolve.

    `measurable` queries have a relevant document, and `ceilings` are means over those of `split`.
    """
    judged = dataset.judgments_in(split)
    ideal = GradedLists.ideal(grades for grades in judged.values() if has_relevant(grades))
    metrics: list[Metric] = [metric @ k for metric in (Recall, Precision) for k in CUTOFFS]
    lengths = [len(document.full_text.split()) for document in dataset.documents.values()]
    overlap, splits = _overlap(dataset, split), {}
    for name, judgments in dataset.judgments.items():
        grades = Counter(grade for one in judgments.values() for grade in one.values())
        splits[name] = {
            "queries": len(judgments),
            "measurable": sum(map(has_relevant, judgments.values())),
            "judgments": grades.total(),
            "grades": {str(grade): grades[grade] for grade in sorted(grades)},
        }
    return {
        "name": dataset.name,
        "fingerprint": dataset.fingerprint,
        "documents": len(dataset.documents),
        "empty_documents": lengths.count(0),
        "median_length": median(lengths or [0]),
        "longest": max(lengths, default=0),
        "queries": len(dataset.queries),
        "answers": len(dataset.answers),
        "tags": dict(Counter(t for q in dataset.queries.values() for t in q.tags).most_common()),
        "splits": splits,
        "split": split,
        "ceilings": {repr(m): float(m.measure(ideal, ideal).mean()) for m in metrics if ideal.size},
        "overlap_with_train": overlap,
        "assumed_std": ASSUMED_STD,
        "queries_needed": {str(each): queries_needed(ASSUMED_STD, each) for each in DIFFERENCES},
        "warnings": (*dataset.warnings, *_warnings(ideal.size, split, overlap)),
    }


def _overlap(dataset: Dataset, split: str) -> JsonObject | None:
    """How much of a split can be known from the train judgments."""
    if split == "train" or "train" not in dataset.judgments:
        return None
    seen = set().union(*dataset.judgments_in("train").values())
    judged = dataset.judgments_in(split).values()
    relevant = {document for one in judged for document, grade in one.items() if grade > 0}
    pairs = similar_pairs(dataset.queries_in(split), dataset.queries_in("train"))
    known = len(relevant & seen)
    share = known / len(relevant) if relevant else 0.0
    return {
        "relevant_documents": len(relevant),
        "seen_in_train": known,
        "share_seen": share,
        "queries_like_a_train_query": len(pairs),
        "example": next(iter(pairs), None),
    }


def _warnings(measurable: int, split: str, overlap: JsonObject | None) -> Iterable[str]:
    if not measurable:
        yield f"no query of split {split!r} has a relevant document: no ranking can be measured"
    if overlap is None:
        return
    if overlap["share_seen"] >= MUCH_SEEN:
        seen, relevant = overlap["seen_in_train"], overlap["relevant_documents"]
        yield (
            f"{seen:,} of {relevant:,} relevant documents of {split!r} are in the train "
            "judgments; compare no trained system with a zero-shot one"
        )
    if overlap["example"]:
        number, (query, other) = overlap["queries_like_a_train_query"], overlap["example"]
        yield (
            f"{number:,} queries of {split!r} are nearly the same as a train query, for "
            f"example {query!r} and {other!r}"
        )


def similar_pairs(these: Iterable[Query], those: Iterable[Query]) -> list[tuple[str, str]]:
    """For each of `these` the first of `those` with a Jaccard similarity of at least SIMILAR."""
    sets = {query.id: frozenset(words(query.text)) for query in those}
    holders: defaultdict[str, list[str]] = defaultdict(list)
    for identifier, held in sets.items():
        for word in held:
            holders[word].append(identifier)
    pairs = []
    for query in these:
        own = frozenset(words(query.text))
        # Two sets that similar share one of the first n - ceil(SIMILAR * n) + 1 words in any order
        # (Bayardo, Ma and Srikant 2007); the order by rarity keeps the candidates few.
        rarest = sorted(own, key=lambda word: (len(holders.get(word, ())), word))
        probes = rarest[: len(own) - ceil(SIMILAR * len(own)) + 1]
        candidates = (other for word in probes for other in holders.get(word, ()))
        for other in candidates:
            if len(own & sets[other]) / len(own | sets[other]) >= SIMILAR:
                pairs.append((query.id, other))
                break
    return pairs
