"""Answers that a judge decides on: what its word counts for, and what is left without it."""

import asyncio
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.evaluation.town import Scripted, diagnosis_of, judge_of, perfect, rows_of, run, section

from assay.data import Dataset
from assay.errors import (
    BudgetExceeded,
)
from assay.evaluation.evaluation import Evaluation, Events
from assay.metrics.answer_values import JudgeControls
from assay.report.terminal import plain_text, render_answers
from assay.run.config import JudgeSettings, RunConfig
from assay.targets import PythonAgent

FIGURES = (r"7:00", r"2\.80")


@pytest.mark.parametrize(
    ("word", "why"),
    [
        ("TRUE", "accepted 2 of 2 wrong texts"),
        ("FALSE", "rejected 2 of 2 correct texts"),
        ("Well.", "gave no verdict for 4 of 4 controls"),
    ],
)
def test_a_judge_that_says_one_thing_about_everything_fails_its_controls(
    town: Dataset, tmp_path: Path, word: str, why: str
) -> None:
    judge = Scripted(word)
    outcome = run(
        perfect, town, tmp_path, judge=judge, judge_set={"controls": 5}, gates="fact_recall>=0"
    )
    answers = section(outcome)
    assert outcome.state == "not judged"
    assert why in str(answers.trouble)
    assert "correctness" not in answers.metrics
    assert not outcome.gates_passed
    assert judge.asked == 8, "the answers are not judged any more: that would cost for nothing"


def test_a_judge_that_reads_passes_its_controls(town: Dataset, tmp_path: Path) -> None:
    class Reads(Scripted):
        async def generate(self, prompt: str, max_tokens: int = 100) -> str:
            if "Ground Truth" not in prompt:
                return "TRUE"
            return (
                "TRUE" if all(len(re.findall(said, prompt)) != 1 for said in FIGURES) else "FALSE"
            )

    answers = section(run(perfect, town, tmp_path, judge=Reads(""), judge_set={"controls": 5}))
    assert judge_of(answers).controls == JudgeControls(
        same=2,
        same_right=2,
        different=2,
        different_right=2,
        altered=1,
        altered_believed=0,
        alterable=1,
    )  # one that was changed decides nothing, and the reader is told
    assert answers.metrics["correctness"] == 1.0
    untested = "not tested on references with one thing changed, because only one reference has"
    assert untested in diagnosis_of(answers).sentence
    shown = " ".join(plain_text(render_answers(answers)).split())
    assert shown.count(untested) == 2, "beside the judge, and in the sentence"
    answers = section(run(perfect, town, tmp_path, judge=Reads(""), judge_set={"controls": 0}))
    assert "not tested" not in diagnosis_of(answers).sentence, "nobody asked for controls"


def test_a_judge_decides_where_there_is_one(town: Dataset, tmp_path: Path) -> None:
    outcome = run(perfect, town, tmp_path, judge=Scripted("FALSE"), judge_set="votes=1,controls=0")
    answers = section(outcome)
    assert answers.metrics["correctness"] == pytest.approx(1 / 3)  # declining is correct by rule
    assert answers.metrics["judged_faithfulness"] == 0.0
    assert answers.correctness_by == "judged by scripted, 2 votes, half with the texts swapped"
    assert judge_of(answers).judged == 2
    assert judge_of(answers).decided_by_rule == 1
    assert rows_of(outcome)["open"].votes == ["false", "false"]
    assert rows_of(outcome)["mayor"].votes is None


