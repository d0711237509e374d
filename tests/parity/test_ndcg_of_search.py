"""nDCG by which the search chooses its settings equals the metric that is reported."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.metrics.metric import nDCG
from assay.metrics.scoring import score_rankings
from assay.search.tuning.validation import ndcg_at

documents = st.sampled_from([f"d{number}" for number in range(30)])


@settings(max_examples=100, deadline=None)
@given(
    st.lists(documents, unique=True, max_size=30),
    st.dictionaries(documents, st.integers(-2, 4), min_size=1),
    st.sampled_from([1, 5, 10, 100]),
)
def test_the_search_computes_the_reported_ndcg(
    ranking: list[str], grades: dict[str, int], depth: int
) -> None:
    reported = score_rankings({"q": ranking}, {"q": grades}, [nDCG @ depth])
    found = ndcg_at([grades.get(one, 0) for one in ranking], grades.values(), depth)
    expected = reported.values[nDCG @ depth].tolist() or [
        0.0
    ]  # none is reported without relevant ones
    assert [found] == pytest.approx(expected, rel=0, abs=1e-9)
