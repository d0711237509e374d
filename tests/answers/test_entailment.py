"""`--faithfulness`: a cross-encoder of the user's, here one of a few words that a test makes."""

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

import assay
from assay.answers.entailment import fit_threshold, open_entailment, support
from assay.errors import UsageError

KINDS = ("apples", "pears", "plums", "figs", "dates", "nuts", "leeks", "beans")
SHELVES = [
    f"The {kind} lie on wooden shelf {n}. Shelf {n} stays dry and cool."
    for n, kind in enumerate(KINDS)
]
SHELVES += [f"Someone counts the {kind} every second evening." for kind in KINDS]


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A graph that finds every claim supported, unless the word "never" is in premise or claim."""
    folder = tmp_path / "nli"
    folder.mkdir()
    vocabulary = {"[UNK]": 0, "[SEP]": 1, "never": 2}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="$A", pair="$A [SEP] $B:1", special_tokens=[("[SEP]", 1)]
    )
    tokenizer.save(str(folder / "tokenizer.json"))
    # The classes in another order than ours, which config.json says.
    logits = np.array([[0, 0, 0.1], [0, 0, 1], [50, 0, 0]], np.float32)
    graph = helper.make_graph(
        [
            helper.make_node("Gather", ["table", "input_ids"], ["rows"]),
            helper.make_node("ReduceSum", ["rows", "axis"], ["logits"], keepdims=0),
        ],
        "nli",
        [helper.make_tensor_value_info("input_ids", TensorProto.INT64, ["b", "n"])],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["b", 3])],
        [
            numpy_helper.from_array(logits, "table"),
            numpy_helper.from_array(np.array([1], np.int64), "axis"),
        ],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(made, str(folder / "tiny.onnx"))
    labels = {"0": "contradiction", "1": "neutral", "2": "entailment"}
    (folder / "config.json").write_text(json.dumps({"id2label": labels}))
    return folder


def test_a_claim_is_read_against_the_nearest_sentences(model: Path) -> None:
    found = open_entailment(f"onnx:{model}")
    assert support(found, "The pears lie on wooden shelf 1.", SHELVES) > 0.7
    assert support(found, "The pears never lie on wooden shelf 1.", SHELVES) < 0.1
    assert support(found, "The pears lie on wooden shelf 1.", []) == 0
    # What contradicts elsewhere says nothing about this claim.
    assert support(found, "The pears lie on wooden shelf 1.", [*SHELVES, "Bats never sleep."]) > 0.7


def test_rows_get_a_figure_with_an_interval_and_findings(model: Path) -> None:
    rows = [
        {
            "question": f"Where are the {kind}?",
            "answer": f"The {kind}{' never' if n < 5 else ''} lie on wooden shelf {n}.",
            "contexts": [SHELVES[n], SHELVES[n - 1], SHELVES[n + 8]],
            "reference": f"On shelf {n}.",
        }
        for n, kind in enumerate(KINDS)
    ]
    scored = assay.score_answers(rows, faithfulness=f"onnx:{model}", gates="model_faithfulness>0.9")
    figure = scored.report.statistics["model_faithfulness"]
    assert figure.n == 8
    assert 0 < (figure.low or 0) < figure.mean < (figure.high or 0) < 0.9
    assert "onnx:tiny; flagged below 0.9" in figure.how
    assert "5% of the sources' own sentences" in figure.how
    assert not scored.gates_passed
    assert (scored.rows()[0].score("model_faithfulness") or 1) < 0.1
    # Also found by the words, and then said once.
    assert not {"reversed", "contradicted"} <= {each.kind for each in scored.report.findings}


def test_a_sentence_is_flagged_below_the_threshold_of_the_sources(model: Path) -> None:
    found = open_entailment(f"onnx:{model}")
    threshold = fit_threshold(found, [SHELVES])
    assert threshold is not None
    assert support(found, "Nobody takes care of the pears.", SHELVES) > threshold
    assert support(found, "Someone never counts the pears.", SHELVES) < threshold
    assert fit_threshold(found, [SHELVES[:3]]) is None  # too few to fit anything


@pytest.mark.parametrize("spec", ["nli", "onnx:", "onnx:nowhere", "gguf:model"])
def test_what_is_not_a_model_is_refused(spec: str) -> None:
    with pytest.raises(UsageError, match="--faithfulness"):
        open_entailment(spec)


def test_a_model_of_other_classes_is_refused(model: Path) -> None:
    labels = {"0": "negative", "1": "neutral", "2": "positive"}
    (model / "config.json").write_text(json.dumps({"id2label": labels}))
    with pytest.raises(UsageError, match="classes negative, neutral, positive"):
        open_entailment(f"onnx:{model}/")


def test_a_run_needs_answers_and_a_gate_the_model(model: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="needs --answers"):
        assay.evaluate("builtin:bm25", "notes", faithfulness=f"onnx:{model}", out=tmp_path)
    with pytest.raises(UsageError, match="--faithfulness onnx:DIR"):
        assay.evaluate(
            "builtin:bm25", "notes", answers=True, gates="model_faithfulness>0.5", out=tmp_path
        )
