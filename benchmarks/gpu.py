"""`assay index` of a million documents of 60 words with the embedder on a GPU, stage by stage.

    python benchmarks/gpu.py --documents 1000000
    python benchmarks/gpu.py --documents 20000 --device cpu --on-disk-from 0   # a try without a GPU

It needs the extra [torch] and nothing from the network: the model is the built-in one, its weights
as floats in a folder of sentence-transformers, and the documents are put together from pieces of
the bundled `notes`. Prints one JSON object: seconds, how busy the GPU was (nvidia-smi, ten times a
second), wall time by stage in this process (stages overlap), texts a second, and hybrid queries.
"""

import argparse
import json
import os
import random
import resource
import statistics
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

PIECES, WORDS_IN_A_PIECE = 6, 10


def main() -> None:
    """Measure, and print one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--documents", type=int, default=1_000_000)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--on-disk-from", help="megabytes; see ASSAY_CORPUS_IN_MEMORY_MB")
    parser.add_argument("--folder", type=Path, help="where the corpus and the cache are")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        folder = Path(name)
        os.environ |= {"ASSAY_CACHE": str(folder / "cache"), "ASSAY_DEVICE": options.device}
        if options.on_disk_from:
            os.environ["ASSAY_CORPUS_IN_MEMORY_MB"] = options.on_disk_from
        write_model(folder / "all-MiniLM-L6-v2")
        write_corpus(folder / "corpus", options.documents)
        print(json.dumps(measure(folder, options.documents), indent=1))


def measure(folder: Path, count: int) -> dict[str, Any]:
    """The index of the corpus in `folder`, and searches in it."""
    from assay.data import load_dataset
    from assay.data.dataset import Dataset
    from assay.search import array_store, index
    from assay.search.embedding import EmbedderSettings, VectorCache, open_embedder
    from assay.search.torch_embedding import TorchEmbedder

    stages = Stages()
    stages.wrap(index, "fit_metric", "metric of the corpus")
    stages.wrap(index, "open_bm25", "opening the words that were counted")
    stages.wrap(VectorCache, "embed", "vectors: cache and GPU")
    stages.wrap(TorchEmbedder, "_tokenize", "tokenizing, in a thread")
    stages.wrap(TorchEmbedder, "_encode", "GPU, with copies")
    stages.wrap(VectorCache, "_wait", "waiting for the process that writes the cache")
    stages.wrap(array_store.ArrayStore, "write", "writing, with what it waits for")
    stages.wrap(array_store, "_write_codes", "codes")
    stages.wrap(array_store, "seal", "checksums")
    started, cpu = time.perf_counter(), time.process_time()
    with gpu_load() as busy:
        with stages.timed("opening the model"):
            settings = EmbedderSettings(f"st:{folder / 'all-MiniLM-L6-v2'}")
            embedder = open_embedder(settings)
        with stages.timed("reading the corpus"):
            dataset: Dataset = load_dataset(str(folder / "corpus"))
        with stages.timed("fingerprint"):
            assert dataset.corpus_fingerprint
        store = index.open_store(dataset.name, embedder)
        report = index.build_index(dataset, embedder, store)
        wall, cpu = time.perf_counter() - started, time.process_time() - cpu
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    texts = [one.full_text for one in list(dataset.documents.values())[:131_072]]
    rate_started = time.perf_counter()
    embedder.embed(texts)
    rate = len(texts) / (time.perf_counter() - rate_started)
    times = []
    with index.open_retriever(dataset, embedder=embedder, store=store) as retriever:
        for number, text in enumerate(texts[:220]):
            asked = time.perf_counter()
            assert retriever.search(" ".join(text.split()[:8]))
            times += [1000 * (time.perf_counter() - asked)] * (number >= 20)
    shares = list(busy)
    return {
        "documents": count,
        "device": device_name(embedder.device) if isinstance(embedder, TorchEmbedder) else "",
        "cores": os.cpu_count(),
        "embedded": report.embedded,
        "wall, s": round(wall, 1),
        "GPU busy, share of the wall": round(statistics.fmean(shares) / 100, 3) if shares else None,
        "GPU busy, s": round(statistics.fmean(shares) / 100 * wall, 1) if shares else None,
        "CPU of this process, s": round(cpu, 1),
        "CPU of its workers, s": round(children.ru_utime + children.ru_stime, 1),
        "peak memory, MB": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
        "stages, wall s": {name: round(spent, 1) for name, spent in stages.wall.items()},
        "texts a second afterwards": round(rate),
        "hybrid query, p50 and p99 in ms": [
            round(statistics.median(times), 1),
            round(statistics.quantiles(times, n=100)[98], 1),
        ],
        "lowest cosine with the built-in model": same_as_builtin(embedder, texts[:256]),
    }


class Stages:
    """Seconds of wall time in each wrapped function, over all threads."""

    def __init__(self) -> None:
        self.wall: dict[str, float] = {}
        self._lock = threading.Lock()

    @contextmanager
    def timed(self, stage: str) -> Iterator[None]:
        """Add the time of a block."""
        started = time.perf_counter()
        try:
            yield
        finally:
            with self._lock:
                spent = time.perf_counter() - started
                self.wall[stage] = self.wall.get(stage, 0.0) + spent

    def wrap(self, owner: Any, name: str, stage: str) -> None:
        """Time `owner.name` from now on."""
        function = getattr(owner, name)

        def timed(*arguments: Any, **named: Any) -> Any:
            with self.timed(stage):
                return function(*arguments, **named)

        setattr(owner, name, timed)


@contextmanager
def gpu_load() -> Iterator[list[int]]:
    """Percentages of the time in which the GPU had work, ten a second; none without nvidia-smi."""
    found: list[int] = []
    command = ["nvidia-smi", "--query-gpu=utilization.gpu", "--format=csv,noheader,nounits"]
    try:
        process = subprocess.Popen([*command, "-lms", "100"], stdout=subprocess.PIPE, text=True)
    except FileNotFoundError:
        yield found
        return
    assert process.stdout is not None
    lines = process.stdout
    reader = threading.Thread(
        target=lambda: found.extend(int(line) for line in lines if line.strip().isdecimal())
    )
    reader.start()
    try:
        yield found
    finally:
        process.terminate()
        reader.join()
        process.wait()


def device_name(device: str) -> str:
    """As the driver calls it."""
    import torch

    return torch.cuda.get_device_name() if device.startswith("cuda") else device


def same_as_builtin(embedder: Any, texts: list[str]) -> float | None:
    """How far the floats are from the 8-bit model, if ONNX Runtime is there."""
    try:
        from assay.search.onnx_embedding import open_builtin
    except ImportError:
        return None
    vectors, others = embedder.embed(texts), open_builtin().embed(texts)
    return round(float((vectors * others).sum(1).min()), 4)


def write_corpus(folder: Path, count: int) -> None:
    """Documents of 60 words in BEIR's layout: a title of one piece, a text of five."""
    from assay.data import load_dataset

    rng = random.Random(7)
    words = [one.full_text.split() for one in load_dataset("notes").documents.values()]
    words = [one for one in words if len(one) > WORDS_IN_A_PIECE]
    (folder / "qrels").mkdir(parents=True)
    with (folder / "corpus.jsonl").open("w", encoding="utf-8") as file:
        for row in range(count):
            pieces = []
            for one in rng.choices(words, k=PIECES):
                at = rng.randrange(len(one) - WORDS_IN_A_PIECE)
                pieces.append(" ".join(one[at : at + WORDS_IN_A_PIECE]))
            record = {"_id": f"d{row}", "title": pieces[0], "text": " ".join(pieces[1:])}
            file.write(json.dumps(record, ensure_ascii=False) + "\n")
    (folder / "queries.jsonl").write_text('{"_id": "q", "text": "green tea"}\n')
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq\td0\t1\n")


