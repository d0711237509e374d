"""Learning to rank with LightGBM, and what was learned as one ONNX graph.

ONNX Runtime asks several sets of trees at once, in half the CPU of LightGBM, and opening a model
then imports neither. The same seed gives the same trees on every run.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from assay.net.json import JsonObject
from assay.search.onnx_embedding import open_session
from assay.search.tuning.features import Bytes, Floats, best_columns

if TYPE_CHECKING:
    import lightgbm  # where trees are learned, not where a model is opened
    from onnxruntime import InferenceSession

OVERLAP_TREES = 150
RANKING_TREES = 100
FIRST_TREES = 20
# Fixed, since sums over threads depend on their number; one is faster if there is little to do.
THREADS = 2
SETS = 2
# Between the seeds of one model, so that those of neighboring seeds share none.
SEEDS_APART = 1000
SINGLE_THREAD_BELOW = 30_000
# Grades above this are as good as this one.
HIGHEST_GRADE = 30

_INPUT = "features"
_ALWAYS: dict[str, object] = {
    "verbose": -1,
    "deterministic": True,
    # Else LightGBM times two ways of counting and takes the quicker, which differs between runs.
    "force_row_wise": True,
    "bagging_freq": 1,
    "max_bin": 63,
}
_OVERLAP: dict[str, object] = {
    "objective": "regression",
    "learning_rate": 0.1,
    "num_leaves": 31,
    "min_data_in_leaf": 100,
    "bagging_fraction": 0.4,
    "feature_fraction": 0.5,
}
# What a leaf says is drawn towards zero (`lambda_l2`): the fewer pairs of documents it has seen,
# the less it moves a score. A few odd queries then teach little, and trees may be larger.
_RANKING: dict[str, object] = {
    "objective": "lambdarank",
    "learning_rate": 0.1,
    "num_leaves": 31,
    "min_data_in_leaf": 50,
    "lambda_l2": 10.0,
    "bagging_fraction": 0.5,
    "feature_fraction": 0.3,
    "lambdarank_truncation_level": 20,
    "metric": "none",
}


# Sets of trees that learned the same with other seeds.
TreeSets: TypeAlias = "tuple[lightgbm.Booster, ...]"


def mean_prediction(sets: TreeSets, features: Floats, trees: int = -1) -> Floats:
    """The mean of what the first `trees` trees of each set say; all of them for -1."""
    found = [one.predict(features, 0, trees, num_threads=THREADS) for one in sets]
    return np.asarray(np.mean(found, axis=0), np.float32)


def learn_overlap(features: Floats, target: Floats, seed: int) -> TreeSets:
    """Trees that predict the overlap of a query with a judged one."""
    import lightgbm

    data = lightgbm.Dataset(features, target)
    settings = _ALWAYS | _OVERLAP | {"num_threads": _threads(len(target))}
    seeds = [seed + SEEDS_APART * number for number in range(SETS)]
    return tuple(lightgbm.train({**settings, "seed": one}, data, OVERLAP_TREES) for one in seeds)


def learn_ranking(
    features: Floats, grades: Floats, sizes: Floats, queries: Sequence[int], seed: int
) -> TreeSets:
    """LambdaMART (Burges 2010) over bundles, one set; `queries`: how many rows each query has.

    A bundle of many documents fills more of the page when it is ranked first, so it weighs more.
    """
    import lightgbm

    labels = np.minimum(np.rint(grades), HIGHEST_GRADE).astype(np.int64)
    weights = np.sqrt(np.minimum(sizes, 10))
    # Linear, as in the nDCG that is measured; LightGBM's own are 2^grade - 1.
    gains = list(range(int(labels.max(initial=1)) + 1))
    data = lightgbm.Dataset(features, labels, group=list(queries), weight=weights)
    threads = _threads(len(labels))
    settings = _ALWAYS | _RANKING | {"label_gain": gains, "num_threads": threads, "seed": seed}
    return (lightgbm.train(settings, data, RANKING_TREES),)


def _threads(rows: int) -> int:
    return 1 if rows < SINGLE_THREAD_BELOW else THREADS


@dataclass(frozen=True)
class TreeGraph:
    """What a new query meets of `TreeSets`: the mean of their sets, as ONNX graphs.

    The `first` trees of every set are asked for all rows, the `rest` for the best rows alone:
    boosting corrects ever less, so that no row far down would come up. On NFCorpus dev, the first
    ten documents are those of all trees for all rows. `ranks`: only the order counts, and rows that
    all trees have seen stand above the others.
    """

    first: Bytes
    rest: Bytes
    ranks: bool = False

    @classmethod
    def of(cls, trees: TreeSets, count: int = -1, *, ranks: bool = False) -> "TreeGraph":
        """`count`: the first trees of each set; all of them for -1."""
        sets = [
            [tree["tree_structure"] for tree in one.dump_model(num_iteration=count)["tree_info"]]
            for one in trees
        ]
        parts = slice(FIRST_TREES), slice(FIRST_TREES, None)
        width = trees[0].num_feature()
        first, rest = ([tree for one in sets for tree in one[part]] for part in parts)
        return cls(_graph(first, len(sets), width), _graph(rest, len(sets), width), ranks)

    @cached_property
    def _sessions(self) -> "list[InferenceSession]":
        parts = (one.tobytes() for one in (self.first, self.rest))
        return [open_session("of the tuned trees", one) for one in parts if one]

    def predict(self, features: Floats, best: int) -> Floats:
        """One number for each row: of the `best` rows as `mean_prediction`, but for the last bits
        of its sums, of the others what their first trees say.
        """
        first, *rest = self._sessions
        scores = np.array(first.run(None, {_INPUT: features})[0], np.float32).ravel()
        if rest:
            rows = best_columns(scores[None, :], max(1, best))[0]
            begun = scores[rows]
            whole = begun + np.ravel(rest[0].run(None, {_INPUT: features[rows]})[0])
            if self.ranks:  # the highest of the others then stands as low as the lowest of the best
                scores += whole.min() - begun.min()
            scores[rows] = whole
        return scores


def _graph(trees: Sequence[JsonObject], sets: int, width: int) -> Bytes:
    """The operator takes lists with one entry for each node, and others for the leaves."""
    from onnx import TensorProto, helper

    if not trees:
        return np.zeros(0, np.uint8)
    # Tree, number in it, feature (below 0 for a leaf), threshold, and the nodes below.
    nodes: list[list[Any]] = []
    leaves: list[tuple[int, int, float]] = []

    def walk(node: JsonObject, tree: int, first: int) -> int:
        number = len(nodes) - first
        nodes.append([tree, number, -1, 0.0, 0, 0])
        if "leaf_value" in node:
            leaves.append((tree, number, node["leaf_value"] / sets))
            return number
        below = [walk(node[side], tree, first) for side in ("left_child", "right_child")]
        # Rounded down to float32, so that float32 features split the same way.
        at = np.float32(node["threshold"])
        if float(at) > node["threshold"]:
            at = np.nextafter(at, np.float32(-np.inf))
        nodes[first + number] = [tree, number, node["split_feature"], float(at), *below]
        return number

    for tree, root in enumerate(trees):
        walk(root, tree, len(nodes))
    tree_ids, numbers, features, thresholds, lower, higher = map(list, zip(*nodes, strict=True))
    leaf_trees, leaf_numbers, values = map(list, zip(*leaves, strict=True))
    attributes: dict[str, Any] = {
        "n_targets": 1,
        "nodes_treeids": tree_ids,
        "nodes_nodeids": numbers,
        "nodes_featureids": [max(0, one) for one in features],
        "nodes_modes": ["LEAF" if one < 0 else "BRANCH_LEQ" for one in features],
        "nodes_values": thresholds,
        "nodes_truenodeids": lower,
        "nodes_falsenodeids": higher,
        "target_treeids": leaf_trees,
        "target_nodeids": leaf_numbers,
        "target_ids": [0] * len(values),
        "target_weights": values,
    }
    ensemble = helper.make_node(
        "TreeEnsembleRegressor", [_INPUT], ["mean"], domain="ai.onnx.ml", **attributes
    )
    given = helper.make_tensor_value_info(_INPUT, TensorProto.FLOAT, [None, width])
    result = helper.make_tensor_value_info("mean", TensorProto.FLOAT, [None, 1])
    graph = helper.make_graph([ensemble], "trees", [given], [result])
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("ai.onnx.ml", 3)], ir_version=8
    )
    return np.frombuffer(model.SerializeToString(deterministic=True), np.uint8)
