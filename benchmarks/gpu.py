"""How many texts a second the PyTorch embedder embeds, end to end and stage by stage.

    python benchmarks/gpu.py --archive nfcorpus.zip [--copies 40] [--device cuda]

It needs the extra [torch]. The model is the built-in one: its int8 weights, read from the installed
ONNX file and rounded back to floats, in a folder as sentence-transformers saves it. The texts are
those of NFCorpus, several times over, each copy with its words rotated, so that no two texts are
alike but the lengths are those of real abstracts.
"""

import argparse
import json
import os
import tempfile
import time
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from assay.search.embedding import Vectors
from assay.search.onnx_embedding import MAX_TOKENS, builtin_files
from assay.search.torch_embedding import TorchEmbedder

REPEATS = 3


def main() -> None:
    """Measure, and print one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--archive", type=Path, required=True)
    parser.add_argument("--model", type=Path, help="a folder made before; made anew by default")
    parser.add_argument("--copies", type=int, default=40)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--processes", type=int, default=None)
    parser.add_argument("--onnx", action="store_true", help="compare with the CPU's int8 vectors")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = arguments.model or Path(scratch) / "all-MiniLM-L6-v2"
        if not folder.exists():
            write_model(folder)
        documents = read_texts(arguments.archive)
        texts = rotated(documents, arguments.copies)
        embedder = TorchEmbedder(
            str(folder), device=arguments.device, processes=arguments.processes
        )
        print(json.dumps(measure(embedder, documents, texts, str(folder), arguments.onnx)))


def measure(
    embedder: TorchEmbedder, documents: Sequence[str], texts: Sequence[str], model: str, onnx: bool
) -> dict[str, Any]:
    """Figures of one embedder; every stage is warmed up before it is timed."""
    embedder.embed(texts[: len(texts) // 2])
    rates = []
    for _ in range(REPEATS):
        started = time.perf_counter()
        vectors = embedder.embed(texts)
        rates.append(round(len(texts) / (time.perf_counter() - started)))
    figures: dict[str, Any] = {
        "device": _device_name(embedder),
        "precision": embedder.precision,
        "cores": os.cpu_count(),
        "texts": len(texts),
        "end to end, texts a second": sorted(rates)[REPEATS // 2],
        "end to end, lowest and highest": [min(rates), max(rates)],
    }
    started = time.perf_counter()
    windows = list(embedder._windows(texts))
    figures["tokenizing alone"] = round(len(texts) / (time.perf_counter() - started))
    tokens = sum(int(window.lengths.sum()) for window in windows)
    figures["tokens a text"] = round(tokens / len(texts), 1)
    started = time.perf_counter()
    done = 0
    for window in windows:
        done = embedder._finish(*embedder._start(window), vectors, done)
    figures["model alone"] = round(len(texts) / (time.perf_counter() - started))
    slower = min(figures["tokenizing alone"], figures["model alone"])
    figures["share of the slower stage"] = round(figures["end to end, texts a second"] / slower, 3)
    cpu = TorchEmbedder(model, device="cpu", precision="fp32")
    sample = list(documents[:256])
    figures["lowest cosine with the CPU, fp32"] = _lowest(embedder.embed(sample), cpu.embed(sample))
    if onnx:
        from assay.search.onnx_embedding import open_builtin

        same = open_builtin().embed(sample)
        figures["lowest cosine with the CPU, int8"] = _lowest(embedder.embed(sample), same)
    figures["first copy equals the documents alone"] = _lowest(
        vectors[: len(documents)], embedder.embed(documents)
    )
    return figures


def _device_name(embedder: TorchEmbedder) -> str:
    import torch

    return torch.cuda.get_device_name() if embedder.device.startswith("cuda") else embedder.device


def _lowest(one: Vectors, other: Vectors) -> float:
    return round(float((one * other).sum(1).min()), 5)


def read_texts(archive: Path) -> list[str]:
    """Title and abstract of each document."""
    with zipfile.ZipFile(archive) as files:
        name = next(name for name in files.namelist() if name.endswith("corpus.jsonl"))
        lines = files.read(name).decode().splitlines()
    return [f"{one['title']} {one['text']}" for one in map(json.loads, lines)]


def rotated(documents: Sequence[str], copies: int) -> list[str]:
    """The documents, then the documents from a later word on, and so forth."""
    words = [document.split() for document in documents]
    made = list(documents)
    for copy in range(1, copies):
        made += [" ".join(one[7 * copy % len(one) :] + one[: 7 * copy % len(one)]) for one in words]
    return made


def write_model(folder: Path) -> None:
    """The built-in model as floats, saved as sentence-transformers saves one."""
    import torch
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer import modules
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

    model, tokenizer = builtin_files()
    config = BertConfig(
        hidden_size=384, num_hidden_layers=6, num_attention_heads=12, intermediate_size=1536
    )
    bert = BertModel(config, add_pooling_layer=False)
    state = {name: torch.tensor(value) for name, value in _weights(model).items()}
    missing, unexpected = bert.load_state_dict(state, strict=False)
    assert not unexpected, unexpected
    assert not [one for one in missing if "position_ids" not in one], missing
    with tempfile.TemporaryDirectory() as scratch:
        bert.save_pretrained(scratch)
        (Path(scratch) / "tokenizer.json").write_bytes(tokenizer)
        fast = PreTrainedTokenizerFast(
            tokenizer_file=str(Path(scratch) / "tokenizer.json"),
            pad_token="[PAD]",
            unk_token="[UNK]",
            cls_token="[CLS]",
            sep_token="[SEP]",
            model_max_length=MAX_TOKENS,
        )
        fast.save_pretrained(scratch)
        body = modules.Transformer(scratch, max_seq_length=MAX_TOKENS)
        layers = [body, modules.Pooling(384), modules.Normalize()]
        SentenceTransformer(modules=layers).save(str(folder))


def _weights(model: bytes) -> dict[str, Any]:
    """The ONNX file's weights under BERT's names; matrices are transposed there."""
    import onnx
    from onnx import numpy_helper

    graph = onnx.load_model_from_string(model).graph
    stored = {one.name: numpy_helper.to_array(one) for one in graph.initializer}
    floats = {
        name.removesuffix("_q"): value.astype(np.float32) * stored[name[:-1] + "scale"]
        for name, value in stored.items()
        if name.endswith("_q")
    }
    found = {
        name.removeprefix("inner."): value
        for name, value in (stored | floats).items()
        if name.startswith("inner.") and name.endswith((".weight", ".bias"))
    }
    products = [node for node in graph.node if node.op_type == "MatMul"]
    matrices = [floats[node.input[1]] for node in products if node.input[1] in floats]
    names = [
        "attention.self.query",
        "attention.self.key",
        "attention.self.value",
        "attention.output.dense",
        "intermediate.dense",
        "output.dense",
    ]
    for at, matrix in enumerate(matrices):
        layer, part = divmod(at, len(names))
        found[f"encoder.layer.{layer}.{names[part]}.weight"] = matrix.T.copy()
    return {name: np.asarray(value, np.float32) for name, value in found.items()}


if __name__ == "__main__":
    main()
