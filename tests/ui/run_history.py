"""Six weeks of an agent's life: 30 runs on two branches, copies of one with other figures."""

import json
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from tests.tiny_dataset import tiny_dataset

from assay import evaluate

FIRST_DAY = datetime(2026, 9, 28, 7, 30, tzinfo=UTC)
RELEASED = 11  # the run on main from which on the agent is Finder 1.2
_MAIN = {0: "bm25", 6: "hybrid", RELEASED: "hybrid, fixed", 17: "v1.2"}
_BRANCH = {0: "cross-encoder", 5: "top 50", 11: "top 100"}


def make_history(out: Path) -> Path:
    model = evaluate(
        lambda query, top_k: [f"d{query.split()[1]}"],
        tiny_dataset(60),
        out=out,
        gates=("ndcg@5>=0.45", "latency_p95_ms<=900"),
    ).folder.path
    moments = [(56 * n, "main", n) for n in range(18)]
    moments += [(420 + 50 * n, "rerank-documents", n) for n in range(12)]
    for number, (hours, branch, n) in enumerate(sorted(moments)):
        started = FIRST_DAY + timedelta(hours=hours)
        copy = shutil.copytree(model, out / f"{started:%Y%m%d-%H%M%S}-search-{number:04x}")
        header, report = (json.loads((copy / f).read_text()) for f in ("run.json", "report.json"))
        labels = _MAIN if branch == "main" else _BRANCH
        header["git"] = {"branch": branch, "commit": f"{number:07x}" * 5}
        header["label"] = labels.get(n)
        _set_figures(report, branch, n)
        for document in (header, report):
            agent = "Finder 1.1" if branch == "main" and n < RELEASED else "Finder 1.2"
            document["started"] = started.isoformat(timespec="seconds")
            document["target"] |= {"name": "a2a:https://search.example", "agent": agent}
            is_small = branch != "main" and n in (3, 4)
            document["config"]["num_queries"] = 30 if is_small else None
            if hours >= 14 * 56:
                document["dataset"] |= {"fingerprint": "f" * 64, "labels": "g" * 64}
        if is_small:
            report["summary"]["total_queries"] = 30
        (copy / "run.json").write_text(json.dumps(header))
        (copy / "report.json").write_text(json.dumps(report))
    shutil.rmtree(model)
    return out


def _set_figures(report: dict[str, Any], branch: str, n: int) -> None:
    """Main gets better, then worse for a week; the branch trades time for quality."""
    mean, p50, bound = 0.5 + 0.018 * n, 480.0 + 25 * n, 0.45
    if branch == "main":
        mean = 0.42 + 0.012 * n - (0.09 if n in (9, 10) else 0)
        p50, bound = 210.0 + 6 * n, 0.45 if n < 12 else 0.55
    for score in report["statistics"].values():
        score |= {"mean": mean, "low": mean - 0.1, "high": mean + 0.1}
    gate = {"gate": f"ndcg@5>={bound}", "value": mean, "passed": mean >= bound}
    report["gates"] = [gate, *report["gates"][1:]]
    report["latency_ms"] |= {"p50": p50, "p95": 1.7 * p50}
