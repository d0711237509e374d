"""Criteria of the user's own in a run: figures, rows, page, gates, comparison, resume, merge."""

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.judge_controls import control_reply

import assay
from assay.errors import ProviderError, ProviderFailure, UsageError
from assay.evaluation.evaluation import Evaluation
from assay.evaluation.run import Run
from assay.run.config import RunConfig
from assay.targets import PythonAgent

NOTES = assay.load_dataset("notes")
ANSWERS = {
    query.text: NOTES.answers[query.id].answer or "The notes do not answer this question."
    for query in NOTES.queries.values()
}
TONE = re.compile(r"Answer:\n<answer \w+>\n(Gladly)?")


class Reads:
    name = "test:reads"

    def __init__(self, *, unsteady: bool = False, failing: bool = False) -> None:
        self.unsteady = unsteady
        self.failing = failing

    async def generate(self, prompt: str, max_tokens: int = 100) -> str:
        if prompt.startswith("Rate an answer"):
            return self._rating(prompt)
        said = re.findall(r"<answer \w+>\n(?:Gladly: )?(.*?)\n</answer", prompt, re.DOTALL)
        return "TRUE" if len(set(said)) <= 1 else "FALSE"

    def _rating(self, prompt: str) -> str:
        if self.failing:
            raise ProviderError(ProviderFailure.CONNECTION, "the judge is not there")
        if control := control_reply(prompt):
            return control
        kind = bool((TONE.search(prompt) or [""])[1])
        if self.unsteady:
            kind = prompt.index("Answer:") < prompt.index("Question:")
        low, high = ("NO", "YES") if "polite" in prompt else ("2", "5")
        return f"{high if kind else low}\nBecause of <b>Gladly</b>."


def kindly(query: str, top_k: int) -> dict[str, Any]:
    said = ANSWERS[query]
    return {"doc_ids": ["note-001"], "answer": f"Gladly: {said}" if len(query) % 2 else said}


def curtly(query: str, top_k: int) -> dict[str, Any]:
    return {"doc_ids": ["note-001"], "answer": ANSWERS[query]}


@pytest.fixture
def criteria(tmp_path: Path) -> Path:
    folder = tmp_path / "criteria"
    folder.mkdir()
    (folder / "tone.md").write_text("Is the answer polite?\n\nYES: Gladly. NO: Go away.\n")
    (folder / "depth.md").write_text("---\nscale: 1-5\n---\nHow deep is the answer?\n")
    return folder


def run(
    agent: Callable[..., Any], criteria: Path, tmp_path: Path, judge: Any = None, **settings: Any
) -> Run:
    return assay.evaluate(
        agent,
        NOTES,
        num_queries=12,
        answers=True,
        judge=judge or Reads(),
        criteria=criteria,
        out=tmp_path / "runs",
        **settings,
    )


def test_a_run_has_ratings_gates_reasons_records_and_a_page(criteria: Path, tmp_path: Path) -> None:
    gates = ("CRITERION:Tone>=0.1", "criterion.tone>=0.99")
    outcome = run(kindly, criteria, tmp_path, gates=gates)
    assert [gate.passed for gate in outcome.report.gates] == [True, False]
    answers = outcome.report.answers
    assert answers is not None
    assert answers.trouble is None
    rows = list(outcome.folder.read_answers())
    kind = [row for row in rows if (row.answer or "").startswith("Gladly")]
    assert 0 < len(kind) < 12
    assert answers.metrics["criterion.tone"] == pytest.approx(len(kind) / 12)
    assert {row.score("criterion.depth") for row in rows} == {0.25, 1.0}
    assert kind[0].reasons["criterion.tone"] == "Because of <b>Gladly</b>."
    depth, tone = answers.criteria
    assert (tone.name, tone.judge, tone.rated, tone.differing) == ("tone", "test:reads", 12, 0)
    assert (depth.levels, depth.undecided) == (["1", "2", "3", "4", "5"], 0)
    page = outcome.folder.page_file.read_text()
    assert "Criterion.tone" in page
    assert "Because of &lt;b&gt;Gladly&lt;/b&gt;." in page
    judge = answers.judge
    assert judge is not None
    assert "judge_criterion" in judge.prompts


@pytest.mark.parametrize(
    ("gate", "given"), [("criterion.tone>=0.5", False), ("criterion.brevity>=0.5", True)]
)
def test_a_gate_on_no_criterion_is_refused(criteria: Path, gate: str, given: bool) -> None:
    config = RunConfig(
        target="x", answers=True, judge="ollama", gates=(gate,), criteria=str(criteria) * given
    )
    with pytest.raises(UsageError, match="needs a criterion of --criteria"):
        Evaluation.plan(config, NOTES)


def test_runs_are_compared_by_criteria_that_ask_the_same(criteria: Path, tmp_path: Path) -> None:
    kind = run(kindly, criteria, tmp_path)
    (criteria / "depth.md").write_text("---\nscale: 1-5\n---\nHow profound is the answer?\n")
    curt = run(curtly, criteria, tmp_path)
    compared = curt.compare(kind).metrics
    assert compared["criterion.tone"].difference < 0
    assert "criterion.depth" not in compared


def test_a_judge_that_depends_on_the_order_is_not_believed(criteria: Path, tmp_path: Path) -> None:
    outcome = run(kindly, criteria, tmp_path, Reads(unsteady=True), gates="criterion.tone>=0")
    answers = outcome.report.answers
    assert answers is not None
    assert outcome.state == "not judged"
    assert "criterion 'tone': the judge contradicted itself about 12 of 12 answers" in str(
        answers.trouble
    )
    assert not [name for name in answers.metrics if name.startswith("criterion")]
    assert answers.metrics["correctness"] == 1.0
    assert not outcome.gates_passed


async def test_ratings_that_failed_are_made_on_resume(criteria: Path, tmp_path: Path) -> None:
    config = RunConfig(
        "python:x", "notes", num_queries=4, answers=True, judge="j", criteria=str(criteria)
    )
    evaluation = replace(Evaluation.plan(config, NOTES), provider=Reads(failing=True))
    first = await evaluation.start(PythonAgent(kindly, name="python:x"), tmp_path / "runs")
    assert first.state == "not judged"
    again = replace(evaluation, provider=Reads())
    done = await again.resume(PythonAgent(kindly, name="python:x"), first.folder)
    assert done.report.answers is not None
    assert "criterion.tone" in done.report.answers.metrics


def test_reasons_are_not_kept_in_a_private_run(criteria: Path, tmp_path: Path) -> None:
    outcome = run(kindly, criteria, tmp_path, private=True)
    rows = list(outcome.folder.read_answers())
    assert {tuple(row.reasons) for row in rows} == {()}
    assert rows[0].score("criterion.tone") is not None
    assert "Because of" not in outcome.folder.page_file.read_text()
