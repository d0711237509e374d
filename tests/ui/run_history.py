"""Six weeks of an agent's life: 30 runs on two branches, and four other agents on the same data.

    python -m tests.ui.run_history FOLDER

Real evaluations of small agents, moved to the dates, commits and latencies of a history.
"""

import random
import sys
import warnings
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from assay import Dataset, Document, Query, Run, evaluate
from assay.data.dataset import Fact, ReferenceAnswer
from assay.run.folder import RunFolder
from assay.run.provenance import GitRecord
from assay.run.report_file import ReportWriter

AGENT = "a2a:https://search.example"
QUERIES = 60
FIRST_DAY = datetime(2026, 9, 28, 7, 30, tzinfo=UTC)


def manual(version: int = 1, queries: int = QUERIES) -> Dataset:
    """Questions about a machine's manual; each version judges one document more."""
    judged = {f"q{n}": {f"d{n}": 2, f"d{n + 1}": 1} for n in range(queries)}
    for n in range(version - 1):
        judged[f"q{n}"][f"d{n + 2}"] = 1
    return Dataset(
        name="manual",
        documents={f"d{n}": Document(f"d{n}", f"Part {n}", f"part {n}") for n in range(80)},
        queries={f"q{n}": Query(f"q{n}", f"How is part {n} cleaned?") for n in range(queries)},
        judgments={"test": judged},
        answers={
            f"q{n}": ReferenceAnswer(
                f"q{n}", f"with brush {n}", (Fact(f"brush {n}", (f"brush {n}",)),), (f"d{n}",)
            )
            for n in range(queries)
        },
    )


@dataclass(frozen=True)
class Moment:
    """One run of the history."""

    target: str
    hours: float
    quality: float
    latency: float
    cost: float | None = None
    branch: str | None = None
    commit: str | None = None
    label: str = ""
    agent: str | None = None
    data: int = 1
    sample: int | None = None
    gate: str = "ndcg@5>=0.45"
    fails: bool = False


def history() -> list[Moment]:
    """Main gets better, then worse for a week; the branch trades time for quality."""
    drawn = random.Random(7)
    commits = [f"{drawn.getrandbits(160):040x}" for _ in range(30)]
    moments = []
    for number in range(18):
        quality = 0.42 + 0.012 * number - (0.09 if number in (9, 10) else 0)
        moments.append(
            Moment(
                *(AGENT, 56 * number, quality, 210 + 6 * number, 0.031 + 0.0008 * number),
                *("main", commits[number]),
                label={0: "bm25", 6: "hybrid", 11: "hybrid, fixed", 17: "v1.2"}.get(number, ""),
                agent="Finder 1.1" if number < 11 else "Finder 1.2",
                data=1 if number < 14 else 2,
                gate="ndcg@5>=0.45" if number < 12 else "ndcg@5>=0.55",
            )
        )
    for number in range(12):
        moments.append(
            Moment(
                *(AGENT, 420 + 50 * number, 0.5 + 0.018 * number, 480 + 25 * number),
                *(0.074 + 0.004 * number, "rerank-documents", commits[18 + number]),
                label={0: "cross-encoder", 5: "top 50", 11: "top 100"}.get(number, ""),
                agent="Finder 1.2",
                data=1 if 420 + 50 * number < 14 * 56 else 2,
                sample=30 if number in (3, 4) else None,
            )
        )
    return sorted(moments, key=lambda each: each.hours)


def rivals() -> list[Moment]:
    """Other agents on the newest data, one of them silent."""
    found = {
        "a2a:https://fast.example": (0.55, 45.0, 0.004),
        "mcp:https://tools.example": (0.74, 930.0, 0.21),
        "builtin:bm25": (0.36, 3.0, 0.0),
    }
    late = 1000
    made = [Moment(name, late, *figures, data=2) for name, figures in found.items()]
    made.append(Moment("http:https://silent.example", late, 0.0, 1.0, data=2, fails=True))
    return [*made, Moment("a2a:https://fast.example", late + 1, 0.5, 40.0, data=2, sample=30)]


def make_history(out: Path, moments: list[Moment] | None = None) -> Path:
    """Write the runs under `out`; returns it."""
    datasets = {1: manual(1), 2: manual(2)}
    for number, moment in enumerate([*history(), *rivals()] if moments is None else moments):
        make_run(out, moment, datasets[moment.data], number)
    return out


def make_run(out: Path, moment: Moment, dataset: Dataset, number: int = 0) -> RunFolder:
    """Evaluate an agent as good as the moment says, and date the run."""

    def agent(query: str, top_k: int) -> dict[str, object]:
        if moment.fails:
            raise ValueError("nobody is at home")
        part = int(query.split()[3])
        luck = random.Random(part * 31).random()
        jitter = random.Random(part * 1009 + number).random() * 0.1
        right = luck + jitter < moment.quality + 0.05
        ids = [f"d{part}", f"d{part + 1}"] if right else ["d79", f"d{part + 1}"]
        return {"doc_ids": ids, "answer": f"Use brush {part if right or luck > 0.9 else 0}."}

    options: dict[str, Any] = {"num_queries": moment.sample} if moment.sample else {}
    gates = () if moment.fails or moment.target != AGENT else (moment.gate, "latency_p95_ms<=900")
    tags = () if moment.cost is None else (f"cost_usd={moment.cost:.4f}",)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        run = evaluate(
            *(agent, dataset),
            out=out,
            gates=gates,
            label=moment.label,
            tags=tags,
            **{"answers": moment.data == 2, "retries": 0, **options},
        )
    return _dated(run, moment, number)


def _dated(run: Run, moment: Moment, number: int) -> RunFolder:
    started = FIRST_DAY + timedelta(hours=moment.hours)
    folder, report = run.folder, run.report
    drift = random.Random(number).uniform(0.95, 1.05)
    p50, p95 = moment.latency * drift, moment.latency * drift * 1.7
    latency = report.latency_ms.model_copy(update={"p50": p50, "p95": p95})
    header = folder.read_header()
    git = GitRecord(commit=moment.commit, branch=moment.branch) if moment.branch else None
    target = header.target.model_copy(update={"name": moment.target, "agent": moment.agent})
    same = {"started": started.isoformat(timespec="seconds"), "target": target}
    rows = list(folder.read_rows())
    writer = ReportWriter(folder.report_file)
    for row in rows:
        writer.add(row)
    writer.finish(report.model_copy(update={**same, "latency_ms": latency}))
    writer.close()
    folder.write_header(header.model_copy(update={**same, "git": git}))
    name = f"{started:%Y%m%d-%H%M%S}-{moment.target.split('/')[-1].replace(':', '-')}-{number:04x}"
    return RunFolder(folder.path.rename(folder.path.with_name(name)))


if __name__ == "__main__":
    print(make_history(Path(sys.argv[1])))
