"""`--answers`: what is asked, how it is held against references, and whose fault a miss is."""

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.evaluation.town import (
    NOTHING,
    Reader,
    Scripted,
    diagnosis_of,
    perfect,
    rows_of,
    run,
    section,
)

from assay.data import Dataset
from assay.data.dataset import ReferenceAnswer
from assay.data.question_table import read_questions
from assay.errors import (
    RunError,
    UsageError,
)
from assay.evaluation.evaluation import Evaluation
from assay.evaluation.merge import merge, merged_config
from assay.evaluation.plan import draw_queries
from assay.evaluation.run import Run
from assay.llm.answerer import ModelAnswerer
from assay.metrics.answer_values import Quadrants
from assay.report.terminal import plain_text, render_answers
from assay.run.answers import (
    AnswersReport,
    BadId,
)
from assay.run.config import RunConfig
from assay.targets import PythonAgent


def test_a_question_without_an_answer_is_asked_and_not_ranked(
    town: Dataset, tmp_path: Path
) -> None:
    asked = draw_queries(town, RunConfig(target="x"))
    assert [query.id for query in asked] == ["open", "ride"]
    outcome = run(perfect, town, tmp_path)
    assert outcome.report.summary.total_queries == 2
    assert outcome.metrics["ndcg@5"] == 1.0
    answers = section(outcome)
    assert (answers.questions, answers.unanswerable) == (3, 1)
    assert answers.metrics["correctness"] == 1.0
    assert answers.metrics["abstention"] == 1.0
    assert diagnosis_of(answers).sentence == "Nothing to fix: all 3 questions are right."


def test_inventing_does_not_pay(town: Dataset, tmp_path: Path) -> None:
    """One right answer each: the one declines the rest, the other invents it."""

    def agent(rest: str) -> Callable[[str, int], dict[str, Any]]:
        def answer(query: str, top_k: int) -> dict[str, Any]:
            if "open" in query:
                return perfect(query, top_k)
            return {"doc_ids": ["zoo"], "answer": rest, "citations": ["zoo"]}

        return answer

    def ended(answers: AnswersReport) -> dict[str, int]:
        return {name: number for name, number in answers.outcomes.items() if number}

    careful, bold = (section(run(agent(rest), town, tmp_path)) for rest in (NOTHING, "An otter."))
    assert ended(careful) == {"right": 2, "declined": 1}
    assert ended(bold) == {"right": 1, "wrong": 2}
    assert careful.metrics["truthfulness"] == pytest.approx(2 / 3)
    assert bold.metrics["truthfulness"] == pytest.approx(-1 / 3)
    assert (careful.metrics["abstention"], bold.metrics["abstention"]) == (1.0, 0.0)


def test_a_gate_that_fails_is_in_the_sentence(town: Dataset, tmp_path: Path) -> None:
    gates = ("truthfulness>=0.1", "ndcg@5>=0.1", "correctness>=0.1")
    outcome = run(Reader(), town, tmp_path, gates=gates)
    assert diagnosis_of(section(outcome)).sentence.endswith(
        "Gate failed: truthfulness>=0.1 (got -1.0000); correctness>=0.1 (got 0.0000)."
    )


def test_references_without_key_facts_leave_their_questions_undecided(
    town: Dataset, tmp_path: Path
) -> None:
    bare = {
        name: replace(each, facts=(), answer=each.answer and "As the sign at the gate says.")
        for name, each in town.answers.items()
    }
    outcome = run(perfect, replace(town, answers=bare), tmp_path)
    answers = section(outcome)
    what = (
        "2 of 3 questions are undecided: the references have no key facts or values; add --judge, "
        "or facts"
    )
    assert diagnosis_of(answers).sentence.startswith(f"{what} in answers.jsonl.")
    printed = " ".join(plain_text(render_answers(answers)).split())
    assert printed.count(what) == 1  # the sentence says it
    page = (outcome.folder.path / "report.html").read_text()
    assert what in page
    assert "every key fact stated" not in printed + page.partition("Answers: all metrics")[0]
    judged = section(run(perfect, replace(town, answers=bare), tmp_path, judge=Scripted("TRUE")))
    assert judged.undecided is None
    assert diagnosis_of(judged).sentence.startswith("Nothing to fix")


def test_questions_of_a_table_without_a_reference_are_counted(tmp_path: Path) -> None:
    table = tmp_path / "questions.csv"
    rows = ["When does the pool open?,pool,At 7:00.", "Who is the mayor?,,", "Where is it?,pool,"]
    table.write_text("\n".join(["question,doc_ids,answer", *rows]))
    outcome = run(perfect, read_questions(table), tmp_path)
    answers = section(outcome)
    assert (answers.questions, answers.without_reference) == (1, 2)
    what = "2 more questions are not asked: no reference answer; write it"
    assert what in " ".join(plain_text(render_answers(answers)).split())
    assert what in (outcome.folder.path / "report.html").read_text()
    table.write_text("\n".join(["question,doc_ids,answer", rows[0]]))
    assert section(run(perfect, read_questions(table), tmp_path)).not_asked is None


