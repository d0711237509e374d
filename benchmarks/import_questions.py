"""How long `assay data import` takes for a CSV of 100,000 questions, with ids, grades and tags."""

import argparse
import csv
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path


def write_questions(path: Path, rows: int) -> None:
    """Four ids, four grades, an answer and two tags for each question."""
    with path.open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file)
        table.writerow(["query_id", "query", "doc_ids", "grades", "answer", "language", "team"])
        for row in range(rows):
            ids = ";".join(f"document-{(row * 7 + each) % 50_000}" for each in range(4))
            text = f"What does page {row} say about subject {row % 977}?"
            tags = ("de" if row % 3 else "en", f"team {row % 12}")
            table.writerow([f"q{row}", text, ids, "2;1;1;0", f"It says {row}.", *tags])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000)
    rows = parser.parse_args().rows
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "questions.csv")
        write_questions(source, rows)
        out = str(Path(folder, "out"))
        verbs = {"import": [str(source), "--out", out], "check": [str(source)]}
        for verb, arguments in verbs.items():
            start, used = time.perf_counter(), os.times()
            command = [sys.executable, "-c", "from assay.cli.app import main; main()", "data", verb]
            subprocess.run([*command, *arguments], check=True, capture_output=True)
            seconds, now = time.perf_counter() - start, os.times()
            cpu = (
                now.children_user + now.children_system - used.children_user - used.children_system
            )
            size = source.stat().st_size / 1e6
            print(
                f"assay data {verb}: {rows:,} questions ({size:.0f} MB) in {seconds:.1f} s, "
                f"of which {cpu:.1f} s on a CPU"
            )


if __name__ == "__main__":
    main()