def test_points_are_of_all_questions_those_undecided_among_them(
    town: Dataset, tmp_path: Path
) -> None:
    class Half(Scripted):
        async def generate(self, prompt: str, max_tokens: int = 100) -> str:
            return "FALSE" if "7:00" in prompt else "Hm."

    outcome = run(perfect, town, tmp_path, judge=Half(""))
    diagnosis = diagnosis_of(section(outcome))
    assert (diagnosis.questions, diagnosis.wrong, diagnosis.undecided) == (3, 1, 1)
    assert diagnosis.points["generation"] == pytest.approx(100 / 3)
    assert "1 of 1 wrong answers" in diagnosis.sentence
    assert "1 of 3 questions are undecided" in diagnosis.sentence


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (RuntimeError("no such model"), "raised RuntimeError: no such model"),
        (None, "replied with a NoneType, not a string"),
    ],
)
def test_a_judge_of_the_caller_s_that_breaks_does_not_cost_the_run(
    town: Dataset, tmp_path: Path, reply: Any, words: str
) -> None:
    class Broken:
        name = "own:model"

        async def generate(self, prompt: str, max_tokens: int = 100) -> Any:
            if isinstance(reply, Exception):
                raise reply
            return reply

    outcome = run(perfect, town, tmp_path, judge=Broken())
    assert outcome.state == "not judged"
    answers = outcome.report.answers
    assert answers is not None
    assert answers.trouble == f"the judge 'own:model' {words}"


def test_a_judge_that_fails_costs_nothing_that_needs_no_judge(
    town: Dataset, tmp_path: Path
) -> None:
    gates = ("correctness>=0", "judged_faithfulness<=1")
    outcome = run(perfect, town, tmp_path, judge=Scripted("TRUE", failing=1), gates=gates)
    answers = section(outcome)
    assert outcome.state == "not judged"
    assert answers.trouble == "the judge is not there"
    assert answers.metrics["fact_recall"] == 1.0
    assert outcome.metrics["ndcg@5"] == 1.0
    assert not {"correctness", "judged_faithfulness"} & answers.metrics.keys()
    assert answers.diagnosis is None
    assert [(gate.value, gate.passed) for gate in outcome.report.gates] == [(None, False)] * 2


def test_correctness_by_a_judge_is_not_compared_with_correctness_by_facts(
    town: Dataset, tmp_path: Path
) -> None:
    by_facts = run(perfect, town, tmp_path)
    by_judge = run(perfect, town, tmp_path, judge=Scripted("TRUE"))
    comparison = by_judge.compare(by_facts)
    assert "correctness" not in comparison.metrics
    assert any("correctness was measured in two ways" in each for each in comparison.warnings)


async def test_a_run_that_is_stopped_while_it_is_judged_can_be_resumed(
    town: Dataset, tmp_path: Path
) -> None:
    stop = asyncio.Event()

    class Stopping(Scripted):
        async def generate(self, prompt: str, max_tokens: int = 100) -> str:
            stop.set()
            await asyncio.sleep(60)
            raise AssertionError("the judge is not waited for")

    config = RunConfig(
        target="python:x", answers=True, judge="scripted", judge_set=JudgeSettings(controls=0)
    )
    evaluation = replace(Evaluation.plan(config, town), provider=Stopping("TRUE"))
    agent = PythonAgent(perfect, name="python:x")
    stopped = await evaluation.start(agent, tmp_path, events=Events(stop=stop))
    assert stopped.state == "interrupted"
    assert section(stopped).trouble == "interrupted before all answers were judged"

    evaluation = replace(evaluation, provider=Scripted("TRUE"))
    resumed = await evaluation.resume(PythonAgent(perfect, name="python:x"), stopped.folder)
    assert resumed.state == "complete"
    assert section(resumed).metrics["correctness"] == 1.0


def test_a_budget_that_ends_keeps_the_run(town: Dataset, tmp_path: Path) -> None:
    class Dear(Scripted):
        async def generate(self, prompt: str, max_tokens: int = 100) -> str:
            raise BudgetExceeded("1.00 US dollars are spent")

    outcome = run(perfect, town, tmp_path, judge=Dear("TRUE"), judge_set={"max_cost": 1.0})
    assert outcome.state == "not judged"
    assert section(outcome).trouble == "1.00 US dollars are spent"
