import numpy as np
import pytest
from hypothesis import strategies as st

from assay.search.fusion import LEXICAL_WEIGHT, fuse, ranked, rocchio_feedback

scores = st.dictionaries(st.text(max_size=3), st.floats(-1, 1e6, width=32), max_size=6)


def test_each_signal_counts_in_proportion_to_its_best() -> None:
    fused = fuse({"a": 20.0, "b": 10.0}, {"b": 0.8, "c": 0.4})
    assert fused == pytest.approx(
        {
            "a": LEXICAL_WEIGHT,
            "b": LEXICAL_WEIGHT / 2 + (1 - LEXICAL_WEIGHT),
            "c": (1 - LEXICAL_WEIGHT) / 2,
        }
    )


def test_without_words_in_common_the_dense_order_stands() -> None:
    assert ranked(fuse({}, {"a": 0.1, "b": 0.9})) == ["b", "a"]


def test_feedback_moves_the_query_towards_what_it_found() -> None:
    query = np.array([1.0, 0.0], np.float32)
    assert rocchio_feedback(query, [[0.0, 1.0]], [0.5]) == pytest.approx(
        np.array([1, 1]) / np.sqrt(2)
    )
    assert rocchio_feedback(query, [[0.0, 0.0]], [1.0]) == pytest.approx(query)
    # One that scores half as much counts an eighth as much.
    both = rocchio_feedback(np.zeros(2, np.float32), [[1.0, 0.0], [0.0, 1.0]], [1.0, 0.5])
    assert both[1] / both[0] == pytest.approx(1 / 8)
