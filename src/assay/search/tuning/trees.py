"""The trees of a tuned model as one ONNX graph.

LightGBM learns them and is not asked again: several sets were that many calls for every query, and
ONNX Runtime, which is there for the embedder, asks all of them at once in half the CPU. Opening a
model then does not import LightGBM either.
"""

from typing import Any

import numpy as np

from assay.search.onnx_embedding import open_session
from assay.search.tuning.arrays import Floats
from assay.search.tuning.ranking import TreeSets

_INPUT, _OUTPUT = "features", "mean"


class TreeGraph:
    """What a new query meets of `TreeSets`: the mean of their sets."""

    def __init__(self, content: bytes) -> None:
        self.content = content
        self._session = open_session("of the tuned trees", content)

    @classmethod
    def of(cls, trees: TreeSets, count: int = -1) -> "TreeGraph":
        """`count`: the first trees of each set; all of them for -1."""
        return cls(_graph(trees, count))

    def predict(self, features: Floats) -> Floats:
        """One number for each row, as `TreeSets.predict` but for the last bits of its sums."""
        (found,) = self._session.run(None, {_INPUT: features})
        return np.asarray(found, np.float32).ravel()


def _graph(trees: TreeSets, count: int) -> bytes:
    from onnx import TensorProto, helper  # where trees were learned, not where a model is opened

    nodes = _Nodes(len(trees.sets))
    for one in trees.sets:
        for tree in one.dump_model(num_iteration=count)["tree_info"]:
            nodes.add(tree["tree_structure"])
    node = helper.make_node(
        "TreeEnsembleRegressor", [_INPUT], [_OUTPUT], domain="ai.onnx.ml", **nodes.attributes()
    )
    width = trees.sets[0].num_feature()
    graph = helper.make_graph(
        [node],
        "trees",
        [helper.make_tensor_value_info(_INPUT, TensorProto.FLOAT, [None, width])],
        [helper.make_tensor_value_info(_OUTPUT, TensorProto.FLOAT, [None, 1])],
    )
    versions = [helper.make_opsetid("ai.onnx.ml", 3), helper.make_opsetid("", 17)]
    model = helper.make_model(graph, opset_imports=versions, ir_version=8)
    return bytes(model.SerializeToString(deterministic=True))


class _Nodes:
    """The lists that the operator wants: one entry for each node, those of leaves apart."""

    def __init__(self, sets: int) -> None:
        self._sets = sets
        self._trees = 0
        self._rows: list[tuple[int, int, int, float, int, int]] = []
        self._leaves: list[tuple[int, int, float]] = []

    def add(self, root: dict[str, Any]) -> None:
        first = len(self._rows)
        self._walk(root, first)
        self._trees += 1

    def _walk(self, node: dict[str, Any], first: int) -> int:
        """`first`: where the tree begins; numbers of nodes are its own."""
        place = len(self._rows)
        if "leaf_value" in node:
            self._rows.append((self._trees, place - first, -1, 0.0, 0, 0))
            self._leaves.append((self._trees, place - first, node["leaf_value"] / self._sets))
            return place - first
        self._rows.append((0, 0, 0, 0.0, 0, 0))
        below = [self._walk(node[side], first) for side in ("left_child", "right_child")]
        own = (self._trees, place - first, node["split_feature"], _at_most(node["threshold"]))
        self._rows[place] = (*own, below[0], below[1])
        return place - first

    def attributes(self) -> dict[str, Any]:
        trees, numbers, features, thresholds, lower, higher = map(
            list, zip(*self._rows, strict=True)
        )
        leaf_trees, leaf_numbers, values = map(list, zip(*self._leaves, strict=True))
        return {
            "n_targets": 1,
            "nodes_treeids": trees,
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


def _at_most(threshold: float) -> float:
    """The highest 32-bit float that is no higher: features, which have 32 bits, part alike."""
    near = np.float32(threshold)
    return float(near if float(near) <= threshold else np.nextafter(near, np.float32(-np.inf)))
