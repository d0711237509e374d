"""`report.json`, the EvaluationReport: figures first, then one row for each query.

Rows go to disk as they are made, so that a run of 100,000 queries needs no memory for them.
"""

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import orjson

from assay.data.dataset import Dataset
from assay.errors import FailureKind
from assay.evaluation.asking import Call
from assay.evaluation.gates import Gate, judge
from assay.evaluation.plan import RunConfig
from assay.evaluation.results import NOT_ASKED, Batch, Results
from assay.measure.metrics import MRR, Metric, Precision, Recall
from assay.measure.statistics import SampleSummary, below, summarize
from assay.measure.violations import KINDS, Violations

_PERCENTILES = (50, 90, 95, 99)


def build_head(
    results: Results,
    config: RunConfig,
    dataset: Dataset,
    header: Mapping[str, Any],
    gates: Sequence[Gate],
    *,
    state: str,
    seconds: float,
    unseen: Sequence[int] | None = None,
    answers: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The report without its rows. `unseen` are the places of queries that are new to training."""
    scores = results.scores
    spread = {m: summarize(scores.values[m], seed=config.seed) for m in scores.metrics}
    latency = _latency(results)
    summary = _summary(results, spread, config, latency, seconds)
    metrics = {metric.slug: spread[metric].mean for metric in scores.metrics}
    answer_metrics = None if answers is None else answers["metrics"]
    head = {
        "state": state,
        "summary": summary,
        "metrics": metrics,
        "statistics": {
            metric.slug: _statistics(spread[metric], scores.mean_ceiling(metric))
            for metric in scores.metrics
        },
        "unseen_queries": None if unseen is None else _unseen(results, unseen, config.seed),
        "gates": [
            {"gate": verdict.gate, "value": verdict.value, "passed": verdict.passed}
            for verdict in (judge(gate, metrics, summary, answer_metrics) for gate in gates)
        ],
        "failures": dict(sorted(results.failures.items())),
        "failure_examples": results.examples,
        "violations": _violations(scores.violations),
        "latency_ms": {**latency, **_covered(results)},
        "target": header["target"],
        "track": header["track"],
        "dataset": {
            **header["dataset"],
            "split": config.split,
            "documents": len(dataset.documents),
            "judged_queries": len(dataset.queries_in(config.split)),
        },
        "config": config.to_json(),
        "random_seed_used": config.seed,
        "started": header["started"],
        "versions": header["versions"],
    }
    return head if answers is None else {**head, "answers": answers}


class RowWriter:
    """Collects rows in a file beside the report, then puts head and rows together."""

    def __init__(self, report: Path, dataset: Dataset, config: RunConfig) -> None:
        self._report = report
        self._dataset = dataset
        self._judgments = dataset.judgments_in(config.split)
        self._top_k = config.top_k
        self._rows_path = report.with_name(".rows.part")
        self._rows: BinaryIO = self._rows_path.open("w+b")
        self._separator = b"\n"

    def add(self, batch: Batch) -> None:
        columns = {metric.key: batch.scores.values[metric] for metric in batch.scores.metrics}
        for place, (query, call) in enumerate(zip(batch.queries, batch.calls, strict=True)):
            row: dict[str, Any] = {"query_id": query.id, "query_text": query.text}
            row |= _outcome(call)
            row |= {key: float(values[place]) for key, values in columns.items()}
            row |= self._relevant(query.id, call)
            self._rows.write(self._separator + orjson.dumps(row))
            self._separator = b",\n"

    def finish(self, head: Mapping[str, Any]) -> None:
        partial = self._report.with_name(".report.json.part")
        opening = orjson.dumps(head, option=orjson.OPT_INDENT_2)[:-2]  # without its last "\n}"
        with partial.open("wb") as file:
            file.write(opening + b',\n  "per_query_results": [')
            self._rows.seek(0)
            shutil.copyfileobj(self._rows, file)
            file.write(b"\n]}\n")
        partial.replace(self._report)

    def close(self) -> None:
        self._rows.close()
        self._rows_path.unlink(missing_ok=True)

    def _relevant(self, query_id: str, call: Call | None) -> dict[str, int]:
        grades = self._judgments[query_id]
        relevant = {doc_id for doc_id, grade in grades.items() if grade > 0}
        found = relevant.intersection(call.doc_ids[: self._top_k]) if call is not None else ()
        return {"relevant_docs_retrieved": len(found), "total_relevant_docs": len(relevant)}


def _outcome(call: Call | None) -> dict[str, Any]:
    if call is None:
        return {"retrieved_docs": [], "status": "failed", "failure": NOT_ASKED}
    outcome: dict[str, Any] = {"retrieved_docs": call.doc_ids}
    if call.failure is None:
        outcome["status"] = "ok"
    else:
        outcome |= {"status": "failed", "failure": call.failure, "message": call.message}
    return outcome | {"at": call.at, "latency_ms": call.latency_ms, "attempts": call.attempts}


def _summary(
    results: Results,
    spread: Mapping[Metric, SampleSummary],
    config: RunConfig,
    latency: Mapping[str, float],
    seconds: float,
) -> dict[str, Any]:
    """The flat figures that leaderboards read; sums let shards be merged exactly."""
    headline = results.headline
    key, figures = headline.key, spread[headline]
    summary: dict[str, Any] = {
        "total_queries": results.total,
        "successful_queries": results.answered,
        "failed_queries": results.total - results.answered,
        "success_rate": results.answered / results.total,
        f"mean_{key}": figures.mean,
        f"median_{key}": figures.median,
        f"std_{key}": figures.std,
        f"min_{key}": figures.minimum,
        f"max_{key}": figures.maximum,
        f"low_{key}": figures.low,
        f"high_{key}": below(figures.high, results.scores.mean_ceiling(headline)),
    }
    for kind in (MRR, Precision, Recall):
        metric = kind @ config.top_k
        summary[f"mean_{metric.key}"] = spread[metric].mean
    for metric in results.scores.metrics:
        summary[f"sum_{metric.key}"] = float(results.scores.values[metric].sum())
    summary |= {f"latency_{name}_ms": value for name, value in latency.items()}
    summary["total_time_seconds"] = seconds
    summary["queries_per_second"] = results.answered / seconds if seconds > 0 else 0.0
    summary["attempts"] = results.attempts
    return summary


def _statistics(summary: SampleSummary, ceiling: float) -> dict[str, float | None]:
    return {
        "mean": summary.mean,
        "low": summary.low,
        "high": below(summary.high, ceiling),
        "median": summary.median,
        "std": summary.std,
        "min": summary.minimum,
        "max": summary.maximum,
        "ceiling": ceiling,
        "share_of_ceiling": summary.mean / ceiling if ceiling else 0.0,
    }


def _unseen(results: Results, places: Sequence[int], seed: int) -> dict[str, float | int | None]:
    """The headline on the queries that no train query resembles: skill told from memory."""
    summary = summarize(results.scores.values[results.headline][list(places)], seed=seed)
    return {
        "queries": summary.n,
        "mean": summary.mean,
        "low": summary.low,
        "high": summary.high,
    }


def _latency(results: Results) -> dict[str, float]:
    """0 where nothing was timed: a report holds no NaN, which is not JSON."""
    timed = results.latencies[~np.isnan(results.latencies)]
    if not timed.size:
        return {**{f"p{percentile}": 0.0 for percentile in _PERCENTILES}, "max": 0.0}
    values = np.percentile(timed, _PERCENTILES)
    figures = {f"p{p}": float(value) for p, value in zip(_PERCENTILES, values, strict=True)}
    return {**figures, "max": float(timed.max())}


def _covered(results: Results) -> dict[str, int]:
    """What the percentiles are of: answered queries, and timeouts at their limit."""
    timeouts = results.failures[FailureKind.TIMEOUT]
    return {"queries": results.answered + timeouts, "timeouts": timeouts}


def _violations(violations: Violations) -> dict[str, Any]:
    return {
        kind: {
            "ids": violations.total(kind),
            "queries": violations.queries(kind),
            "examples": [
                {"query_id": example.query_id, "doc_id": example.doc_id[:200]}
                for example in violations.examples_of(kind)
            ],
        }
        for kind in KINDS
    }
