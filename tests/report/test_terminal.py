"""A run and a comparison in a terminal: every figure, no control characters, 80 columns."""

from typing import Any

import pytest

from assay.report.terminal import (
    ScoreLine,
    plain_text,
    render_comparison,
    render_report,
    scores_table,
    verdict,
)
from assay.run.answers import AnswersReport
from assay.run.models import Comparison, PairedResult, Report

REPORT: dict[str, Any] = {
    "state": "complete",
    "summary": {
        "total_queries": 1200,
        "successful_queries": 1195,
        "failed_queries": 5,
        "success_rate": 0.995,
        "total_time_seconds": 10.0,
        "queries_per_second": 119.5,
    },
    "metrics": {"ndcg@5": 0.34},
    "statistics": {
        "ndcg@5": {
            "mean": 0.34,
            "low": 0.31,
            "high": 0.37,
            "median": 0.3,
            "std": 0.2,
            "min": 0.0,
            "max": 1.0,
            "ceiling": 0.85,
        }
    },
    "unseen_queries": None,
    "gates": [],
    "failures": {},
    "failure_examples": {},
    "violations": {
        "duplicate": {"ids": 0, "queries": 0},
        "unknown": {"ids": 3, "queries": 1},
        "surplus": {"ids": 0, "queries": 0},
    },
    "latency_ms": {"p50": 12.0, "p90": 20.0, "p95": 30.0, "p99": 1500.0, "max": 2000.0},
    "target": {"name": "a2a:http://host", "protocol": "A2A 1.0", "details": ""},
    "track": "zero-shot",
    "dataset": {
        "name": "notes",
        "fingerprint": "f" * 64,
        "split": "test",
        "documents": 200,
        "judged_queries": 1200,
    },
    "config": {"target": "a2a:http://host"},
    "started": "2026-11-15T05:36:50+00:00",
    "versions": {"agent-assay": "1"},
    "planned_queries": 1200,
}

ANSWERS: dict[str, Any] = {
    "questions": 100,
    "answered": 98,
    "unanswerable": 10,
    "references": "r",
    "correctness_by": "key facts",
    "metrics": {"correctness": 0.6},
    "statistics": {
        "correctness": {
            "n": 100,
            "mean": 0.6,
            "low": 0.5,
            "high": 0.7,
            "median": 1.0,
            "std": 0.5,
            "ceiling": 1.0,
            "how": "key facts",
        },
        "hallucination_rate": {
            "n": 100,
            "mean": 0.3,
            "low": 0.2,
            "high": 0.4,
            "median": 0.0,
            "std": 0.5,
            "ceiling": None,
            "how": "lower is better",
        },
    },
    "judge": {
        "provider": "ollama:m",
        "votes": 3,
        "judged": 100,
        "flip_rate": 0.125,
        "unparseable_votes": 2,
        "undecided": 1,
        "spending": {
            "calls": 300,
            "cached": 0,
            "input_tokens": 1,
            "output_tokens": 1,
            "cost": 1.5,
        },
    },
    "diagnosis": {
        "sentence": "Fix retrieval first.",
        "questions": 100,
        "wrong": 40,
        "counts": {"retrieval missed": 30, "agent error": 10},
        "points": {"retrieval": 30.0},
        "settled": 40,
        "from_memory": 0,
        "quadrants": {
            "evidence_right": 60,
            "evidence_wrong": 0,
            "no_evidence_right": 0,
            "no_evidence_wrong": 30,
        },
    },
    "counterfactuals": {"gold": {"asked": 30, "right": 20}},
    "invented_citations": {"ids": 4},
    "trouble": None,
}


def report(**changes: Any) -> Report:
    return Report.model_validate(REPORT | changes)


def shown(**changes: Any) -> str:
    return plain_text(render_report(report(**changes), path="runs/x"))


def paired(**changes: Any) -> PairedResult:
    values: dict[str, Any] = {
        "n": 100,
        "mean_a": 0.3,
        "mean_b": 0.35,
        "difference": 0.05,
        "low": 0.01,
        "high": 0.09,
        "p_value": 0.01,
        "p_adjusted": 0.02,
        "wins": 60,
        "ties": 30,
        "losses": 10,
        "queries_needed": 80,
    }
    return PairedResult.model_validate(values | changes)


def comparison(**changes: PairedResult) -> Comparison:
    metrics = changes or {"ndcg@5": paired()}
    return Comparison(a="old", b="new", metrics=metrics, warnings=["the tracks differ"])


def test_a_report_has_its_scores_and_its_facts() -> None:
    text = shown()
    assert text.startswith("a2a:http://host on notes test, zero-shot track\n")
    assert "nDCG@5            0.3400  [0.3100, 0.3700]   0.8500       40.0%" in text
    assert "queries     1,195 of 1,200 answered\n" in text
    assert "violations  unknown ids 3 (in 1 query)" in text
    assert "latency     p50 12 ms, p95 30 ms, p99 1.50 s, 120 queries/s\n" in text
    assert "run         runs/x\n" in text
    assert all(len(line) <= 80 for line in text.splitlines())


