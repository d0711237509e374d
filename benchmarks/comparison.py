"""Memory and CPU of `assay compare A B --html` over two runs of many queries.

.venv/bin/python benchmarks/comparison.py [--queries 100000]
"""

import argparse
import multiprocessing
import os
import subprocess
import sys
import tempfile
from pathlib import Path

FOUND = 5


def first(query: str, top_k: int) -> list[str]:
    """Right about every other query."""
    number = int(query.split()[1])
    return [f"d{number + each + number % 2}" for each in range(top_k)]


def second(query: str, top_k: int) -> list[str]:
    """Right about every third query."""
    number = int(query.split()[1])
    return [f"d{number + each + number % 3}" for each in range(top_k)]


def make_runs(out: Path, count: int) -> None:
    """Two runs on the same questions."""
    from assay import Dataset, evaluate

    queries = {f"q{number}": f"query {number}" for number in range(count)}
    judgments = {f"q{number}": {f"d{number}": 1} for number in range(count)}
    dataset = Dataset.from_dicts(queries, judgments)
    for agent in (first, second):
        evaluate(agent, dataset, top_k=FOUND, out=out)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--queries", type=int, default=100_000)
    count = parser.parse_args().queries
    with tempfile.TemporaryDirectory(prefix="assay-comparison-") as folder:
        out = Path(folder)
        # In a process of its own: a command that is started from a large one counts as large.
        maker = multiprocessing.Process(target=make_runs, args=(out, count))
        maker.start()
        maker.join()
        assert maker.exitcode == 0
        command = [sys.executable, "-m", "assay", "compare", *map(str, sorted(out.iterdir()))]
        for options in ([], ["--html", str(out / "comparison.html")]):
            child = subprocess.Popen([*command, *options], stdout=subprocess.DEVNULL)
            _, status, used = os.wait4(child.pid, 0)  # of this child alone
            assert status == 0
            print(
                f"compare {' '.join(options[:1]) or 'on the terminal'}: "
                f"{used.ru_utime + used.ru_stime:.1f} s of CPU, {used.ru_maxrss / 1024:.0f} MB"
            )


if __name__ == "__main__":
    main()
