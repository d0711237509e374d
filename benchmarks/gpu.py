"""How many texts a second the PyTorch embedder embeds.

    python benchmarks/gpu.py --archive nfcorpus.zip --model DIR [--copies 40] [--device cuda]
    python benchmarks/gpu.py --archive nfcorpus.zip --model DIR --index 1000000

The second is `assay index` of that many documents of 60 words, cut from the same texts and written
to a file first, with the time of each stage; then hybrid queries.

It needs the extra [torch]. The texts are those of NFCorpus, several times over, each copy with its
words rotated, so that no two texts are alike but the lengths are those of real abstracts.
"""

import argparse
import json
import os
import resource
import statistics
import sys
import tempfile
import time
import zipfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from assay.search.embedding import Vectors
from assay.search.torch_embedding import TorchEmbedder

REPEATS = 3


def main() -> None:
    """Measure, and print one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--archive", type=Path, required=True)
    parser.add_argument("--model", required=True, help="of sentence-transformers: folder or name")
    parser.add_argument("--copies", type=int, default=40)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--index", type=int, help="index this many documents instead")
    parser.add_argument("--onnx", action="store_true", help="compare with the CPU's int8 vectors")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        model = arguments.model
        documents = read_texts(arguments.archive)
        if arguments.index:
            figures = index(documents, arguments.index, model, Path(scratch), arguments.device)
            print(json.dumps(figures, indent=1))
            return
        texts = rotated(documents, arguments.copies)
        embedder = TorchEmbedder(model, device=arguments.device)
        print(json.dumps(measure(embedder, documents, texts, model, arguments.onnx)))


def measure(
    embedder: TorchEmbedder, documents: Sequence[str], texts: Sequence[str], model: str, onnx: bool
) -> dict[str, Any]:
    """Figures of one embedder, which is warmed up before it is timed."""
    embedder.embed(texts[: len(texts) // 2])
    rates = []
    for _ in range(REPEATS):
        started = time.perf_counter()
        vectors = embedder.embed(texts)
        rates.append(round(len(texts) / (time.perf_counter() - started)))
    figures: dict[str, Any] = {
        "device": _device_name(embedder),
        "cores": os.cpu_count(),
        "texts": len(texts),
        "end to end, texts a second": sorted(rates)[REPEATS // 2],
        "end to end, lowest and highest": [min(rates), max(rates)],
    }
    cpu = TorchEmbedder(model, device="cpu")
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


class Stages:
    """Seconds of wall and CPU time in each wrapped function, without those that it calls."""

    def __init__(self) -> None:
        self.wall: dict[str, float] = {}
        self.cpu: dict[str, float] = {}
        self._inner: list[list[float]] = []

    def wrap(self, owner: Any, name: str, stage: str) -> None:
        """Time `owner.name` from now on."""
        function = getattr(owner, name)

        def timed(*arguments: Any, **named: Any) -> Any:
            self._inner.append([0.0, 0.0])
            wall, cpu = time.perf_counter(), time.process_time()
            try:
                return function(*arguments, **named)
            finally:
                wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
                inner = self._inner.pop()
                self.wall[stage] = self.wall.get(stage, 0.0) + wall - inner[0]
                self.cpu[stage] = self.cpu.get(stage, 0.0) + cpu - inner[1]
                if self._inner:
                    self._inner[-1][0] += wall
                    self._inner[-1][1] += cpu

        setattr(owner, name, timed)


def index(
    documents: Sequence[str], count: int, model: str, scratch: Path, device: str
) -> dict[str, Any]:
    """`assay index` of so many documents of 60 words, stage by stage, and queries afterwards."""
    from assay.cli.app import main as assay
    from assay.data import load_dataset
    from assay.search import array_store, bm25
    from assay.search import index as building
    from assay.search.embedding import EmbedderSettings, VectorCache, open_embedder

    os.environ["ASSAY_CACHE"] = str(scratch / "cache")
    folder = scratch / "corpus"
    write_corpus(folder, documents, count)
    stages = Stages()
    stages.wrap(bm25, "_written", "counting words")
    stages.wrap(building, "fit_metric", "metric")
    stages.wrap(building, "split_documents", "chunks")
    stages.wrap(VectorCache, "embed", "vector cache")
    stages.wrap(TorchEmbedder, "embed", "embedding")
    stages.wrap(array_store.ArrayStore, "write", "writing")
    settings = EmbedderSettings(embedder=f"st:{model}", device=device)
    sys.argv = ["assay", "index", "--dataset", str(folder), "--embedder", settings.embedder]
    os.environ["ASSAY_DEVICE"] = device
    wall, cpu = time.perf_counter(), time.process_time()
    with suppress(SystemExit):
        assay()
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    table = {one: (stages.wall[one], stages.cpu[one]) for one in stages.wall}
    table["rest"] = wall - sum(stages.wall.values()), cpu - sum(stages.cpu.values())
    dataset, embedder = load_dataset(str(folder)), open_embedder(settings)
    with building.open_retriever(dataset, embedder=embedder) as retriever:
        queries = [" ".join(one.split()[:8]) for one in documents[:220]]
        for query in queries[:20]:
            retriever.search(query)
        times, before = [], time.process_time()
        for query in queries[20:]:
            started = time.perf_counter()
            retriever.search(query)
            times.append(1000 * (time.perf_counter() - started))
        query_cpu = 1000 * (time.process_time() - before) / len(times)
    kept = sum(one.stat().st_blocks for one in (scratch / "cache").rglob("*") if one.is_file())
    return {
        "documents": count,
        "wall, s": round(wall, 1),
        "CPU of the process, s": round(cpu, 1),
        "peak memory, MB": round(peak),
        "disk with caches, MB": round(kept * 512 / 1e6),
        "stages: wall, CPU in s": {
            stage: [round(one, 1) for one in both] for stage, both in table.items()
        },
        "hybrid query: p50, p99, CPU in ms": [
            round(statistics.median(times), 1),
            round(statistics.quantiles(times, n=100)[98], 1),
            round(query_cpu, 1),
        ],
    }


def write_corpus(folder: Path, documents: Sequence[str], count: int) -> None:
    """Documents of 60 words in BEIR's layout, of which no two are alike."""
    (folder / "qrels").mkdir(parents=True)
    words = [one.split() for one in documents]
    with (folder / "corpus.jsonl").open("w", encoding="utf-8") as file:
        for row in range(count):
            copy, place = divmod(row, len(words))
            one = words[place]
            at = 7 * copy % len(one)
            part = (one[at:] + one[:at])[:57]
            document = {"_id": f"d{row}", "title": " ".join(part[:8])}
            document["text"] = " ".join([*part[8:], f"copy {copy}."])
            file.write(json.dumps(document, ensure_ascii=False) + "\n")
    query = {"_id": "q1", "text": " ".join(words[0][:8])}
    (folder / "queries.jsonl").write_text(json.dumps(query) + "\n", encoding="utf-8")
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq1\td0\t1\n")


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


if __name__ == "__main__":
    main()
