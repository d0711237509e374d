"""Evaluates a target on a synthetic corpus of any size, and prints time and memory.

python benchmarks/large_corpus.py --documents 5000000
python benchmarks/large_corpus.py --documents 200000 --target builtin:bm25

The corpus is made once in --folder. Each stage runs in a process of its own: the first evaluation,
which reads the corpus into the cache, and a second one, which finds it there.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path

_EVALUATE = """
import json, random, sys, time
started = time.perf_counter()
import assay
from assay.data import load_dataset
data = load_dataset(sys.argv[1])
loaded = time.perf_counter() - started
def agent(query, top_k):
    number = int(query.split()[-1])
    return [f"doc-{number + place}" for place in range(top_k)]
cpu_before = time.process_time()
run = assay.evaluate(sys.argv[3] or agent, data, out=sys.argv[2])
cpu = time.process_time() - cpu_before
memory = [line for line in open("/proc/self/status") if line.startswith("VmHWM")][0]
print(json.dumps({
    "documents": len(data.documents),
    "load_s": round(loaded, 1),
    "total_s": round(time.perf_counter() - started, 1),
    "evaluation_cpu_s": round(cpu, 1),
    "peak_mb": int(memory.split()[1]) // 1024,
    "ndcg": run.report.headline[1].mean,
}))
"""
_WORDS = [f"word{number}" for number in range(5000)]


def make_corpus(folder: Path, documents: int, queries: int) -> None:
    """Texts of about 40 words; every query asks for one document by its number."""
    rng = random.Random(7)
    (folder / "qrels").mkdir(parents=True)
    with (folder / "corpus.jsonl").open("w") as corpus:
        for number in range(documents):
            text = " ".join(rng.choices(_WORDS, k=40))
            corpus.write(json.dumps({"_id": f"doc-{number}", "title": "", "text": text}) + "\n")
    wanted = rng.sample(range(documents), queries)
    with (folder / "queries.jsonl").open("w") as file:
        for place, number in enumerate(wanted):
            file.write(json.dumps({"_id": f"q{place}", "text": f"document {number}"}) + "\n")
    rows = [f"q{place}\tdoc-{number}\t1" for place, number in enumerate(wanted)]
    content = "\n".join(["query-id\tcorpus-id\tscore", *rows])
    (folder / "qrels" / "test.tsv").write_text(content + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--documents", type=int, default=1_000_000)
    parser.add_argument("--queries", type=int, default=1000)
    parser.add_argument("--target", default="", help="default: a Python function")
    parser.add_argument("--folder", type=Path, default=Path("build/large-corpus"))
    options = parser.parse_args()
    folder = options.folder / str(options.documents)
    if not folder.exists():
        started = time.perf_counter()
        make_corpus(folder, options.documents, min(options.queries, options.documents))
        print(f"made in {time.perf_counter() - started:.0f} s", file=sys.stderr)
    size = (folder / "corpus.jsonl").stat().st_size
    print(f"corpus: {size / 1e9:.2f} GB")
    environment = {**os.environ, "ASSAY_CACHE": str(options.folder / "cache")}
    for stage in ("first", "again"):
        command = [sys.executable, "-c", _EVALUATE, str(folder), str(options.folder / "runs")]
        command.append(options.target)
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        print(f"{stage}: {done.stdout.strip()}")


if __name__ == "__main__":
    main()
