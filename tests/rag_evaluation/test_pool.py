"""The part of NFCorpus that CI evaluates is enough for figures like those on the whole."""

import os

import pytest
from scripts.nfcorpus_pool import DEPTH, POOL, pooled

from assay.data import load_dataset
from assay.labels.reference_writing import SELECTED, expected_ids
from assay.targets.target_kinds import OpenContext, open_target


@pytest.fixture(scope="module", autouse=True)
def archive() -> None:
    """Whatever data set the session evaluates."""
    if not os.environ.get("NFCORPUS_ARCHIVE"):
        pytest.skip("set NFCORPUS_ARCHIVE to the official nfcorpus.zip")


async def test_nothing_that_is_judged_or_found_first_is_missing() -> None:
    whole = load_dataset("nfcorpus")
    part = pooled(whole, POOL.read_text().split())
    assert [query.id for query in part.queries_in("test")] == list(SELECTED)
    bm25 = open_target("builtin:bm25", OpenContext(whole))
    await bm25.open()
    for query_id in SELECTED:
        found = (await bm25.ask(whole.queries[query_id].text, DEPTH)).doc_ids
        assert set(found) <= part.documents.keys()
        assert expected_ids(part, "test", query_id) == expected_ids(whole, "test", query_id)
        assert part.judgments_in("test")[query_id].keys() <= part.documents.keys()
    await bm25.close()
