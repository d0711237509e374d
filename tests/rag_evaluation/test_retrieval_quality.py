"""Does the search find the documents that hold the answer?

Recall at 10 over the expected documents cannot reach 0.8 for any of the five selected queries: they
have 14 to 21 expected documents for ten places, so its ceilings are 0.476 to 0.714. What is held
against a gate is therefore the share of the places that could be filled and were (capped recall).

The gate was chosen on the dev split: BM25 has 0.30 there, dense 0.33, the reference, hybrid,
0.37. Single queries say little: each of the five selected has a floor, one expected document.
"""

import pytest
from tests.rag_evaluation.conftest import DEPTH, Retrieve

from assay.labels.reference_writing import SELECTED
from assay.metrics.metric import CappedRecall, Metric, Recall
from assay.metrics.scoring import score
from assay.pytest_plugin import RagCase, RagTestData
from assay.pytest_plugin.fixtures import RecordAnswer

MEAN_CAPPED_RECALL = 0.35
FLOOR = 1 / DEPTH

# The first question may have to wait for the index to be built.
pytestmark = [pytest.mark.rag, pytest.mark.slow, pytest.mark.timeout(1800)]


def measured(case: RagCase, found: tuple[str, ...], metric: Metric) -> tuple[float, float]:
    """The figure and the best that it could be."""
    expected = dict.fromkeys(case.expected_document_ids, 1)
    scores = score({case.query_id: found}, {case.query_id: expected}, [metric])
    return scores.mean(metric), scores.mean_ceiling(metric)


async def test_retrieval_recall(
    rag_case: RagCase, retrieve: Retrieve, nfcorpus_test_data: RagTestData, rag_record: RecordAnswer
) -> None:
    found = await retrieve(rag_case)
    capped, _ = measured(rag_case, found, CappedRecall @ DEPTH)
    recall, ceiling = measured(rag_case, found, Recall @ DEPTH)
    rag_record(
        capped_recall_at_10=capped,
        recall_at_10=recall,
        ceiling_of_recall=ceiling,
        expected=len(rag_case.expected_document_ids),
    )
    unknown = [doc_id for doc_id in found if doc_id not in nfcorpus_test_data.dataset.documents]
    assert not unknown, "the target returned documents that do not exist"
    assert len(set(found)) == len(found), "the target returned a document twice"
    floor = FLOOR if rag_case.query_id in SELECTED else 0.0
    assert capped >= floor, f"no expected document among the first {DEPTH}: {rag_case.query!r}"


async def test_mean_retrieval_recall(
    nfcorpus_test_data: RagTestData, retrieve: Retrieve, rag_record: RecordAnswer
) -> None:
    figures = [
        measured(case, await retrieve(case), CappedRecall @ DEPTH)[0] for case in nfcorpus_test_data
    ]
    mean = sum(figures) / len(figures)
    rag_record(mean_capped_recall_at_10=mean, gate=MEAN_CAPPED_RECALL, queries=len(figures))
    assert mean >= MEAN_CAPPED_RECALL
