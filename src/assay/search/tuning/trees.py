"""Learning to rank with LightGBM, and what was learned as one ONNX graph.

ONNX Runtime asks several sets of trees at once, in half the CPU of LightGBM, and opening a model
then imports neither. The same seed gives the same trees on every run.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from assay.net.json import JsonObject
from assay.search.onnx_embedding import open_session
from assay.search.tuning.features import Floats

if TYPE_CHECKING:
    # Where trees were learned, not where a model is opened.
    import lightgbm
    from onnx import NodeProto

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

_INPUT, _COUNT, _OUTPUT = "features", "count", "mean"
_ALWAYS: dict[str, object] = {
    "verbose": -1,
    "deterministic": True,
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


@dataclass(frozen=True)
class TreeSets:
    """Sets of trees that learned the same with other seeds."""

    sets: "tuple[lightgbm.Booster, ...]"

    def predict(self, features: Floats, trees: int = -1) -> Floats:
        """The mean of what the first `trees` trees of each set say; all of them for -1."""
        found = [one.predict(features, 0, trees, num_threads=THREADS) for one in self.sets]
        return np.asarray(np.mean(found, axis=0), np.float32)


def learn_overlap(features: Floats, target: Floats, seed: int) -> TreeSets:
    """Trees that predict the overlap of a query with a judged one."""
    import lightgbm

    data = lightgbm.Dataset(features, target)
    settings = _ALWAYS | _OVERLAP | {"num_threads": _threads(len(target))}
    seeds = [seed + SEEDS_APART * number for number in range(SETS)]
    return TreeSets(
        tuple(lightgbm.train({**settings, "seed": one}, data, OVERLAP_TREES) for one in seeds)
    )


def learn_ranking(
    features: Floats, grades: Floats, sizes: Floats, queries: Sequence[int], seed: int
) -> TreeSets:
    """LambdaMART (Burges 2010) over bundles, one set; `queries`: how many rows each query has.

    A bundle of many documents fills more of the page when it is ranked first, so it weighs more.
    """
    import lightgbm

    labels = np.minimum(np.rint(grades), HIGHEST_GRADE).astype(np.int64)
    weights = np.sqrt(np.minimum(sizes, 10))
    gains = list(range(int(labels.max(initial=1)) + 1))
    data = lightgbm.Dataset(features, labels, group=list(queries), weight=weights)
    threads = _threads(len(labels))
    settings = _ALWAYS | _RANKING | {"label_gain": gains, "num_threads": threads, "seed": seed}
    return TreeSets((lightgbm.train(settings, data, RANKING_TREES),))


def _threads(rows: int) -> int:
    return 1 if rows < SINGLE_THREAD_BELOW else THREADS


class TreeGraph:
    """What a new query meets of `TreeSets`: the mean of their sets."""

    def __init__(self, content: bytes) -> None:
        self.content = content
        self._session = open_session("of the tuned trees", content)

    @classmethod
    def of(cls, trees: TreeSets, count: int = -1, *, ranks: bool = False) -> "TreeGraph":
        """`count`: the first trees of each set; all of them for -1.

        `ranks`: only the order counts, and rows that all trees have seen stand above the others.
        """
        from onnx import TensorProto, helper

        sets = [
            [tree["tree_structure"] for tree in one.dump_model(num_iteration=count)["tree_info"]]
            for one in trees.sets
        ]
        first = [tree for one in sets for tree in one[:FIRST_TREES]]
        rest = [tree for one in sets for tree in one[FIRST_TREES:]]
        rows = [None, trees.sets[0].num_feature()]
        graph = helper.make_graph(
            _cascade(first, rest, len(sets), ranks),
            "trees",
            [
                helper.make_tensor_value_info(_INPUT, TensorProto.FLOAT, rows),
                helper.make_tensor_value_info(_COUNT, TensorProto.INT64, [1]),
            ],
            [helper.make_tensor_value_info(_OUTPUT, TensorProto.FLOAT, [None, 1])],
        )
        versions = [helper.make_opsetid("ai.onnx.ml", 3), helper.make_opsetid("", 17)]
        model = helper.make_model(graph, opset_imports=versions, ir_version=8)
        return cls(bytes(model.SerializeToString(deterministic=True)))

    def predict(self, features: Floats, best: int) -> Floats:
        """One number for each row: of the `best` rows as `TreeSets.predict`, but for the last bits
        of its sums, of the others what their first trees say.
        """
        # The graph takes the lowest of the best rows, so there is one at least.
        feed = {_INPUT: features, _COUNT: np.array([max(1, best)], np.int64)}
        (found,) = self._session.run(None, feed)
        return np.asarray(found, np.float32).ravel()


def _cascade(
    first: Sequence[JsonObject], rest: Sequence[JsonObject], sets: int, ranks: bool
) -> "list[NodeProto]":
    from onnx.helper import make_node

    if not rest:
        return [_ensemble(first, sets, _INPUT, _OUTPUT)]
    nodes = [
        _ensemble(first, sets, _INPUT, "first"),
        make_node("Shape", [_INPUT], ["rows"], start=0, end=1),
        make_node("Min", ["rows", _COUNT], ["most"]),
        make_node("TopK", ["first", "most"], ["begun", "places"], axis=0),
        make_node("Constant", [], ["second_axis"], value_ints=[1]),
        make_node("Squeeze", ["places", "second_axis"], ["numbers"]),
        make_node("Gather", [_INPUT, "numbers"], ["chosen"]),
        _ensemble(rest, sets, "chosen", "rest"),
        make_node("Add", ["begun", "rest"], ["whole"]),
    ]
    others = "first"
    if ranks:  # what stands highest of the others then stands as low as the lowest of the best
        nodes += [
            make_node("ReduceMin", ["whole"], ["lowest"]),
            make_node("ReduceMin", ["begun"], ["highest_other"]),
            make_node("Sub", ["lowest", "highest_other"], ["step"]),
            make_node("Add", ["first", "step"], ["below"]),
        ]
        others = "below"
    return [*nodes, make_node("ScatterElements", [others, "places", "whole"], [_OUTPUT])]


def _ensemble(trees: Sequence[JsonObject], sets: int, source: str, target: str) -> "NodeProto":
    """The operator takes lists with one entry for each node, and others for the leaves."""
    from onnx.helper import make_node

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
        split = [tree, number, node["split_feature"], _at_most(node["threshold"])]
        nodes[first + number] = [*split, *below]
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
    return make_node("TreeEnsembleRegressor", [source], [target], domain="ai.onnx.ml", **attributes)


def _at_most(threshold: float) -> float:
    """Round a threshold down to float32, so that float32 features split the same way."""
    near = np.float32(threshold)
    return float(near if float(near) <= threshold else np.nextafter(near, np.float32(-np.inf)))