def write_model(folder: Path) -> None:
    """The built-in model as floats, as sentence-transformers saves one."""
    import agent_assay_minilm  # type: ignore[import-untyped]
    import onnx
    from onnx import numpy_helper
    from safetensors.numpy import save_file  # type: ignore[import-not-found]

    source = Path(str(agent_assay_minilm.__file__)).parent
    graph = onnx.load(str(source / "model.onnx")).graph
    stored = {one.name: numpy_helper.to_array(one) for one in graph.initializer}
    vectors = stored["words"] * stored["word scales"]
    weights: dict[str, Any] = {
        "embeddings.word_embeddings.weight": vectors,
        "embeddings.position_embeddings.weight": stored["positions"],
        "embeddings.token_type_embeddings.weight": np.zeros((2, vectors.shape[1])),
    }
    for name, value in stored.items():
        step, _, part = name.rpartition(".")
        if part == "matrix":
            # A row each for the factors by which what comes in was divided.
            floats = value * stored[f"{step}.scale"]
            floats = floats * stored.get(f"{step}.inverse", np.ones(len(floats)))[:, None]
            kinds = ("query", "key", "value") if step.endswith("attention.self") else ("",)
            biases = np.split(stored[f"{step}.bias"], len(kinds))
            for kind, own, bias in zip(kinds, np.split(floats, len(kinds), 1), biases, strict=True):
                weights[".".join(filter(None, (step, kind, "weight")))] = own.T
                weights[".".join(filter(None, (step, kind, "bias")))] = bias
        elif "LayerNorm" in step and part in ("weight", "bias"):
            weights[name] = value
    folder.mkdir()
    save_file(
        {name: np.ascontiguousarray(value, np.float32) for name, value in weights.items()},
        folder / "model.safetensors",
        metadata={"format": "pt"},
    )
    (folder / "tokenizer.json").write_bytes((source / "tokenizer.json").read_bytes())
    bert = {"model_type": "bert", "architectures": ["BertModel"], "hidden_size": 384}
    bert |= {"num_hidden_layers": 6, "num_attention_heads": 12, "intermediate_size": 1536}
    marks = {"pad": "[PAD]", "unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"}
    kinds = ("Transformer", "Pooling", "Normalize")
    modules = [
        {
            "idx": place,
            "name": str(place),
            "path": f"{place}_{kind}" if place else "",
            "type": f"sentence_transformers.models.{kind}",
        }
        for place, kind in enumerate(kinds)
    ]
    files: dict[str, Any] = {
        "config.json": {**bert, "vocab_size": len(vectors), "max_position_embeddings": 512},
        "tokenizer_config.json": {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "model_max_length": 256,
            **{f"{name}_token": mark for name, mark in marks.items()},
        },
        "sentence_bert_config.json": {"max_seq_length": 256, "do_lower_case": False},
        "modules.json": modules,
        "1_Pooling/config.json": {
            "word_embedding_dimension": 384,
            "pooling_mode_mean_tokens": True,
        },
    }
    (folder / "2_Normalize").mkdir()
    for name, content in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(json.dumps(content))


if __name__ == "__main__":
    main()
