"""The figures of searches, each recomputed by hand."""

import numpy as np
import pytest

from assay.metrics.metric import nDCG
from assay.metrics.scoring import score
from assay.metrics.searches import (
    Trajectory,
    best_order,
    found_share,
    list_agreement,
    split_variance,
)

EVIDENCE = [{"a"}, {"b", "b2"}, {"c"}, {"d"}]


def test_a_known_trajectory() -> None:
    """Three searches: a and noise; a again with b2; nothing new. c and d are never shown."""
    path = Trajectory(
        shown=[["a", "x"], ["a", "b2", "y"], ["x"]],
        returned=["b2", "z"],
        evidence=EVIDENCE,
        tokens=[100, 200, 50],
    )
    assert path.curve() == [0.25, 0.5, 0.5]
    assert path.seen == ["a", "x", "b2", "y"]
    assert path.figures() == {
        "evidence_recall": 0.5,
        "evidence_complete": 0.0,
        "evidence_auc@10": pytest.approx((0.25 + 9 * 0.5) / 10),
        "calls": 3.0,
        "redundancy": pytest.approx(1 - 4 / 6),
        "overrun": pytest.approx(1 / 3),
        "kept": 0.5,
        "unseen": 0.5,
    }
    assert path.share_after([99, 100, 299, 300, 10_000]) == [0, 0.25, 0.25, 0.5, 0.5]


def test_any_member_of_a_group_satisfies_it() -> None:
    shares = [found_share(ids, EVIDENCE) for ids in (["b"], ["b2"], ["b", "b2"], list("abcd"))]
    assert shares == [0.25, 0.25, 0.25, 1]


def test_an_agent_that_does_not_search() -> None:
    figures = Trajectory([], ["a"], EVIDENCE).figures()
    nothing = ("evidence_recall", "evidence_complete", "evidence_auc@10", "calls")
    assert figures == dict.fromkeys(nothing, 0) | {"unseen": 1}


@pytest.mark.parametrize(
    ("shown", "overrun"),
    [([["x"]], 0), ([["a"], ["x"], ["x"], ["x"]], 0.75), ([["x"], ["x"], ["a"]], 0)],
    ids=["one in vain", "three after the last", "found at the end"],
)
def test_overrun(shown: list[list[str]], overrun: float) -> None:
    assert Trajectory(shown, [], EVIDENCE).figures()["overrun"] == overrun


def test_what_is_cited_is_kept() -> None:
    path = Trajectory([["a", "b"]], ["a"], EVIDENCE, cited=["b"])
    assert path.figures()["kept"] == 1


@pytest.mark.parametrize("returned", [["x", "a"], ["b", "a"], [], ["d", "a", "b"], ["z", "z"]])
def test_the_losses_add_up_to_what_is_lost(returned: list[str]) -> None:
    grades = {"a": 2, "b": 1, "c": 1, "d": 2}
    seen = ["x", "b", "a", *returned]
    rankings = {"own": returned, "best": best_order(seen, grades)}
    found = score(rankings, dict.fromkeys(rankings, grades), [nDCG @ 3]).by_query(nDCG @ 3)
    search_loss, selection_loss = 1 - found["best"], found["best"] - found["own"]
    assert search_loss + selection_loss == pytest.approx(1 - found["own"])
    assert search_loss >= 0
    assert selection_loss >= 0


def test_variance_is_split_between_questions_and_trials() -> None:
    between, within, advice = split_variance(np.array([[0.0, 0.0], [1.0, 1.0]]))
    assert (between, within) == (0.5, 0)
    assert "one is enough" in advice
    between, within, advice = split_variance(np.array([[0.0, 1.0], [0.0, 1.0]]))
    assert (between, within) == (0, 0.5)
    assert advice.startswith("more trials")
    mixed = split_variance(np.array([[0.0, 0.2], [1.0, 0.8]]))
    assert mixed[2] == "more questions, not more trials"


def test_agreement_of_lists() -> None:
    assert list_agreement([["a", "b"], ["b", "a"]]) == 1
    assert list_agreement([["a", "b"], ["b", "c"], ["b", "c"]]) == pytest.approx(
        (1 / 3 + 1 / 3 + 1) / 3
    )
    assert list_agreement([[], []]) == list_agreement([["a"]]) == 1
