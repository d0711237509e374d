"""The trees of a tuned model as one ONNX graph.

LightGBM learns them and is not asked again: several sets were that many calls for every query, and
ONNX Runtime, which is there for the embedder, asks all of them at once in half the CPU. Opening a
model then does not import LightGBM either.

A cascade: the first trees of every set are asked for all rows, the rest of them for the best rows
alone. Boosting corrects ever less, so that no row far down would have come up. On the 324 dev
queries of NFCorpus the first ten documents are the same as with all trees for all rows.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from assay.net.json import JsonObject
from assay.search.onnx_embedding import open_session
from assay.search.tuning.arrays import Floats
from assay.search.tuning.ranking import TreeSets

if TYPE_CHECKING:
    from onnx import NodeProto  # where trees were learned, not where a model is opened

_INPUT, _COUNT, _OUTPUT = "features", "count", "mean"
FIRST_TREES = 20


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
        return cls(_graph(trees, count, ranks))

    def predict(self, features: Floats, best: int) -> Floats:
        """One number for each row: of the `best` rows as `TreeSets.predict`, but for the last bits
        of its sums, of the others what their first trees say. One row at least is among the best:
        what the lowest of none is, no number says.
        """
        feed = {_INPUT: features, _COUNT: np.array([max(1, best)], np.int64)}
        (found,) = self._session.run(None, feed)
        return np.asarray(found, np.float32).ravel()


def _graph(trees: TreeSets, count: int, ranks: bool) -> bytes:
    from onnx import TensorProto, helper

    sets = [
        [tree["tree_structure"] for tree in one.dump_model(num_iteration=count)["tree_info"]]
        for one in trees.sets
    ]
    width = trees.sets[0].num_feature()
    graph = helper.make_graph(
        _cascade(
            [tree for one in sets for tree in one[:FIRST_TREES]],
            [tree for one in sets for tree in one[FIRST_TREES:]],
            len(sets),
            ranks,
        ),
        "trees",
        [
            helper.make_tensor_value_info(_INPUT, TensorProto.FLOAT, [None, width]),
            helper.make_tensor_value_info(_COUNT, TensorProto.INT64, [1]),
        ],
        [helper.make_tensor_value_info(_OUTPUT, TensorProto.FLOAT, [None, 1])],
    )
    versions = [helper.make_opsetid("ai.onnx.ml", 3), helper.make_opsetid("", 17)]
    model = helper.make_model(graph, opset_imports=versions, ir_version=8)
    return bytes(model.SerializeToString(deterministic=True))


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
    from onnx.helper import make_node

    nodes = _Nodes(sets)
    for tree in trees:
        nodes.add(tree)
    return make_node(
        "TreeEnsembleRegressor", [source], [target], domain="ai.onnx.ml", **nodes.attributes()
    )


class _Nodes:
    """The lists that the operator wants: one entry for each node, those of leaves apart."""

    def __init__(self, sets: int) -> None:
        self._sets = sets
        self._trees = 0
        self._rows: list[tuple[int, int, int, float, int, int]] = []
        self._leaves: list[tuple[int, int, float]] = []

    def add(self, root: JsonObject) -> None:
        first = len(self._rows)
        self._walk(root, first)
        self._trees += 1

    def _walk(self, node: JsonObject, first: int) -> int:
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
    """Round a threshold down to float32, so that float32 features split the same way."""
    near = np.float32(threshold)
    return float(near if float(near) <= threshold else np.nextafter(near, np.float32(-np.inf)))
