"""What an index costs as the number of documents grows: CPU, memory, disk, time and neighbours.

    .venv/bin/python benchmarks/growth.py --sizes 10000 100000 1000000
    ASSAY_QDRANT_BINARY=... .venv/bin/python benchmarks/growth.py --sizes 100000 --server \
        --settings none QDRANT__STORAGE__COLLECTION__VECTORS__ON_DISK=true
    .venv/bin/python benchmarks/growth.py --sizes 1000000 --recall ~/.cache/assay/vectors.sqlite3

`assay index` as it is, over synthetic documents that are made while they are read: vectors around
cluster centres, as those of texts are, and 60 words drawn with a frequency of one over their rank.
No model runs. Each size is a process of its own; with --server, so is the server, whose CPU and
memory are counted too. `found` is the share of the ten true nearest documents among the ten that
dense search returns.

`--recall` makes the vectors of real ones in a cache: mixtures of two, with noise of the same
covariance. It prints the share of the 100 nearest to held-out vectors that an index of them finds.
"""

import argparse
import importlib
import json
import os
import resource
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import numpy as np

from assay.data import Dataset, Document, load_dataset
from assay.progress import Progress, silent
from assay.search import MODES, Mode, array_store
from assay.search.array_store import ArrayStore
from assay.search.bm25 import Bm25Index
from assay.search.embedding import NO_PROMPTS, Vectors
from assay.search.index import build_index, open_retriever
from assay.search.retriever import Retriever
from assay.search.store import CorpusMetric, IndexKey, Manifest, Store

DIMENSION = 384
WORDS_IN_A_DOCUMENT = 60
VOCABULARY = 50_000
DOCUMENTS_IN_A_CLUSTER = 12
BATCH = 2000
FOUND = 10


class SyntheticEmbedder:
    """The first word of a text names its cluster, the whole text what sets it apart."""

    name, dimension, max_tokens = "synthetic", DIMENSION, 256
    prompts, texts_at_once = NO_PROMPTS, 256

    def __init__(self) -> None:
        self._numbers = np.random.default_rng(0).normal(size=1 << 21).astype(np.float32)

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        return [text.count(" ") + 1 for text in texts]

    def embed(self, texts: Sequence[str], progress: Progress = silent) -> Vectors:
        centres = self._rows([text.partition(" ")[0] for text in texts])
        vectors = centres + np.float32(0.8) * self._rows(texts)
        return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True), np.float32)

    def _rows(self, texts: Sequence[str]) -> Vectors:
        most = len(self._numbers) - DIMENSION
        starts = np.array([zlib.crc32(text.encode()) % most for text in texts])
        return self._numbers[starts[:, None] + np.arange(DIMENSION)]


