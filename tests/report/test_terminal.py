"""A run and a comparison in a terminal: every figure, no control characters, 80 columns."""

from pathlib import Path
from typing import Any

import pytest
from tests.report.conftest import broken_agent

from assay import Run, evaluate
from assay.metrics.statistics import PairedResult
from assay.report.ci import render_markdown
from assay.report.numbers import figure, interval
from assay.report.terminal import (
    gate_verdict,
    plain_text,
    query_texts,
    render_comparison,
    render_report,
    verdict,
)
from assay.run.models import Comparison, GateResult, UnseenQueries


def shown(run: Run, **changes: Any) -> str:
    return plain_text(render_report(run.report.model_copy(update=changes), path="runs/x"))


def words_of(run: Run, **changes: Any) -> str:
    return " ".join(shown(run, **changes).split())


def paired(**changes: Any) -> PairedResult:
    counts = {"n": 100, "wins": 60, "ties": 30, "losses": 10, "queries_needed": 80}
    means = {"mean_a": 0.3, "mean_b": 0.35, "difference": 0.05, "low": 0.01, "high": 0.09}
    values: dict[str, Any] = {**counts, **means, "p_value": 0.01, "p_adjusted": 0.02}
    return PairedResult(**values | changes)


def comparison(**changes: PairedResult) -> Comparison:
    metrics = changes or {"ndcg@5": paired()}
    return Comparison(a="old", b="new", metrics=metrics, warnings=["the tracks differ"])


def test_a_report_has_its_scores_and_its_facts(hostile_run: Run) -> None:
    text = shown(hostile_run)
    score = hostile_run.report.statistics["ndcg@5"]
    part = f"{100 * score.mean:.1f}%"
    words = f"nDCG@5 {figure(score.mean)} {interval(score.low, score.high)} 1.0000 {part}"
    assert words in " ".join(text.split())
    for words in (
        "queries     35 of 40 answered",
        "failures    agent error 5",
        "unknown ids 5 (in 5 queries)",
        "run         runs/x\n",
        "ndcg@5>=0.9  FAILED: ",
        "success_rate>=0.5  passed: 0.8750",
    ):
        assert words in text
    assert "\x1b" not in text


def test_a_run_without_an_answer_has_its_cause_and_no_zeros(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"out": tmp_path, "num_queries": 2, "retries": 0}
    run = evaluate(broken_agent, "notes", **settings)
    shown = render_report(run.report, path="x", texts=query_texts(run.rows()))
    text = " ".join(plain_text(shown).split())
    first = next(run.rows())
    assert "queries 0 of 2 answered failures agent error 2 for example “" in text
    assert f"{first.query_text[:20]}" in text
    assert f"({first.query_id}): RuntimeError: the index is closed" in text
    assert "0.0000" not in text
    page = render_markdown(run.report, run.folder.read_header(), run.name)
    assert "the index is closed" in page
    assert "0.0000" not in page
    asked = evaluate(broken_agent, "notes", answers=True, repeat=2, **settings)
    text = words_of(asked)
    assert "queries 0 of 2 answered in every trial" in text
    assert "outcomes failed" in text
    assert "correctness 0.0000" not in text
    private = evaluate(broken_agent, "notes", private=True, **settings)
    assert not any(query_texts(private.rows()).values())


def test_a_run_that_stopped_says_so(hostile_run: Run, plain_run: Run) -> None:
    text = words_of(hostile_run, state="interrupted", planned_queries=3000)
    assert "35 of 40 answered, interrupted: 3,000 were planned" in text
    unseen = UnseenQueries(queries=50, mean=0.3, low=None, high=None)
    assert "nDCG@5 0.3000 on 50 not seen in training" in words_of(plain_run, unseen_queries=unseen)
    none = UnseenQueries(queries=0, mean=0.0, low=None, high=None)
    assert "not seen" not in words_of(plain_run, unseen_queries=none)  # of an older run


def test_answers_have_their_figures_the_judge_and_the_diagnosis(judged_run: Run) -> None:
    answers = judged_run.report.answers
    assert answers is not None
    assert answers.judge is not None
    assert answers.diagnosis is not None
    text = words_of(judged_run)
    for name in ("correctness", "hallucination_rate"):
        row = answers.statistics[name]
        assert f"{name.replace('_', ' ')} {figure(row.mean)} {interval(row.low, row.high)}" in text
    assert f"{answers.answered} of 52 answered; 4 have no answer in the documents" in text
    assert "scripted, 2 votes each, half with the reference first" in text
    assert f"undecided on {answers.judge.undecided} questions" in text
    assert "0 is best" in text
    assert text.endswith(answers.diagnosis.sentence)


@pytest.mark.parametrize("trouble", [None, "the judge's budget is spent"])
def test_undecided_answers_say_why(judged_run: Run, trouble: str | None) -> None:
    assert judged_run.report.answers is not None
    without = dict.fromkeys(("judge", "diagnosis", "undecided"))
    answers = judged_run.report.answers.model_copy(
        update={**without, "statistics": {}, "trouble": trouble}
    )
    expected = trouble or "the references have no key facts; add --judge"
    assert expected in words_of(judged_run, answers=answers)


def test_a_comparison_has_a_line_a_metric_a_verdict_and_its_warnings() -> None:
    text = plain_text(render_comparison(comparison()))
    assert "a = old\nb = new\n" in text
    words = " ".join(text.split())
    assert "nDCG@5 0.3000 0.3500 +0.0500 [0.0100, 0.0900] 0.020 60/30/10" in words
    assert "b is significantly better in nDCG@5 (+0.0500) with 100 queries." in words
    assert "note: the tracks differ" in words


@pytest.mark.parametrize(
    ("metrics", "words"),
    [
        ({"ndcg@5": {"difference": -0.05}}, "b is significantly worse in nDCG@5 (-0.0500) with"),
        (
            {"ndcg@5": {"p_adjusted": 0.2, "queries_needed": 15_182}},
            "b and a do not differ significantly in nDCG@5 with 100 queries; about 15,000 queries",
        ),
        (
            {"ndcg@5": {"wins": 0, "losses": 0, "p_adjusted": 1.0, "queries_needed": None}},
            "b and a score the same on every query.",
        ),
        (
            {"ndcg@5": {"p_adjusted": 0.2}, "faithfulness": {"difference": -0.45}},
            "b is significantly worse in faithfulness (-0.4500) with 100 queries; nDCG@5 does not "
            "differ significantly.",
        ),
    ],
)
def test_a_verdict_has_every_clear_change(metrics: dict[str, dict[str, Any]], words: str) -> None:
    found = comparison(**{name: paired(**changes) for name, changes in metrics.items()})
    assert verdict(found).startswith(words)


def test_a_verdict_without_a_figure_says_why() -> None:
    gate = GateResult(gate="correctness>=0.5", value=None, passed=False, reason="judge lost")
    assert gate_verdict(gate) == "gate failed: correctness>=0.5, got no value: judge lost"
