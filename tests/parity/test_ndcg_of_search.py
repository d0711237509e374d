"""nDCG by which the search chooses its settings equals the metric that is reported."""

import numpy as np
import pytest
import scipy.sparse as sparse  # type: ignore[import-untyped]
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.metrics.metric import nDCG
from assay.metrics.scoring import score_rankings
from assay.search.tuning.validation import scores_by_query

documents = st.integers(0, 29)


@settings(max_examples=100, deadline=None)
@given(
    st.lists(documents, unique=True, max_size=30),
    st.dictionaries(documents, st.integers(0, 4), min_size=1),
)
def test_the_search_computes_the_reported_ndcg(ranking: list[int], grades: dict[int, int]) -> None:
    judged = {str(one): grade for one, grade in grades.items()}
    reported = score_rankings({"q": list(map(str, ranking))}, {"q": judged}, [nDCG @ 10])
    row = np.zeros((1, 30), np.float32)
    row[0, list(grades)] = list(grades.values())
    found = scores_by_query([np.array(ranking, np.int64)], sparse.csr_matrix(row))
    expected = reported.values[nDCG @ 10].tolist() or [0.0]  # none without relevant documents
    assert found == pytest.approx(expected, rel=0, abs=1e-6)
