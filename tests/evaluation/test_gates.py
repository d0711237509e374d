import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from assay import evaluate
from assay.answers.calibration import CalibrationStatus
from assay.data import Dataset, Document, Query
from assay.data.dataset import Fact, ReferenceAnswer
from assay.errors import UsageError
from assay.evaluation import gates as gates_module
from assay.evaluation.evaluation import Evaluation
from assay.evaluation.gates import (
    check_gate,
    gate_ceiling,
    parse_gate,
    require_possible,
    with_calibration,
)
from assay.evaluation.plan import draw_queries
from assay.run.answers import AnswersReport, UndecidedAnswers
from assay.run.config import RunConfig
from assay.run.models import GateResult, Report, RunSummary

SUMMARY = RunSummary.model_validate(
    {
        "total_queries": 100,
        "successful_queries": 98,
        "failed_queries": 2,
        "success_rate": 0.98,
        "total_time_seconds": 1.0,
        "queries_per_second": 98.0,
    }
)


def report(
    metrics: dict[str, float] | None = None,
    summary: RunSummary = SUMMARY,
    answers: AnswersReport | None = None,
) -> Report:
    return Report.model_construct(
        metrics=metrics or {}, summary=summary, answers=answers, search=None, trials=None
    )


@pytest.mark.parametrize(
    ("text", "value", "passed"),
    [
        ("ndcg@5>=0.30", 0.30, True),
        ("ndcg@5 > 0.30", 0.30, False),
        ("nDCG@5 <= 0.5", 0.6, False),
        ("ndcg@5<=0.5", 0.5, True),
        ("ndcg@5<0.5", 0.5, False),
        ("NDCG@5<5e-1", 0.4, True),
    ],
)
def test_a_gate_compares_the_metric(text: str, value: float, passed: bool) -> None:
    gate = parse_gate(text, top_k=5)
    assert check_gate(gate, report({"ndcg@5": value})).passed is passed


@pytest.mark.parametrize(
    ("text", "successful", "passed"),
    [
        ("success_rate>=0.99", 98, False),
        ("success_rate>=0.98", 98, True),
        ("latency_p95_ms<200", 1, True),
        ("latency_p95_ms<200", 0, False),  # nothing was timed
    ],
)
def test_a_gate_may_be_on_a_figure_of_the_summary(text: str, successful: int, passed: bool) -> None:
    summary = SUMMARY.model_copy(update={"latency_p95_ms": 0.0, "successful_queries": successful})
    assert check_gate(parse_gate(text, top_k=5), report(summary=summary)).passed is passed


@pytest.mark.parametrize(("found", "passed"), [("d1", True), (None, False)])
def test_empty_answers_pass_no_gate_on_how_often_and_fast_they_come(
    found: str | None, passed: bool, tmp_path: Path
) -> None:
    data = Dataset.from_dicts({"q1": "a", "q2": "b"}, {"q1": {"d1": 1}, "q2": {"d2": 1}})
    gates = ["success_rate>=0.99", "latency_p95_ms<60000"]

    def search(query: str, top_k: int) -> list[str]:
        return [found] if found and query == "a" else []

    report = evaluate(search, data, gates=gates, out=tmp_path).report
    reason = None if passed else "no query got a document"
    assert [(gate.passed, gate.reason) for gate in report.gates] == [(passed, reason)] * 2


def test_a_gate_may_be_on_a_metric_of_answers() -> None:
    gate = parse_gate("correctness>=0.5", top_k=5)
    for value, undecided, passed in ((0.5, 0, True), (0.4, 0, False), (0.5, 2, False)):
        unsure = UndecidedAnswers(number=undecided, of=10, why="")
        answers = AnswersReport.model_construct(
            metrics={"correctness": value}, questions=10, undecided=unsure, judge=None
        )
        assert check_gate(gate, report(answers=answers)).passed is passed
    for name in ("correctness", "evidence_recall"):  # which were not measured
        result = check_gate(parse_gate(f"{name}>=0.5", 5), report())
        assert (result.value, result.passed) == (None, False)


