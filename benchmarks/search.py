"""The reference retriever on NFCorpus: indexing, opening, tuning, answering.

    .venv/bin/python benchmarks/search.py --archive nfcorpus.zip
    .venv/bin/python benchmarks/search.py --archive nfcorpus.zip --cache DIR   # keeps the vectors
    .venv/bin/python benchmarks/search.py --archive nfcorpus.zip --no-tuned    # no tuning
    .venv/bin/python benchmarks/search.py --archive nfcorpus.zip --against DIR # ratios

Prints the rows of a table for benchmarks/README.md, each with its goal for two quiet cores. CPU
time is printed beside the clock, as other work on the machine stretches the clock most.

`--against` names a checkout of another commit. Both are measured at the same time, one thread each,
so that other work on the machine slows both; what is printed is this commit's share of the other's.
With `--cache` they index all documents by vectors that are there, and queries meet the whole index.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from assay.data import Dataset, load_dataset
from assay.search.embedding import Embedder, VectorCache, open_embedder
from assay.search.index import open_retriever, open_store
from assay.search.retriever import Retriever
from assay.search.store import Store

if TYPE_CHECKING:  # earlier commits have it elsewhere
    from assay.search import Mode

GOALS: "dict[Mode, str]" = {
    "bm25": "",
    "dense": "",
    "hybrid": "4 ms, 40 ms",
    "tuned": "8 ms, 40 ms",
}
THREADS = 8
_NOT_COMPILED = "PYTHONDONTWRITEBYTECODE"

# By what earlier commits have, too.
OPENING = """
import sys
from pathlib import Path
from assay.data import load_dataset
from assay.search.embedding import open_embedder
from assay.search.index import open_retriever, open_store
dataset, embedder = load_dataset(sys.argv[1]), open_embedder()
store = open_store("bench", embedder)
with open_retriever(dataset, embedder=embedder, store=store) as retriever:
    assert retriever.search("do statins cause breast cancer?", 5)
