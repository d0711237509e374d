"""How quick the web UI is with many runs on disk.

    .venv/bin/python benchmarks/ui.py [--runs 1000] [--trend]

Makes the runs from copies of real ones, starts `assay serve ui` over them, and prints lines for
benchmarks/README.md: the first answer of each page and the median of ten. Where Chromium and
Playwright are installed, also when a browser first paints. With --trend, all runs are of
one target, on two branches, and the page of its trend is measured.
"""

import argparse
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx

from assay import evaluate_agent

START = "import sys; from assay.cli.app import main; sys.argv[1:1] = ['serve', 'ui']; main()"
PAINTED = """new Promise((told) => new PerformanceObserver((list) => {
    const found = list.getEntriesByName("first-contentful-paint")[0];
    if (found) told(found.startTime);
}).observe({type: "paint", buffered: true}))"""
FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-background-networking")


def shorter(query: str, top_k: int) -> list[str]:
    return []


def make_runs(folder: Path, number: int, *, one_target: bool = False) -> list[str]:
    with tempfile.TemporaryDirectory() as originals:
        models = [
            evaluate_agent(target, "notes", out=originals, top_k=10).folder.path
            for target in ("builtin:bm25", "builtin:bm25" if one_target else shorter)
        ]
        moment = datetime(2026, 1, 1, tzinfo=UTC)
        for place in range(number):
            moment += timedelta(hours=1)
            copy = folder / f"{moment:%Y%m%d-%H%M%S}-run-{place}"
            shutil.copytree(models[place % len(models)], copy)
            for name in ("run.json", "report.json"):
                text = (copy / name).read_text()
                started = f'"started": "{moment.isoformat()}"'
                text = re.sub(r'"started": ?"[^"]+"', started, text, count=1)
                branch = f'"branch": "{("main", "feature")[place % 2]}"'
                (copy / name).write_text(re.sub(r'"branch": ?[^,]+', branch, text, count=1))
    return sorted(path.name for path in folder.iterdir())


@contextmanager
def serving(runs: Path, cache: Path) -> Iterator[tuple[str, int]]:
    """The address of a server and its process, with a cache that nobody has used."""
    environment = {**os.environ, "ASSAY_CACHE": str(cache)}
    command = [sys.executable, "-c", START, "--runs", str(runs), "--port", "0"]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment
    )
    assert process.stdout is not None
    try:
        yield process.stdout.readline().strip(), process.pid
    finally:
        process.terminate()
        process.wait()


def cpu_of(process: int) -> float:
    """Seconds of the processor that a process has used."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure(client: httpx.Client, path: str, process: int) -> tuple[float, float, float]:
    """Seconds of the first answer, of later ones, and of the processor for the first."""
    before, cpu = cpu_of(process), 0.0
    seconds: list[float] = []
    for _ in range(11):
        started = time.perf_counter()
        client.get(path).raise_for_status()
        seconds.append(time.perf_counter() - started)
        cpu = cpu or cpu_of(process) - before
    return seconds[0], statistics.median(seconds[1:]), cpu


def first_paint(url: str) -> float | None:
    """Milliseconds until a browser that was never here shows something."""
    chromium = shutil.which("chromium")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        return None
    if chromium is None:
        return None
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=list(FLAGS))
        page = browser.new_page()
        page.goto(url)
        painted = float(page.evaluate(PAINTED))
        browser.close()
    return painted


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--trend", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, tempfile.TemporaryDirectory() as place:
        folder, cache = Path(name), Path(place)
        names = make_runs(folder, arguments.runs, one_target=arguments.trend)
        pages = {
            "list of runs": "/",
            "list, filtered": "/?q=target:bm25&page=3",
            "board": "/?view=board",
            "report": f"/runs/{names[0]}",
            "comparison": f"/compare?run={names[0]}&run={names[1]}",
        }
        trend = "/trends?target=builtin:bm25&dataset=notes&split=test"
        if arguments.trend:
            pages = {"trend": trend}
        with (
            serving(folder, cache) as (url, process),
            httpx.Client(base_url=url, timeout=60) as client,
        ):
            client.get("/health").raise_for_status()  # it is up, and nobody has asked for a page
            started = cpu_of(process)
            painted = first_paint(f"{url}{trend if arguments.trend else ''}")
            print(f"CPU until it is up: {started:.2f} s, of the first page: ", end="")
            print(f"{cpu_of(process) - started:.2f} s")
            for label, path in pages.items():
                first, later, _ = measure(client, path, process)
                runs = f"{arguments.runs:,} runs"
                print(f"| {label} | {runs} | {first * 1000:.0f} ms | {later * 1000:.0f} ms |")
        words = "not measured" if painted is None else f"{painted:.0f} ms"
        print(f"first paint of the {'trend' if arguments.trend else 'list'}: {words}")


if __name__ == "__main__":
    main()
