"""Six weeks of an agent's life: 30 runs on two branches, copies of one with other figures.

python -m tests.ui.run_history FOLDER
"""

import json
import shutil
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from assay import Dataset, Document, Query, evaluate

FIRST_DAY = datetime(2026, 9, 28, 7, 30, tzinfo=UTC)
_MAIN = {0: "bm25", 6: "hybrid", 11: "hybrid, fixed", 17: "v1.2"}
_BRANCH = {0: "cross-encoder", 5: "top 50", 11: "top 100"}


def manual() -> Dataset:
    """Questions about a machine's manual."""
    return Dataset(
        name="manual",
        documents={f"d{n}": Document(f"d{n}", f"Part {n}", f"part {n}") for n in range(61)},
        queries={f"q{n}": Query(f"q{n}", f"How is part {n} cleaned?") for n in range(60)},
        judgments={"test": {f"q{n}": {f"d{n}": 2, f"d{n + 1}": 1} for n in range(60)}},
    )


def history() -> list[dict[str, Any]]:
    """Main gets better, then worse for a week; the branch trades time for quality."""
    main = [
        {
            "hours": 56 * n,
            "quality": 0.42 + 0.012 * n - (0.09 if n in (9, 10) else 0),
            "p50": 210.0 + 6 * n,
            "branch": "main",
            "label": _MAIN.get(n),
            "agent": "Finder 1.1" if n < 11 else "Finder 1.2",
            "bound": 0.45 if n < 12 else 0.55,
        }
        for n in range(18)
    ]
    branch = [
        {
            "hours": 420 + 50 * n,
            "quality": 0.5 + 0.018 * n,
            "p50": 480.0 + 25 * n,
            "branch": "rerank-documents",
            "label": _BRANCH.get(n),
            "agent": "Finder 1.2",
            "bound": 0.45,
            "sample": 30 if n in (3, 4) else None,
        }
        for n in range(12)
    ]
    return sorted([*main, *branch], key=lambda moment: moment["hours"])


def make_history(out: Path) -> Path:
    """Write the runs under `out`; returns it."""
    gates = ("ndcg@5>=0.45", "latency_p95_ms<=900")
    model = evaluate(
        lambda query, top_k: [f"d{query.split()[3]}"],
        manual(),
        out=out,
        gates=gates,
        tags=("cost_usd=0.03",),
    ).folder.path
    for number, moment in enumerate(history()):
        started = FIRST_DAY + timedelta(hours=moment["hours"])
        copy = shutil.copytree(model, out / f"{started:%Y%m%d-%H%M%S}-search-{number:04x}")
        for name in ("run.json", "report.json"):
            document = json.loads((copy / name).read_text())
            _date(document, moment, started, number)
            (copy / name).write_text(json.dumps(document))
    shutil.rmtree(model)
    return out


def _date(document: dict[str, Any], moment: dict[str, Any], started: datetime, number: int) -> None:
    document["started"] = started.isoformat(timespec="seconds")
    document["target"] |= {"name": "a2a:https://search.example", "agent": moment["agent"]}
    document["config"]["num_queries"] = moment.get("sample")
    if moment["hours"] >= 14 * 56:
        document["dataset"] |= {"fingerprint": "f" * 64, "labels": "g" * 64}
    if "statistics" not in document:
        document["git"] = {"branch": moment["branch"], "commit": f"{number:07x}" * 5}
        document["label"] = moment["label"]
        return
    mean, bound = moment["quality"], moment["bound"]
    for score in document["statistics"].values():
        score |= {"mean": mean, "low": mean - 0.1, "high": mean + 0.1}
    gate = {"gate": f"ndcg@5>={bound}", "value": mean, "passed": mean >= bound}
    document["gates"] = [gate, *document["gates"][1:]]
    document["latency_ms"] |= {"p50": moment["p50"], "p95": 1.7 * moment["p50"]}
    if moment.get("sample"):
        document["summary"]["total_queries"] = moment["sample"]


if __name__ == "__main__":
    print(make_history(Path(sys.argv[1])))
