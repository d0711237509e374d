"""Facts about a data set, on one small enough to count by hand."""

import os

import pytest

from assay.data import Dataset, Document, Query, load_dataset
from assay.metrics.describe import ASSUMED_STD, describe_dataset
from assay.metrics.statistics import queries_needed

OFFICIAL = os.environ.get("NFCORPUS_ARCHIVE")  # read before the fixtures take it away

DOCUMENTS = {f"d{n}": Document(f"d{n}", "", "word " * n) for n in range(8)}
QUERIES = {
    "t1": Query("t1", "How is green tea made?", ("how",)),
    "t2": Query("t2", "coffee", ("how", "short")),
    "t3": Query("t3", "never relevant"),
    "s1": Query("s1", "how is black tea made"),
    "s2": Query("s2", "where is coffee grown"),
}
TEST = {"t1": {f"d{n}": 1 for n in range(1, 8)} | {"d0": 0}, "t2": {"d1": 2}, "t3": {"d1": 0}}
SMALL = Dataset(
    "small",
    DOCUMENTS,
    QUERIES,
    {"test": TEST, "train": {"s1": {"d1": 1, "d2": 1}, "s2": {"d3": 0}}},
    warnings=("something odd",),
)


def test_documents_splits_and_ceilings_are_described() -> None:
    facts = describe_dataset(SMALL)
    assert (facts["documents"], facts["empty_documents"]) == (8, 1)
    assert (facts["median_length"], facts["longest"]) == (3.5, 7)
    split = facts["splits"]["test"]
    assert (split["queries"], split["measurable"], split["judgments"]) == (3, 2, 10)
    assert split["grades"] == {"0": 2, "1": 7, "2": 1}
    needed = {str(each): queries_needed(ASSUMED_STD, each) for each in (0.01, 0.02, 0.05)}
    assert facts["queries_needed"] == needed
    # Means over the queries with a relevant document.
    assert facts["ceilings"]["Recall@5"] == pytest.approx((5 / 7 + 1) / 2)
    assert facts["ceilings"]["Precision@5"] == pytest.approx((1 + 1 / 5) / 2)
    assert facts["ceilings"]["Precision@100"] == pytest.approx((7 + 1) / 100 / 2)


def test_the_overlap_with_train_counts_documents_and_queries() -> None:
    overlap = describe_dataset(SMALL)["overlap_with_train"]
    assert overlap is not None
    assert (overlap["seen_in_train"], overlap["relevant_documents"]) == (3, 7)
    assert overlap["share_seen"] == pytest.approx(3 / 7)
    # 4 of 6 words in common: t1 and s1 are alike, t2 and s2 are not.
    assert (overlap["queries_like_a_train_query"], overlap["example"]) == (1, ("t1", "s1"))


def test_without_train_judgments_there_is_no_overlap() -> None:
    alone = Dataset("alone", DOCUMENTS, QUERIES, {"test": TEST})
    assert describe_dataset(alone)["overlap_with_train"] is None
    assert describe_dataset(SMALL, "train")["overlap_with_train"] is None


@pytest.mark.parametrize(
    ("judgments", "words"),
    [
        ({"test": TEST, "train": {"s1": dict.fromkeys(list(DOCUMENTS)[1:6], 1)}}, "5 of 7"),
        ({"test": {"t3": {"d1": 0}}}, "no query of split 'test'"),
    ],
)
def test_doubts_are_warnings(judgments: dict[str, dict[str, dict[str, int]]], words: str) -> None:
    odd = describe_dataset(Dataset("odd", DOCUMENTS, QUERIES, judgments))["warnings"]
    assert any(words in warning for warning in odd)
    assert not any(words in warning for warning in describe_dataset(SMALL)["warnings"])


@pytest.mark.skipif(not OFFICIAL, reason="NFCORPUS_ARCHIVE is not set")
def test_nfcorpus_has_the_overlap_that_is_known_of_it() -> None:
    overlap = describe_dataset(load_dataset("nfcorpus"))["overlap_with_train"]
    assert overlap is not None
    assert (overlap["seen_in_train"], overlap["relevant_documents"]) == (3115, 3128)
