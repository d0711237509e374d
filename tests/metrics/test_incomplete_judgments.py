"""Metrics for incomplete judgments; tests/parity holds two of them to trec_eval."""

import random

import numpy as np
import pytest

from assay.metrics.formulas import GradedLists, inferred_ndcg
from assay.metrics.metric import bpref, infNDCG, nDCG
from assay.metrics.scoring import score


def test_unjudged_documents_leave_the_condensed_list() -> None:
    judgments = {"q": {"a": 1, "b": 0}}
    assert score({"q": ["x", "y", "a"]}, judgments, [nDCG @ 3])["ndcg@3"] == pytest.approx(0.5)
    for ids in (["x", "y", "a"], ["a"], ["x", "a", "y"]):
        condensed = score({"q": ids}, judgments, [nDCG(judged_only=True) @ 1])
        assert condensed[nDCG(judged_only=True) @ 1] == 1.0


def test_bpref_counts_only_judged_documents_above() -> None:
    judgments = {"q": {"a": 1, "c": 1, "n": 0, "m": 0}}
    for ids, value in (
        (["a", "c"], 1.0),
        (["x", "y", "a", "z", "c"], 1.0),
        (["n", "a", "c"], 0.5),
        (["a", "n", "m", "c"], 0.5),
        (["n", "m", "a", "c"], 0.0),
        (["x"], 0.0),
        ([], 0.0),
    ):
        assert score({"q": ids}, judgments, [bpref])["bpref"] == pytest.approx(value), ids


@pytest.mark.parametrize(
    ("sample", "ranking", "value"),
    [
        # One judged of three: it stands for three, at the first three places of the ideal list.
        ({"a": 1, "b": -1, "c": -1}, ["x", "a"], 3 / np.log2(3) / (1.5 + 1 / np.log2(3))),
        # Two judged of four: each stands for two.
        (
            {"a": 1, "b": 1, "c": -1, "d": -1},
            ["a"],
            2 / (1.5 + 1 / np.log2(3) + 1 / np.log2(5)),
        ),
        # Two judged of three: the first stands for one place and a half.
        ({"a": 2, "b": 1, "c": -1}, ["a"], 3 / (2.5 + 1.5 / np.log2(3))),
    ],
)
def test_inferred_ndcg_by_hand(sample: dict[str, int], ranking: list[str], value: float) -> None:
    found = score({"q": ranking}, {"q": sample}, [infNDCG @ 10])["infndcg@10"]
    assert found == pytest.approx(value)


def test_inferred_ndcg_estimates_what_a_full_pool_would_give() -> None:
    """Half of the pool is judged, drawn at random: the mean of the estimates is near the truth."""
    draw = random.Random(7)
    pool = {f"d{j}": int(draw.random() < 0.4) for j in range(200)}
    pool["d0"] = 1
    run = {"q": draw.sample(sorted(pool), 100)}
    truth = score(run, {"q": pool}, [nDCG @ 100])["ndcg@100"]
    estimates, punished = [], []
    for _ in range(200):
        judged = set(draw.sample(sorted(pool), 100))
        sample = {doc: grade if doc in judged else -1 for doc, grade in pool.items()}
        found = score(run, {"q": sample}, [infNDCG @ 100, nDCG @ 100])
        estimates.append(found["infndcg@100"])
        punished.append(found["ndcg@100"])
    assert np.mean(estimates) == pytest.approx(truth, abs=0.02)
    assert abs(np.mean(punished) - truth) > 0.05


def test_a_pool_of_which_nothing_was_judged_says_nothing() -> None:
    ranked = GradedLists.ranked([["a"]], [{"a": -1}])
    assert inferred_ndcg(ranked, GradedLists.ideal([{"a": -1}]), 10).tolist() == [0.0]
    with pytest.raises(ValueError, match="shorter"):
        GradedLists.ranked([["a"], ["b"]], [{"a": -1}])