def test_questions_with_a_reference_and_no_expected_ids_are_asked(tmp_path: Path) -> None:
    table = tmp_path / "questions.csv"
    rows = ["When does the pool open?,pool,At 7:00.", "Who is the mayor?,,Ada Moss"]
    table.write_text("\n".join(["question,doc_ids,answer", *rows]))
    judge = Scripted("FALSE")
    outcome = run(perfect, read_questions(table), tmp_path, judge=judge, judge_set={"controls": 0})
    answers = section(outcome)
    assert (answers.questions, answers.not_asked) == (2, None)
    counted = {name: answers.statistics[name].n for name in ("correctness", "context_recall")}
    assert counted == {"correctness": 2, "context_recall": 1}
    (mayor,) = (each for each in rows_of(outcome).values() if "mayor" in each.query_text)
    assert mayor.diagnosis is not None
    assert mayor.diagnosis.why.startswith("no expected ids, so retrieval and generation cannot")
    assert mayor.diagnosis.half is None
    assert sum(diagnosis_of(answers).quadrants.model_dump().values()) == 1
    assert diagnosis_of(answers).points["generation"] == 50.0
    table.write_text("\n".join(["question,doc_ids,answer", rows[1]]))
    with pytest.raises(UsageError, match="none of the 1 questions drawn for questions has an"):
        run(perfect, read_questions(table), tmp_path)


def test_each_kind_of_miss_is_told_apart(town: Dataset, tmp_path: Path) -> None:
    def misses(query: str, top_k: int) -> dict[str, Any]:
        if "open" in query:  # the evidence is there
            return {"doc_ids": ["pool"], "answer": "It opens at noon.", "citations": ["pool"]}
        if "ride" in query:  # half of the evidence is not
            return {"doc_ids": ["bus"], "answer": "It is cheap.", "citations": ["bus", "ghost"]}
        return {"doc_ids": ["zoo"], "answer": "An otter.", "citations": ["zoo"]}

    outcome = run(misses, town, tmp_path)
    failures = {
        name: row.diagnosis.failure for name, row in rows_of(outcome).items() if row.diagnosis
    }
    assert failures == {
        "open": "retrieved but unused",
        "ride": "retrieval missed",
        "mayor": "should have abstained",
    }
    answers = section(outcome)
    assert answers.invented_citations.ids == 1
    assert answers.invented_citations.examples == [BadId(query_id="ride", doc_id="ghost")]
    assert diagnosis_of(answers).quadrants == Quadrants(
        evidence_right=0, evidence_wrong=1, no_evidence_right=0, no_evidence_wrong=1
    )


def test_an_agent_that_does_not_answer_keeps_its_ranking(town: Dataset, tmp_path: Path) -> None:
    outcome = run(lambda query, top_k: perfect(query, top_k)["doc_ids"], town, tmp_path)
    assert outcome.metrics["ndcg@5"] == 1.0
    assert section(outcome).answered == 0
    assert diagnosis_of(section(outcome)).counts == {"agent error": 3}
    assert section(outcome).metrics["context_recall"] == 1.0


async def test_shards_merge_to_the_undivided_run(town: Dataset, tmp_path: Path) -> None:
    async def part(index: int, number: int) -> Run:
        config = RunConfig(
            target="python:x",
            answers=True,
            counterfactuals=True,
            shard_index=index,
            num_shards=number,
        )
        agent = PythonAgent(Reader(), name="python:x")
        return await Evaluation.plan(config, town).start(agent, tmp_path)

    shards = [(await part(index, 2)).folder for index in range(2)]
    merged = await merge(shards, merged_config(shards), town, tmp_path)
    whole = await part(0, 1)
    assert section(merged) == section(whole)
    assert section(merged).counterfactuals is not None


def test_references_may_come_from_a_file(town: Dataset, tmp_path: Path) -> None:
    truth = {
        "query_id": "open",
        "query_text": "When does the pool open?",
        "ground_truth_answer": "At seven.",
        "expected_document_ids": ["pool"],
        "highly_relevant_count": 1,
    }
    path = tmp_path / "ground_truth.json"
    path.write_text(json.dumps([truth]))
    bare = replace(town, answers={})
    outcome = run(perfect, bare, tmp_path, judge=Scripted("TRUE"), references=(str(path),))
    assert section(outcome).questions == 1
    assert rows_of(outcome)["open"].reference_answer == "At seven."
    assert section(outcome).metrics["correctness"] == 1.0


async def test_without_documents_a_model_answers_from_memory() -> None:
    class Remembering(Scripted):
        async def generate(self, prompt: str, max_tokens: int = 100) -> str:
            return "By heart: 7:00." if "<document" not in prompt else "NOT FOUND"

    answerer = ModelAnswerer(Remembering(""))
    from_memory = await answerer.answer_from_memory("When does the pool open?", 100)
    assert from_memory.text == "By heart: 7:00."


def test_a_run_is_not_resumed_with_other_references(town: Dataset, tmp_path: Path) -> None:
    folder = run(perfect, town, tmp_path).folder
    other = replace(town, answers={**town.answers, "open": ReferenceAnswer("open", "At noon.")})
    evaluation = Evaluation.plan(folder.read_config(), other)
    with pytest.raises(RunError, match="other reference answers"):
        asyncio.run(evaluation.resume(PythonAgent(perfect, name="x"), folder))