"""


def main() -> None:
    options = _options()
    if options.against:
        _compare(options)
        return
    if options.archive:
        os.environ["NFCORPUS_ARCHIVE"] = str(options.archive)
    dataset = load_dataset(options.dataset)
    if options.measure:
        print(json.dumps(_measure(dataset, options)))
        return
    with _cache(options.cache) as cache, tempfile.TemporaryDirectory() as folder:
        os.environ["ASSAY_CACHE"] = str(cache)
        embedder = open_embedder()
        print("| what | measured | goal |\n|---|---|---|")
        _index(dataset, embedder, Path(folder))
        _opening(Path(folder), options)
        with open_retriever(dataset, embedder=embedder, store=_store(Path(folder))) as retriever:
            queries = [query.text for query in dataset.queries.values()][: options.queries]
            for mode in ("bm25", "dense", "hybrid"):
                _latency(retriever, queries, mode)
            _throughput(retriever, queries, "hybrid", "300 queries/s")
            if options.tuned:
                tuned = _tuning(dataset, embedder, retriever)
                _latency(tuned, queries, "tuned")
                _throughput(tuned, queries, "tuned")


def _compare(options: argparse.Namespace) -> None:
    sources = {"this": Path(__file__).parents[1] / "src", "other": options.against / "src"}
    found: dict[str, dict[str, float]] = {}
    command = [sys.executable, __file__, "--dataset", options.dataset, "--measure"]
    command += ["--documents", str(options.documents), "--queries", str(options.queries)]
    command += ["--archive", str(options.archive)] if options.archive else []
    command += ["--cache", str(options.cache)] if options.cache else []
    running = {
        name: subprocess.Popen(
            command,
            env=os.environ | {"PYTHONPATH": str(source.absolute()), "ASSAY_THREADS": "1"},
            stdout=subprocess.PIPE,
        )
        for name, source in sources.items()
    }
    for name, process in running.items():
        output, _ = process.communicate()
        if process.returncode:
            raise SystemExit(f"{sources[name]} could not be measured")
        found[name] = json.loads(output)
    print("| what | other | this | ratio |\n|---|---|---|---|")
    for what, value in found["this"].items():
        other = found["other"][what]
        print(f"| {what} | {other:.2f} | {value:.2f} | {value / other:.2f} |")


def _measure(dataset: Dataset, options: argparse.Namespace) -> dict[str, float]:
    """What another commit can be compared by, each in its own process."""
    found: dict[str, float] = {}
    if not options.cache:
        step = max(1, len(dataset.documents) // options.documents)
        dataset = replace(dataset, documents=dict(list(dataset.documents.items())[::step]))
    queries = [query.text for query in dataset.queries.values()][: options.queries]
    with _cache(options.cache) as cache, tempfile.TemporaryDirectory() as folder:
        os.environ["ASSAY_CACHE"] = str(cache)
        embedder = open_embedder()
        store = _store(Path(folder))
        kind = "index with cached vectors" if options.cache else "first index"
        what = f"{kind} of {len(dataset.documents):,} documents, s of CPU"
        found[what] = _cpu(lambda: open_retriever(dataset, embedder=embedder, store=store).close())
        if options.cache:  # else the data set of another process has other documents
            _open(Path(folder), options)
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            for _ in range(5):
                _open(Path(folder), options)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            found["start Python, load, open, answer one query, s of CPU"] = spent / 5
        with open_retriever(dataset, embedder=embedder, store=store) as retriever:
            for mode in ("bm25", "dense", "hybrid"):
                _ask_all(retriever, queries[:20], mode)
                spent = _cpu(lambda mode=mode: _ask_all(retriever, queries, mode))  # type: ignore[misc]
                found[f"{mode}, ms of CPU a query"] = 1000 * spent / len(queries)
        spent = _cpu(lambda: [embedder.embed([query]) for query in queries])
        found["the model alone, ms of CPU a query"] = 1000 * spent / len(queries)
    return found


def _ask_all(retriever: Retriever, queries: Sequence[str], mode: "Mode") -> None:
    for query in queries:
        retriever.search(query, 10, mode=mode)


def _cpu(work: Callable[[], object]) -> float:
    before = time.process_time()
    work()
    return time.process_time() - before


def _index(dataset: Dataset, embedder: Embedder, folder: Path) -> None:
    count = f"{len(dataset.documents):,} documents"

    def build(name: str) -> None:
        open_retriever(dataset, embedder=embedder, store=_store(folder, name)).close()

    _row(f"first index of {count}", _timed(lambda: build("bench")), "240 s")
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    _row("memory at most", f"{memory} MB", "800 MB")
    _row("index again, vectors cached", _timed(lambda: build("again")), "5 s")
    _row("index again, nothing changed", _timed(lambda: build("bench")), "5 s")


def _opening(folder: Path, options: argparse.Namespace) -> None:
    _open(folder, options)  # reads the files from disk once
    seconds = statistics.median(_seconds(lambda: _open(folder, options)) for _ in range(5))
    _row("start Python, load, open, answer one query", f"{seconds:.2f} s", "0.4 s")


def _open(folder: Path, options: argparse.Namespace) -> None:
    """In a process of its own, from compiled modules: an installation has them, and to compile
    those of a checkout each time takes a third of the whole.
    """
    environment = {name: value for name, value in os.environ.items() if name != _NOT_COMPILED}
    environment["QDRANT_PATH"] = str(folder)
    command = [sys.executable, "-c", OPENING, options.dataset, str(options.archive or "")]
    subprocess.run(command, check=True, env=environment)


def _store(folder: Path, name: str = "bench") -> Store:
    os.environ["QDRANT_PATH"] = str(folder)
    return open_store(name, open_embedder())


def _tuning(dataset: Dataset, embedder: Embedder, retriever: Retriever) -> Retriever:
    from assay.search.tuning.tune import learn, model_path, open_tuned, save_if_better

    cache = VectorCache()
    train = [dataset.queries[one].text for one in dataset.judgments["train"]]
    cache.embed(train, embedder)  # the goal is for tuning once the vectors are there
    ranker = None

    def tune() -> None:
        nonlocal ranker
        ranker = learn(dataset, embedder, retriever)

    _row("tuning, vectors cached", _timed(tune), "300 s")
    assert ranker is not None
    save_if_better(ranker, model_path(dataset, embedder, retriever))
    opened = open_tuned(dataset, embedder, retriever)  # as a user opens it
    retriever.ranker = opened
    return retriever


def _latency(retriever: Retriever, queries: Sequence[str], mode: "Mode") -> None:
    for query in queries[:20]:
        retriever.search(query, 10, mode=mode)
    before = time.process_time()
    times = [
        1000 * _seconds(lambda query=query: retriever.search(query, 10, mode=mode))  # type: ignore[misc]
        for query in queries
    ]
    cpu = 1000 * (time.process_time() - before) / len(queries)
    cuts = statistics.quantiles(times, n=100)
    measured = f"{cuts[49]:.1f} ms, {cuts[98]:.1f} ms ({cpu:.1f} ms of CPU a query)"
    _row(f"{mode}, one caller: p50, p99", measured, GOALS[mode])


def _throughput(retriever: Retriever, queries: Sequence[str], mode: "Mode", goal: str = "") -> None:
    def ask(query: str) -> None:
        retriever.search(query, 10, mode=mode)

    before = time.process_time()
    with ThreadPoolExecutor(THREADS) as pool:
        seconds = _seconds(lambda: list(pool.map(ask, queries)))
    cpu = 1000 * (time.process_time() - before) / len(queries)
    measured = f"{len(queries) / seconds:.0f} queries/s ({cpu:.1f} ms of CPU a query)"
    _row(f"{mode}, {THREADS} callers at once", measured, goal)


def _row(what: str, measured: str, goal: str) -> None:
    print(f"| {what} | {measured} | {goal} |", flush=True)


def _timed(work: Callable[[], object]) -> str:
    before = time.process_time()
    seconds = _seconds(work)
    return f"{seconds:.1f} s ({time.process_time() - before:.1f} s of CPU)"


def _seconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


@contextmanager
def _cache(chosen: Path | None) -> Iterator[Path]:
    if chosen is not None:
        yield chosen.absolute()
        return
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="time the reference retriever")
    parser.add_argument("--dataset", default="nfcorpus")
    parser.add_argument("--archive", type=Path, help="a local nfcorpus.zip")
    parser.add_argument("--cache", type=Path, help="keep vectors here; then nothing is embedded")
    parser.add_argument("--queries", type=int, default=1000)
    parser.add_argument("--against", type=Path, metavar="DIR", help="compare with this checkout")
    parser.add_argument("--documents", type=int, default=600, help="indexed for a comparison")
    parser.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--no-tuned", dest="tuned", action="store_false", help="leave tuning out")
    return parser.parse_args()


if __name__ == "__main__":
    main()
