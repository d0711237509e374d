import numpy as np

from assay.search.tuning.trees import TreeGraph, learn_overlap, mean_prediction


def test_the_graph_of_the_trees_says_what_lightgbm_says() -> None:
    """On both sides of every threshold too: one that is rounded up would let a value pass."""
    draw = np.random.default_rng(0)
    features = draw.standard_normal((3000, 6)).astype(np.float32)
    target = (features[:, 0] + draw.standard_normal(3000)).astype(np.float32)
    trees = learn_overlap(features, target, seed=0)
    thresholds = [
        line.partition("=")[2].split()
        for one in trees
        for line in one.model_to_string().splitlines()
        if line.startswith("threshold=")
    ]
    for at in np.array([float(one) for tree in thresholds for one in tree[:3]], np.float32):
        near = np.array([np.nextafter(at, -np.inf), at, np.nextafter(at, np.inf)], np.float32)
        features = np.vstack([features, np.tile(near[:, None], features.shape[1])])
    for count in (-1, 20):
        found = TreeGraph.of(trees, count).predict(features, len(features))
        assert np.allclose(found, mean_prediction(trees, features, count), rtol=0, atol=1e-5)
