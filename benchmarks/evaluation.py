"""How much Assay itself costs: queries a second and memory with a target that answers at once.

    .venv/bin/python benchmarks/evaluation.py [--queries 100000]

Prints lines for benchmarks/README.md. The whole way is timed: plan, calls, `calls.jsonl`, scores
with intervals, `report.json`.
"""

import argparse
import asyncio
import resource
import sys
import tempfile
import time
from pathlib import Path

from assay.data import Dataset, Document, Query
from assay.evaluation.evaluation import Evaluation
from assay.run.config import RunConfig
from assay.targets import PythonAgent

DOCUMENTS = 1000
RELEVANT = 10


def instant(query: str, top_k: int) -> list[str]:
    start = int(query.rsplit(" ", 1)[1])
    return [f"d{(start + step) % DOCUMENTS}" for step in range(top_k)]


async def instant_async(query: str, top_k: int) -> list[str]:
    return instant(query, top_k)


def make_dataset(queries: int) -> Dataset:
    return Dataset(
        name="synthetic",
        documents={f"d{i}": Document(f"d{i}", "", "text") for i in range(DOCUMENTS)},
        queries={f"q{i}": Query(f"q{i}", f"query number {i}") for i in range(queries)},
        judgments={
            "test": {
                f"q{i}": {
                    f"d{(i + 2 * step) % DOCUMENTS}": 1 + step % 2 for step in range(RELEVANT)
                }
                for i in range(queries)
            }
        },
    )


def run(kind: str, dataset: Dataset) -> None:
    function = instant if kind == "sync" else instant_async
    config = RunConfig(target=f"python:instant_{kind}", dataset=dataset.name)
    with tempfile.TemporaryDirectory() as folder:
        started = time.perf_counter()
        evaluation = Evaluation.plan(config, dataset)
        agent = PythonAgent(function, name=config.target)
        outcome = asyncio.run(evaluation.start(agent, Path(folder)))
        seconds = time.perf_counter() - started
        with outcome.folder.report_file.open("rb") as report:
            rows = sum(line.startswith(b'{"query_id"') for line in report)
    asked, failed = len(dataset.queries), outcome.report.summary.failed_queries
    if rows != asked or failed:
        sys.exit(f"lost {asked - rows} queries, {failed} failed")
    speed = f"{asked / seconds:,.0f} queries/s"
    print(f"| instant {kind} target | {asked:,} queries | {seconds:.1f} s | {speed} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--queries", type=int, default=20_000)
    parser.add_argument("--kind", choices=["sync", "async", "both"], default="both")
    arguments = parser.parse_args()
    dataset = make_dataset(arguments.queries)
    for kind in ("sync", "async") if arguments.kind == "both" else (arguments.kind,):
        run(kind, dataset)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"peak memory, data set included: {peak:.0f} MB")


if __name__ == "__main__":
    main()
