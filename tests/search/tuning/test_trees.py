"""Sets of trees: the mean of several that differ in their seed."""

import numpy as np

from assay.search.tuning.trees import SETS, TreeGraph, TreeSets, learn_overlap


def learned(seed: int = 0) -> tuple[TreeSets, np.ndarray]:
    draw = np.random.default_rng(0)
    features = draw.standard_normal((3000, 6)).astype(np.float32)
    target = (features[:, 0] + draw.standard_normal(3000)).astype(np.float32)
    return learn_overlap(features, target, seed), features


def test_a_prediction_is_the_mean_of_sets_with_other_seeds() -> None:
    trees, features = learned()
    own = [TreeSets((one,)).predict(features, -1) for one in trees.sets]
    assert len(own) == SETS >= 2
    assert not np.array_equal(own[0], own[1])
    assert np.allclose(trees.predict(features, -1), np.mean(own, axis=0), atol=1e-6)


def test_the_graph_of_the_trees_says_what_lightgbm_says() -> None:
    """On both sides of every threshold too: one that is rounded up would let a value pass."""
    trees, features = learned()
    thresholds = [
        line.partition("=")[2].split()
        for one in trees.sets
        for line in one.model_to_string().splitlines()
        if line.startswith("threshold=")
    ]
    for at in np.array([float(one) for tree in thresholds for one in tree[:3]], np.float32):
        near = np.array([np.nextafter(at, -np.inf), at, np.nextafter(at, np.inf)], np.float32)
        features = np.vstack([features, np.tile(near[:, None], features.shape[1])])
    for count in (-1, 20):
        found = TreeGraph.of(trees, count).predict(features, len(features))
        assert np.allclose(found, trees.predict(features, count), rtol=0, atol=1e-5)