def test_a_run_that_stopped_says_so_and_what_failed() -> None:
    text = shown(
        state="interrupted",
        planned_queries=3000,
        failures={"timeout": 2, "agent error": 3},
        failure_examples={"timeout": "'q1': no answer within 60 s"},
        gates=[
            {"gate": "ndcg@5>=0.3", "value": 0.34, "passed": True},
            {"gate": "correctness>=0.5", "value": None, "passed": False},
        ],
        unseen_queries={"queries": 50, "mean": 0.3, "low": None, "high": None},
    )
    assert "1,195 of 1,200 answered; interrupted: 3,000 were planned" in text
    assert "agent error 3; timeout 2" in text
    assert "for example 'q1': no answer within 60 s" in text
    assert "ndcg@5>=0.3  passed: 0.3400" in text
    assert "correctness>=0.5  FAILED: –" in text
    assert "nDCG@5 0.3000 on 50 not seen in training" in text


def test_a_latency_of_nothing_is_a_dash() -> None:
    latency = {"p50": 0.0, "p90": 0.0, "p95": 0.0, "p99": 0.0, "max": 0.0}
    assert "p50 –, p95 –, p99 –" in shown(latency_ms=latency | {"queries": 0})
    timeouts = {"p50": 9.0, "p90": 9.0, "p95": 9.0, "p99": 9.0, "max": 9.0, "timeouts": 2}
    assert "2 timeouts counted at the limit" in " ".join(shown(latency_ms=timeouts).split())


def test_answers_have_their_figures_the_judge_and_the_diagnosis() -> None:
    words = " ".join(shown(answers=ANSWERS).split())
    assert "correctness 0.6000 [0.5000, 0.7000] 1.0000 100" in words
    assert "hallucination rate 0.3000 [0.2000, 0.4000] 0 is best 100" in words
    assert "98 of 100 answered; 10 have no answer in the documents" in words
    assert "ollama:m, 3 votes each, half with the reference first" in words
    assert "contradicts itself on 12.5%; undecided on 1 question" in words
    assert "$1.50" in words
    assert "with the right documents: 20 of 30 right" in words
    assert words.endswith("Fix retrieval first.")


@pytest.mark.parametrize("trouble", [None, "the judge's budget is spent"])
def test_undecided_answers_say_why(trouble: str | None) -> None:
    answers = AnswersReport.model_validate(
        ANSWERS | {"statistics": {}, "judge": None, "diagnosis": None, "trouble": trouble}
    )
    words = " ".join(shown(answers=answers.model_dump()).split())
    assert (trouble or "the references have no key facts; add --judge") in words


def test_a_comparison_has_a_line_a_metric_a_verdict_and_its_warnings() -> None:
    text = plain_text(render_comparison(comparison()))
    assert "a = old\nb = new\n" in text
    words = " ".join(text.split())
    assert "nDCG@5 0.3000 0.3500 +0.0500 [0.0100, 0.0900] 0.020 60/30/10" in words
    assert "b is significantly better in nDCG@5 (+0.0500) with 100 queries." in words
    assert "note: the tracks differ" in words


def test_verdicts() -> None:
    worse = comparison(**{"ndcg@5": paired(difference=-0.05)})
    assert verdict(worse, a="A", b="B").startswith("B is significantly worse in nDCG@5 (-0.0500)")
    unsure = comparison(**{"ndcg@5": paired(p_adjusted=0.2, queries_needed=15_182)})
    assert verdict(unsure) == (
        "b and a do not differ significantly in nDCG@5 with 100 queries; about 15,000 queries "
        "would be needed."
    )
    enough = comparison(**{"ndcg@5": paired(p_adjusted=0.2, queries_needed=80)})
    assert verdict(enough) == "b and a do not differ significantly in nDCG@5 with 100 queries."
    same = comparison(**{"ndcg@5": paired(wins=0, losses=0, p_adjusted=1.0, queries_needed=None)})
    assert verdict(same) == "b and a score the same on every query."
    both = comparison(**{"correctness": paired(), "ndcg@5": paired()})
    assert "significantly better in correctness (+0.0500) and nDCG@5 (+0.0500)" in verdict(both)
    later = {"ndcg@5": paired(p_adjusted=0.2), "faithfulness": paired(difference=-0.45)}
    assert verdict(comparison(**later)) == (
        "b is significantly worse in faithfulness (-0.4500) with 100 queries; nDCG@5 does not "
        "differ significantly."
    )


def test_a_table_of_scores_alone() -> None:
    text = plain_text(scores_table([ScoreLine("nDCG@10", 0.5, None, None, 0.0)]))
    assert " ".join(text.split()).endswith("nDCG@10 0.5000 – 0.0000 –")


def test_an_older_run_without_unseen_queries_has_no_mean_of_them() -> None:
    nothing = {"queries": 0, "mean": 0.0, "low": None, "high": None}
    assert "unseen" not in shown(unseen_queries=nothing)
