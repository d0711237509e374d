"""How long `assay runs` takes over many run folders.

python benchmarks/runs_list.py [--runs 1000] [--keep DIR]

One small run is made and its `run.json` and `report.json` are copied into as many folders, with
labels, branches and times of their own. Each command is a process of its own, as people start it.
"""

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import orjson

from assay import evaluate


def make_runs(folder: Path, number: int) -> None:
    """`number` folders with the files of one run."""
    with tempfile.TemporaryDirectory() as place:
        run = evaluate(lambda query, top_k: [], "notes", num_queries=20, out=place)
        header = orjson.loads((run.folder.path / "run.json").read_bytes())
        report = run.folder.report_file.read_bytes()
    start = datetime(2026, 1, 1, tzinfo=UTC)
    for at in range(number):
        began = start + timedelta(minutes=at)
        path = folder / f"{began:%Y%m%d-%H%M%S}-agent-notes-{at % 65536:04x}"
        path.mkdir(parents=True)
        header |= {"started": began.isoformat(), "label": f"try-{at % 50}"}
        header["git"] = {"branch": f"branch-{at % 20}", "commit": f"{at:040x}"}
        (path / "run.json").write_bytes(orjson.dumps(header))
        (path / "report.json").write_bytes(report)


def timed(*arguments: str) -> tuple[float, float]:
    """Seconds of one process of `assay`: by the clock, and of the processor."""
    began, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-m", "assay", *arguments]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return time.perf_counter() - began, used


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--keep", type=Path, help="where to make the runs, and leave them")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = chosen.keep or Path(place) / "runs"
        if not folder.exists():
            make_runs(folder, chosen.runs)
        runs = ("runs", "--runs", str(folder))
        print(f"{'':<26} {'clock':>7} {'processor':>10}")
        for name, arguments in (
            ("assay --version", ("--version",)),
            ("assay runs", runs),
            ("assay runs --json", (*runs, "--json")),
            ("assay runs --label try-7", (*runs, "--label", "try-7")),
        ):
            clock, used = min(timed(*arguments) for _ in range(3))
            print(f"{name:<26} {clock:5.2f} s {used:8.2f} s")


if __name__ == "__main__":
    main()