class SyntheticCorpus:
    """Documents made while they are read, the same each time."""

    def __init__(self, size: int, words: int = WORDS_IN_A_DOCUMENT, seed: int = 0) -> None:
        self._size, self._words, self._seed = size, words, seed
        self._clusters = max(1, size // DOCUMENTS_IN_A_CLUSTER)
        self._vocabulary = [f"w{rank}" for rank in range(VOCABULARY)]

    def texts(self) -> Iterator[str]:
        rng = np.random.default_rng(self._seed)
        for start in range(0, self._size, BATCH):
            count = min(BATCH, self._size - start)
            clusters = rng.integers(self._clusters, size=count).tolist()
            ranks = np.exp(rng.uniform(0, np.log(VOCABULARY), (count, self._words))).astype(int)
            for cluster, row in zip(clusters, ranks.tolist(), strict=True):
                words = " ".join(map(self._vocabulary.__getitem__, row))
                yield f"c{cluster} {words}"

    def queries(self, count: int) -> list[str]:
        """Of the same clusters, and shorter."""
        others = SyntheticCorpus(count, 6, seed=1)
        others._clusters = self._clusters
        return list(others.texts())


def main() -> None:
    options = _options()
    if options.measure:
        print(json.dumps(_measured(options)))
        return
    if options.recall:
        for size in options.sizes:
            print(f"{size:,} vectors: {_recall(options.recall, size, options.folder)}", flush=True)
        return
    print(
        "| documents | settings | CPU a document | wall | peak memory | disk "
        "| bm25 p50 | dense p50 / p99 | hybrid p50 / p99 | CPU a hybrid query | found |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|---|", flush=True)
    for size in options.sizes:
        for settings in options.settings if options.server else ["default"]:
            command = [sys.executable, __file__, "--measure", "--sizes", str(size)]
            command += ["--settings", settings, "--queries", str(options.queries)]
            command += ["--folder", str(options.folder)] if options.folder else []
            command += ["--server"] * options.server
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
            _show(size, settings, json.loads(done.stdout))


def _show(size: int, settings: str, one: dict[str, float]) -> None:
    cells = [
        f"{size:,}",
        settings,
        f"{1000 * one['cpu_s'] / size:.2f} ms",
        f"{one['wall_s']:.0f} s",
        f"{one['peak_mb']:,.0f} MB ({one['anonymous_mb']:,.0f} not of files)",
        f"{one['disk_mb']:,.0f} MB",
        f"{one['bm25_p50']:.1f} ms",
        f"{one['dense_p50']:.1f} / {one['dense_p99']:.1f} ms",
        f"{one['hybrid_p50']:.1f} / {one['hybrid_p99']:.1f} ms",
        f"{one['hybrid_cpu']:.1f} ms",
        f"{one['found']:.3f}",
    ]
    print(f"| {' | '.join(cells)} |", flush=True)
    print(json.dumps({"documents": size, "settings": settings, **one}), file=sys.stderr, flush=True)


def _measured(options: argparse.Namespace) -> dict[str, float]:
    (size,), (settings,) = options.sizes, options.settings
    corpus, embedder = SyntheticCorpus(size), SyntheticEmbedder()
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        folder = Path(name)
        os.environ["ASSAY_CACHE"] = str(folder / "cache")
        dataset = _written(corpus, folder / "corpus")
        with _store(folder, settings if options.server else "") as (store, server):
            watch = Watch(server)
            report = build_index(dataset, embedder, store, watch.tell)
            watch.wait_for_graph(store)
            result = watch.result() | {"seconds": report.seconds}
            result["disk_mb"] = _disk(folder / ("storage" if server else "index"))
            result["cache_mb"] = _disk(folder / "cache")
            queries = corpus.queries(options.queries)
            with open_retriever(dataset, embedder=embedder, store=store) as retriever:
                for query in queries[:20]:
                    retriever.search(query, FOUND)
                for mode in MODES[:-1]:
                    before = watch.cpu_time()
                    times = _times(retriever, queries, mode)
                    result[f"{mode}_cpu"] = 1000 * (watch.cpu_time() - before) / len(times)
                    result[f"{mode}_p50"] = statistics.median(times)
                    result[f"{mode}_p99"] = statistics.quantiles(times, n=100)[98]
                result["found"] = _found(retriever, corpus, embedder, queries)
    return result


def _written(corpus: SyntheticCorpus, folder: Path) -> Dataset:
    """In a file, from where a large corpus is read."""
    (folder / "qrels").mkdir(parents=True)
    with (folder / "corpus.jsonl").open("w") as file:
        for row, text in enumerate(corpus.texts()):
            file.write(json.dumps({"_id": f"doc-{row}", "title": "", "text": text}) + "\n")
    (folder / "queries.jsonl").write_text('{"_id": "q", "text": "c1"}\n')
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq\tdoc-0\t1\n")
    return load_dataset(str(folder))


class Watch:
    """CPU time and memory of this process, and of the server, since now."""

    def __init__(self, server: int | None) -> None:
        self._server = server
        self._wall, self._cpu, self._told = time.monotonic(), self.cpu_time(), 0

    def tell(self, what: str, done: int, total: int | None) -> None:
        """On stderr, what the documents so far have cost."""
        if total and done - self._told >= total // 20:
            self._told = done
            so_far = {name: round(value, 1) for name, value in self.result().items()}
            print(f"{what}: {done:,} of {total:,}: {so_far}", file=sys.stderr, flush=True)

    def wait_for_graph(self, store: Store) -> None:
        """A server builds it after the last point, in the background."""
        client = getattr(store, "_client", None)
        while client is not None:
            if client.get_collection(store._alias).status == "green":  # type: ignore[attr-defined]
                return
            time.sleep(0.5)

    def result(self) -> dict[str, float]:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        anonymous = _status("self", "RssAnon")
        return {
            "cpu_s": self.cpu_time() - self._cpu,
            "wall_s": time.monotonic() - self._wall,
            "peak_mb": _status(str(self._server), "VmHWM") if self._server else peak,
            "anonymous_mb": _status(str(self._server), "RssAnon") if self._server else anonymous,
            "client_peak_mb": peak,
        }

    def cpu_time(self) -> float:
        ended = resource.getrusage(resource.RUSAGE_CHILDREN)  # those that split documents
        own = time.process_time() + ended.ru_utime + ended.ru_stime
        if self._server is None:
            return own
        fields = Path(f"/proc/{self._server}/stat").read_text().rpartition(")")[2].split()
        return own + (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _status(process: str, name: str) -> float:
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(name))


@contextmanager
def _store(folder: Path, settings: str) -> Iterator[tuple[Store, int | None]]:
    if not settings:
        yield ArrayStore(folder / "index", "growth"), None
        return
    from assay.search.qdrant import ServerStore

    port = 16333
    variables = {
        "QDRANT__SERVICE__HTTP_PORT": str(port),
        "QDRANT__SERVICE__GRPC_PORT": str(port + 1),
        "QDRANT__SERVICE__HOST": "127.0.0.1",
        "QDRANT__STORAGE__STORAGE_PATH": str(folder / "storage"),
        "QDRANT__TELEMETRY_DISABLED": "true",
        **dict(one.split("=") for one in settings.split(",") if "=" in one),
    }
    binary = os.environ["ASSAY_QDRANT_BINARY"]
    with (
        (folder / "log").open("w") as log,
        subprocess.Popen([binary], cwd=folder, env=variables, stdout=log, stderr=log) as process,
    ):
        try:
            while "HTTP listening" not in (folder / "log").read_text():
                time.sleep(0.1)
            yield ServerStore(f"http://127.0.0.1:{port}", "growth"), process.pid
        finally:
            process.terminate()


def _disk(folder: Path) -> float:
    used = 0
    for path in folder.rglob("*"):
        with suppress(FileNotFoundError):  # a server still tidies up
            used += path.stat().st_blocks * 512 if path.is_file() else 0
    return used / 1e6


def _times(retriever: Retriever, queries: Sequence[str], mode: Mode) -> list[float]:
    times = []
    for query in queries:
        started = time.perf_counter()
        retriever.search(query, FOUND, mode=mode)
        times.append(1000 * (time.perf_counter() - started))
    return times


def _found(
    retriever: Retriever,
    corpus: SyntheticCorpus,
    embedder: SyntheticEmbedder,
    queries: Sequence[str],
) -> float:
    asked = embedder.embed(queries)
    best = np.full((len(queries), FOUND), -2.0, np.float32)
    rows = np.full((len(queries), FOUND), -1)
    texts: list[str] = []
    for row, text in enumerate(corpus.texts()):
        texts.append(text)
        if len(texts) == BATCH or row == corpus._size - 1:
            scores = np.hstack([best, asked @ embedder.embed(texts).T])
            names = np.hstack(
                [
                    rows,
                    np.broadcast_to(
                        np.arange(row + 1 - len(texts), row + 1), (len(queries), len(texts))
                    ),
                ]
            )
            order = np.argpartition(-scores, FOUND - 1, axis=1)[:, :FOUND]
            best, rows = np.take_along_axis(scores, order, 1), np.take_along_axis(names, order, 1)
            texts = []
    shares = []
    for query, true in zip(queries, rows.tolist(), strict=True):
        hits = retriever.search(query, FOUND, mode="dense")
        shares.append(len({f"doc-{row}" for row in true} & {hit.doc_id for hit in hits}) / FOUND)
    return statistics.fmean(shares)


def _recall(cache: Path, size: int, home: Path | None) -> str:
    """Over 60 queries; the whole of the vectors is in memory once."""
    random = np.random.default_rng(0)
    with closing(sqlite3.connect(cache)) as database:
        stored = [row for (row,) in database.execute("SELECT vector FROM vectors")]
    real = np.array([np.frombuffer(row[: 4 * DIMENSION], np.float32) for row in stored])
    real = real[random.permutation(len(real))]
    queries, known = real[:60], real[60:]
    spread = np.linalg.cholesky(np.cov(known.T) + 1e-6 * np.eye(DIMENSION)).astype(np.float32)
    best = np.full((60, 100), -2.0, np.float32)
    rows = np.zeros((60, 100), np.int64)
    with tempfile.TemporaryDirectory(dir=home) as name:
        folder = Path(name)
        with (folder / "vectors.f32").open("wb") as file:
            for start in range(0, size, BATCH):
                one, other = known[random.integers(len(known), size=(2, BATCH))]
                share = random.uniform(0, 0.45, (BATCH, 1)).astype(np.float32)
                noise = random.normal(size=(BATCH, DIMENSION)).astype(np.float32) @ spread.T
                made = (1 - share) * one + share * other + 0.5 * noise
                made /= np.linalg.norm(made, axis=1, keepdims=True)
                file.write(made.tobytes())
                scores = np.hstack([best, queries @ made.T])
                names = np.hstack([rows, np.tile(np.arange(start, start + BATCH), (60, 1))])
                order = np.argpartition(-scores, 99, axis=1)[:, :100]
                best, rows = (np.take_along_axis(a, order, 1) for a in (scores, names))
        np.save(folder / "chunks.npy", np.ones(size, np.uint32))
        np.save(folder / "spans.npy", np.zeros((size, 2), np.int32))
        array_store._write_codes(folder, DIMENSION)
        words = Bm25Index(Document(str(row), "", "") for row in range(size))
        manifest = Manifest(IndexKey("", ""), DIMENSION, CorpusMetric())
        index = array_store.ArrayIndex(words, manifest, folder)
        found = [index.nearest(query, 100).keys() for query in queries]
        shares = [
            len({str(row) for row in true} & one) / 100
            for true, one in zip(rows.tolist(), found, strict=True)
        ]
    return f"{statistics.fmean(shares):.4f} of the 100 nearest"


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=[10_000, 100_000])
    parser.add_argument("--queries", type=int, default=200)
    parser.add_argument("--server", action="store_true", help="a Qdrant server of its own")
    parser.add_argument(
        "--settings", nargs="+", default=["none"], help="none, or NAME=VALUE of Qdrant"
    )
    parser.add_argument("--recall", type=Path, metavar="FILE", help="with the vectors of a cache")
    parser.add_argument("--folder", type=Path, help="where the indexes are while they are measured")
    parser.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    # By the module's name, so that the processes that split documents can load its embedder.
    os.environ["PYTHONPATH"] = f"{Path(__file__).parent}:{os.environ.get('PYTHONPATH', '')}"
    importlib.import_module("growth").main()
