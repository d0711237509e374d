"""How long `assay judge pool` takes over many runs.

python benchmarks/pooling.py [--runs 10] [--queries 1000]

Makes the runs of a synthetic data set, each of which returns other documents, and times the command
in a process of its own: processor time and the clock.
"""

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from assay import Dataset, evaluate_agent
from assay.data.beir import write_beir


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--queries", type=int, default=1000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        count = options.queries
        data = Dataset.from_dicts(
            {f"q{n}": f"question number {n}" for n in range(count)},
            {f"q{n}": {f"d{n}": 1} for n in range(count)},
            {f"d{n}": f"the text of document {n} " * 20 for n in range(20 * count)},
            name="synthetic",
        )
        write_beir(data, folder / "synthetic")
        for run in range(options.runs):

            def agent(query: str, top_k: int, run: int = run) -> list[str]:
                number = int(query.split()[-1])
                return [f"d{(number + run * 7 + place) % (20 * count)}" for place in range(top_k)]

            evaluate_agent(agent, str(folder / "synthetic"), top_k=10, out=folder / "runs")
        runs = sorted(str(path) for path in (folder / "runs").iterdir())
        command = [sys.executable, "-m", "assay", "judge", "pool", *runs]
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        started = time.perf_counter()
        done = subprocess.run(
            [*command, "--out", str(folder / "pool.csv")],
            capture_output=True,
            text=True,
            check=True,
        )
        clock = time.perf_counter() - started
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        print(" ".join(done.stdout.split(";")[0].split("/")[-1].split()))
        print(f"{options.runs} runs of {count:,} queries: {clock:.2f} s, {used:.2f} s of CPU")


if __name__ == "__main__":
    main()