@pytest.mark.parametrize(
    ("text", "compare_to", "message"),
    [
        ("ndcg@5", "", "is not a condition"),
        ("ndcg@5>=", "", "is not a condition"),
        ("ndcg@5>=0.3.1", "", "must end in a number"),
        ("ndgc@5>=0.3", "", "Did you mean 'nDCG'"),
        ("recall@6>=0.3", "", "needs 6 documents, but the run requests 5; add --top-k 6"),
        ("recall@10>=0.3", "", "needs 10 documents, but the run requests 5; add --top-k 10"),
        ("ndcg@5>=main-0.01", "", "a number, or in the run of --compare-to and a margin"),
        ("ndcg@5>=base", "main", "a number, or in 'main' and a margin"),
        ("ndcg@5>=main*2", "main", "must end in a number"),
        ("success_rate>=main", "main", "are compared with a run, not success_rate"),
    ],
)
def test_a_gate_that_cannot_be_checked_is_refused(text: str, compare_to: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        parse_gate(text, 5, compare_to)


def dataset_with_many_relevant(relevant: int) -> Dataset:
    documents = {f"d{i}": Document(f"d{i}", "", "x") for i in range(relevant)}
    judgments = {"q": dict.fromkeys(documents, 1)}
    return Dataset("many", documents, {"q": Query("q", "query")}, {"test": judgments})


def test_a_gate_above_the_ceiling_is_refused_with_the_ceiling() -> None:
    config = RunConfig(target="t", gates=("recall@5>=0.8",))
    with pytest.raises(UsageError, match=r"Recall@5 is 0\.2500; .* can reach 1"):
        Evaluation.plan(config, dataset_with_many_relevant(20))


def dataset_with_answers(decided: int = 1, undecided: int = 0) -> Dataset:
    """So many questions whose reference has a key fact, and so many whose reference has none."""
    facts = [(Fact("It is", ("It is",)),)] * decided + [()] * undecided
    names = [f"q{n}" for n in range(len(facts))]
    return Dataset(
        "answers",
        {"d": Document("d", "", "x")},
        {name: Query(name, "query") for name in names},
        {"test": {name: {"d": 1} for name in names}},
        answers={
            name: ReferenceAnswer(name, "It is.", known)
            for name, known in zip(names, facts, strict=True)
        },
    )


@pytest.mark.parametrize(
    ("gate", "decided", "answers", "needs"),
    [
        ("correctness>=0.5", 1, True, ""),  # by the key facts
        ("correctness>=0.5", 1, False, "answers: --answers"),
        ("judged_faithfulness>=0.5", 1, True, "a judge: --judge"),
        ("loop_gain>0", 1, False, "the search tool: --search TARGET"),
        ("pass^3>=0.5", 1, True, "--answers and --repeat N"),
    ],
)
def test_a_gate_needs_what_decides_it(gate: str, decided: int, answers: bool, needs: str) -> None:
    config = RunConfig(target="t", gates=(gate,), answers=answers)
    data = dataset_with_answers(decided, 1 - decided)
    if not needs:
        assert Evaluation.plan(config, data).gates[0].answers
        return
    with pytest.raises(UsageError, match=f"needs {needs}"):
        Evaluation.plan(config, data)


@pytest.mark.parametrize("gate", ["pass^3>=0.5", "pass@3>=0.5"])
def test_a_gate_on_trials_names_as_many_as_there_are(gate: str) -> None:
    config = RunConfig(target="t", gates=(gate,), answers=True, repeat=3)
    assert Evaluation.plan(config, dataset_with_answers()).gates[0].search
    with pytest.raises(UsageError, match="--answers and --repeat N"):
        Evaluation.plan(replace(config, repeat=4), dataset_with_answers())


def test_a_gate_on_what_few_questions_decide_is_refused_before_the_run() -> None:
    config = RunConfig(target="t", gates=("correctness>=0.5",), answers=True)
    few = dataset_with_answers(1, 3)
    with pytest.raises(UsageError, match=r"3 of 4 references have no key facts; add --judge"):
        Evaluation.plan(config, few)
    with pytest.raises(UsageError, match=r"1 of 1 references have no key facts; add --judge"):
        Evaluation.plan(config, dataset_with_answers(0, 1))
    assert Evaluation.plan(replace(config, judge="openai:m"), few).gates[0].answers
    # A tenth may be undecided.
    assert Evaluation.plan(config, dataset_with_answers(9, 1)).gates[0].answers


@pytest.mark.parametrize(
    ("gate", "settings"),
    [
        ("success_rate>=99", {}),
        ("evidence_recall>=70", {"search": "builtin:bm25"}),
        ("correctness>=1.5", {}),
        ("judged_faithfulness>=1.5", {"judge": "ollama:m"}),
        ("poisoned>=1.5", {"poison": ("all",)}),
    ],
)
def test_a_gate_on_a_share_above_1_is_refused(gate: str, settings: dict[str, Any]) -> None:
    config = RunConfig(target="t", gates=(gate,), answers=True, **settings)
    with pytest.raises(UsageError, match=r"can never pass.* is 1\.0000"):
        Evaluation.plan(config, dataset_with_answers())


@pytest.mark.parametrize(
    ("gate", "ceiling"),
    [
        ("recall@5>=0.25", 0.25),
        ("capped_recall@5>=1", 1),
        ("recall@5>=main+0.5", math.inf),  # a difference has no ceiling
        ("latency_p95_ms>5", math.inf),
    ],
)
def test_a_gate_up_to_its_ceiling_is_taken(gate: str, ceiling: float) -> None:
    config, data = RunConfig(target="t"), dataset_with_many_relevant(20)
    parsed = parse_gate(gate, 5, "main")
    assert gate_ceiling(parsed, data, config, draw_queries(data, config)) == ceiling
    require_possible(parsed, ceiling)


@pytest.mark.parametrize(
    ("name", "corrected"),
    [("correctness", True), ("nugget_recall", True), ("judged_faithfulness", False)],
)
def test_the_known_error_of_a_calibrated_judge_is_subtracted(
    monkeypatch: pytest.MonkeyPatch, name: str, corrected: bool
) -> None:
    known = CalibrationStatus(True, "calibrated", bias=0.2)
    monkeypatch.setattr(gates_module, "figure_calibration", lambda *_: known)
    gate = parse_gate(f"{name}>=0.5", 5)
    measured = GateResult(gate=gate.text, value=0.6, passed=True)
    result = with_calibration(measured, gate, RunConfig(target="t"), [])
    assert result.value == pytest.approx(0.4 if corrected else 0.6)
    assert result.passed is not corrected
    assert ("corrected from 0.6000" in (result.note or "")) is corrected


def test_texts_without_documents_are_no_empty_answers(tmp_path: Path) -> None:
    def answer(query: str, top_k: int) -> dict[str, object]:
        return {"doc_ids": [], "answer": "It is seven."}

    gates = "success_rate>=0.99"
    run = evaluate(answer, "notes", num_queries=2, answers=True, gates=gates, out=tmp_path)
    assert run.gates_passed
