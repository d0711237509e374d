"""`--answers`: what is asked, what references and a judge decide, and whose fault a miss is."""

import asyncio
import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.evaluation.town import (
    NOTHING,
    TOWN,
    Reader,
    Scripted,
    diagnosis_of,
    judge_of,
    perfect,
    rows_of,
    run,
    section,
)

from assay.data import Query
from assay.data.dataset import ReferenceAnswer
from assay.data.question_table import read_questions
from assay.errors import BudgetExceeded, ProviderError, ProviderFailure, RunError, UsageError
from assay.evaluation.evaluation import Evaluation, Events
from assay.evaluation.merge import merge, merged_config
from assay.evaluation.plan import draw_queries
from assay.evaluation.run import Run
from assay.metrics.answer_values import JudgeControls, Quadrants
from assay.run.answers import AnswersReport, BadId, CounterfactualCount
from assay.run.config import JudgeSettings, RunConfig
from assay.targets import PythonAgent


def test_a_question_without_an_answer_is_asked_and_not_ranked(tmp_path: Path) -> None:
    asked = draw_queries(TOWN, RunConfig(target="x"))
    assert [query.id for query in asked] == ["open", "ride"]
    outcome = run(perfect, TOWN, tmp_path)
    assert outcome.report.summary.total_queries == 2
    assert outcome.metrics["ndcg@5"] == 1.0
    answers = section(outcome)
    assert (answers.questions, answers.unanswerable) == (3, 1)
    assert answers.metrics["correctness"] == 1.0
    assert answers.metrics["abstention"] == 1.0
    assert diagnosis_of(answers).sentence == "Nothing to fix: all 3 questions are right."


def test_inventing_does_not_pay(tmp_path: Path) -> None:
    """One right answer each: the one declines the rest, the other invents it."""

    def agent(rest: str) -> Callable[[str, int], dict[str, Any]]:
        def answer(query: str, top_k: int) -> dict[str, Any]:
            if "open" in query:
                return perfect(query, top_k)
            return {"doc_ids": ["zoo"], "answer": rest, "citations": ["zoo"]}

        return answer

    def ended(answers: AnswersReport) -> dict[str, int]:
        return {name: number for name, number in answers.outcomes.items() if number}

    careful, bold = (section(run(agent(rest), TOWN, tmp_path)) for rest in (NOTHING, "An otter."))
    assert ended(careful) == {"right": 2, "declined": 1}
    assert ended(bold) == {"right": 1, "wrong": 2}
    assert careful.metrics["truthfulness"] == pytest.approx(2 / 3)
    assert bold.metrics["truthfulness"] == pytest.approx(-1 / 3)
    assert (careful.metrics["abstention"], bold.metrics["abstention"]) == (1.0, 0.0)


def test_a_gate_that_fails_is_in_the_sentence(tmp_path: Path) -> None:
    gates = ("truthfulness>=0.1", "ndcg@5>=0.1", "correctness>=0.1")
    outcome = run(Reader(), TOWN, tmp_path, gates=gates)
    assert diagnosis_of(section(outcome)).sentence.endswith(
        "Gate failed: truthfulness>=0.1 (got -1.0000); correctness>=0.1 (got 0.0000)."
    )


def test_references_without_key_facts_leave_their_questions_undecided(tmp_path: Path) -> None:
    bare = {
        name: replace(each, facts=(), answer=each.answer and "As the sign at the gate says.")
        for name, each in TOWN.answers.items()
    }
    answers = section(run(perfect, replace(TOWN, answers=bare), tmp_path))
    assert answers.undecided is not None
    assert (answers.undecided.number, answers.undecided.of) == (2, 3)
    assert "the references have no key facts or values; add --judge" in answers.undecided.why
    assert "2 of 3 questions are undecided" in diagnosis_of(answers).sentence
    judged = section(run(perfect, replace(TOWN, answers=bare), tmp_path, judge=Scripted("TRUE")))
    assert judged.undecided is None
    assert diagnosis_of(judged).sentence.startswith("Nothing to fix")


def test_questions_of_a_table_without_a_reference_are_counted(tmp_path: Path) -> None:
    table = tmp_path / "questions.csv"
    rows = ["When does the pool open?,pool,At 7:00.", "Who is the mayor?,,", "Where is it?,pool,"]
    table.write_text("\n".join(["question,doc_ids,answer", *rows]))
    outcome = run(perfect, read_questions(table), tmp_path)
    answers = section(outcome)
    assert answers.questions == 1
    assert "2 more questions are not asked: no reference answer" in str(answers.note)
    table.write_text("\n".join(["question,doc_ids,answer", rows[0]]))
    assert section(run(perfect, read_questions(table), tmp_path)).note is None


def test_questions_with_a_reference_and_no_expected_ids_are_asked(tmp_path: Path) -> None:
    table = tmp_path / "questions.csv"
    rows = ["When does the pool open?,pool,At 7:00.", "Who is the mayor?,,Ada Moss"]
    table.write_text("\n".join(["question,doc_ids,answer", *rows]))
    judge = Scripted("FALSE")
    outcome = run(perfect, read_questions(table), tmp_path, judge=judge, judge_set={"controls": 0})
    answers = section(outcome)
    assert (answers.questions, answers.note) == (2, None)
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


def test_each_kind_of_miss_is_told_apart(tmp_path: Path) -> None:
    def misses(query: str, top_k: int) -> dict[str, Any]:
        if "open" in query:  # the evidence is there
            return {"doc_ids": ["pool"], "answer": "It opens at noon.", "citations": ["pool"]}
        if "ride" in query:  # half of the evidence is not
            return {"doc_ids": ["bus"], "answer": "It is cheap.", "citations": ["bus", "ghost"]}
        return {"doc_ids": ["zoo"], "answer": "An otter.", "citations": ["zoo"]}

    outcome = run(misses, TOWN, tmp_path)
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


def test_an_agent_that_does_not_answer_keeps_its_ranking(tmp_path: Path) -> None:
    outcome = run(lambda query, top_k: perfect(query, top_k)["doc_ids"], TOWN, tmp_path)
    assert outcome.metrics["ndcg@5"] == 1.0
    assert section(outcome).answered == 0
    assert diagnosis_of(section(outcome)).counts == {"agent error": 3}
    assert section(outcome).metrics["context_recall"] == 1.0


async def test_shards_merge_to_the_undivided_run(tmp_path: Path) -> None:
    async def part(index: int, number: int) -> Run:
        config = RunConfig(
            target="python:x",
            answers=True,
            counterfactuals=True,
            shard_index=index,
            num_shards=number,
        )
        agent = PythonAgent(Reader(), name="python:x")
        return await Evaluation.plan(config, TOWN).start(agent, tmp_path)

    shards = [(await part(index, 2)).folder for index in range(2)]
    merged = await merge(shards, merged_config(shards), TOWN, tmp_path)
    whole = await part(0, 1)
    assert section(merged) == section(whole)
    assert section(merged).counterfactuals is not None


def test_references_may_come_from_a_file(tmp_path: Path) -> None:
    truth = {
        "query_id": "open",
        "query_text": "When does the pool open?",
        "ground_truth_answer": "At seven.",
        "expected_document_ids": ["pool"],
        "highly_relevant_count": 1,
    }
    path = tmp_path / "ground_truth.json"
    path.write_text(json.dumps([truth]))
    bare = replace(TOWN, answers={})
    outcome = run(perfect, bare, tmp_path, judge=Scripted("TRUE"), references=(str(path),))
    assert section(outcome).questions == 1
    assert rows_of(outcome)["open"].reference_answer == "At seven."
    assert section(outcome).metrics["correctness"] == 1.0


def test_a_run_is_not_resumed_with_other_references(tmp_path: Path) -> None:
    folder = run(perfect, TOWN, tmp_path).folder
    other = replace(TOWN, answers={**TOWN.answers, "open": ReferenceAnswer("open", "At noon.")})
    evaluation = Evaluation.plan(folder.read_config(), other)
    with pytest.raises(RunError, match="other reference answers"):
        asyncio.run(evaluation.resume(PythonAgent(perfect, name="x"), folder))


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
    tmp_path: Path, word: str, why: str
) -> None:
    judge = Scripted(word)
    outcome = run(
        perfect, TOWN, tmp_path, judge=judge, judge_set={"controls": 5}, gates="fact_recall>=0"
    )
    answers = section(outcome)
    assert outcome.state == "not judged"
    assert why in str(answers.trouble)
    assert "correctness" not in answers.metrics
    assert not outcome.gates_passed
    assert judge.asked == 8, "the answers are not judged any more: that would cost for nothing"


def test_a_judge_that_reads_passes_its_controls(tmp_path: Path) -> None:
    class Reads(Scripted):
        async def generate(self, prompt: str, max_tokens: int = 100) -> str:
            if "Ground Truth" not in prompt:
                return "TRUE"
            return (
                "TRUE" if all(len(re.findall(said, prompt)) != 1 for said in FIGURES) else "FALSE"
            )

    answers = section(run(perfect, TOWN, tmp_path, judge=Reads(""), judge_set={"controls": 5}))
    controls = judge_of(answers).controls
    assert controls == JudgeControls(
        same=2, same_right=2, different=2, different_right=2, altered=1, altered_believed=0
    )
    # One that was changed decides nothing, and the reader is told.
    assert controls.words == "5 of 5 controls right, 1 of them with one thing changed"
    assert answers.metrics["correctness"] == 1.0


def test_a_judge_decides_where_there_is_one(tmp_path: Path) -> None:
    outcome = run(perfect, TOWN, tmp_path, judge=Scripted("FALSE"), judge_set="votes=1,controls=0")
    answers = section(outcome)
    assert answers.metrics["correctness"] == pytest.approx(1 / 3)  # declining is correct by rule
    assert answers.metrics["judged_faithfulness"] == 0.0
    assert answers.correctness_by == "judged by scripted, 2 votes, half with the texts swapped"
    assert judge_of(answers).judged == 2
    assert judge_of(answers).decided_by_rule == 1
    assert rows_of(outcome)["open"].votes == ["false", "false"]
    assert rows_of(outcome)["mayor"].votes is None


def test_points_are_of_all_questions_those_undecided_among_them(tmp_path: Path) -> None:
    class Half(Scripted):
        async def generate(self, prompt: str, max_tokens: int = 100) -> str:
            return "FALSE" if "7:00" in prompt else "Hm."

    outcome = run(perfect, TOWN, tmp_path, judge=Half(""))
    diagnosis = diagnosis_of(section(outcome))
    assert (diagnosis.questions, diagnosis.wrong, diagnosis.undecided) == (3, 1, 1)
    assert diagnosis.points["generation"] == pytest.approx(100 / 3)
    assert "1 of 1 wrong answers" in diagnosis.sentence
    assert "1 of 3 questions are undecided" in diagnosis.sentence


@pytest.mark.parametrize(
    ("reply", "trouble"),
    [
        (RuntimeError("no such model"), "the judge 'scripted' raised RuntimeError: no such model"),
        (None, "the judge 'scripted' replied with a NoneType, not a string"),
        (ProviderError(ProviderFailure.CONNECTION, "it is not there"), "it is not there"),
        (BudgetExceeded("1.00 US dollars are spent"), "1.00 US dollars are spent"),
    ],
)
def test_a_judge_that_fails_costs_nothing_that_needs_no_judge(
    reply: Any, trouble: str, tmp_path: Path
) -> None:
    class Broken(Scripted):
        async def generate(self, prompt: str, max_tokens: int = 100) -> Any:
            self.asked += 1
            if self.asked > 1 and isinstance(reply, Exception):
                raise reply
            return "TRUE" if self.asked == 1 else reply

    gates = ("correctness>=0", "judged_faithfulness<=1")
    outcome = run(perfect, TOWN, tmp_path, judge=Broken(""), gates=gates)
    answers = section(outcome)
    assert (outcome.state, answers.trouble) == ("not judged", trouble)
    assert answers.metrics["fact_recall"] == 1.0
    assert outcome.metrics["ndcg@5"] == 1.0
    assert not {"correctness", "judged_faithfulness"} & answers.metrics.keys()
    assert answers.diagnosis is None
    assert [(gate.value, gate.passed) for gate in outcome.report.gates] == [(None, False)] * 2


def test_correctness_by_a_judge_is_not_compared_with_correctness_by_facts(tmp_path: Path) -> None:
    by_facts = run(perfect, TOWN, tmp_path)
    by_judge = run(perfect, TOWN, tmp_path, judge=Scripted("TRUE"))
    comparison = by_judge.compare(by_facts)
    assert "correctness" not in comparison.metrics
    assert any("correctness was measured in two ways" in each for each in comparison.warnings)


async def test_a_run_that_is_stopped_while_it_is_judged_can_be_resumed(tmp_path: Path) -> None:
    stop = asyncio.Event()

    class Stopping(Scripted):
        async def generate(self, prompt: str, max_tokens: int = 100) -> str:
            stop.set()
            await asyncio.sleep(60)
            raise AssertionError("the judge is not waited for")

    config = RunConfig(
        target="python:x", answers=True, judge="scripted", judge_set=JudgeSettings(controls=0)
    )
    evaluation = replace(Evaluation.plan(config, TOWN), provider=Stopping("TRUE"))
    agent = PythonAgent(perfect, name="python:x")
    stopped = await evaluation.start(agent, tmp_path, events=Events(stop=stop))
    assert stopped.state == "interrupted"
    assert section(stopped).trouble == "interrupted before all answers were judged"

    evaluation = replace(evaluation, provider=Scripted("TRUE"))
    resumed = await evaluation.resume(PythonAgent(perfect, name="python:x"), stopped.folder)
    assert resumed.state == "complete"
    assert section(resumed).metrics["correctness"] == 1.0


def test_an_agent_that_ignores_its_context_is_told_so_and_not_advised_again(tmp_path: Path) -> None:
    def stubborn(query: str, top_k: int, context: object = None) -> dict[str, Any]:
        return {"doc_ids": ["zoo"], "answer": "The otters know it well.", "citations": ["zoo"]}

    answers = section(run(stubborn, TOWN, tmp_path, counterfactuals=True))
    assert answers.findings[0].kind == "ignores-context"
    sentence = diagnosis_of(answers).sentence
    assert "all 2 questions that were asked again got the same answer" in answers.findings[0].words
    assert "--counterfactuals" not in sentence


def test_counterfactuals_settle_whose_fault_it_is(tmp_path: Path) -> None:
    reader = Reader()
    outcome = run(reader, TOWN, tmp_path, counterfactuals=True)
    tried = section(outcome).counterfactuals
    assert tried == {
        "gold": CounterfactualCount(asked=2, right=2),
        "no_context": CounterfactualCount(asked=2, right=0),
        "distractors": CounterfactualCount(asked=2, right=2),
    }
    row = rows_of(outcome)["ride"]
    assert row.diagnosis is not None
    assert row.diagnosis.half == "retrieval"
    assert row.diagnosis.settled
    with_gold = [ids for query, ids in reader.contexts if "ride" in query and len(ids) == 2]
    assert with_gold == [["bus", "fare"]]
    mixed = next(ids for query, ids in reader.contexts if "ride" in query and len(ids) > 2)
    assert set(mixed) > {"bus", "fare"}


def test_counterfactuals_that_were_asked_are_not_asked_again(tmp_path: Path) -> None:
    reader = Reader()
    outcome = run(reader, TOWN, tmp_path, counterfactuals=True)
    asked = len(reader.contexts)
    none = outcome.folder.path / "calls-none.jsonl"
    none.write_bytes(none.read_bytes().splitlines(keepends=True)[0] + b'{"query_id": "ri')  # torn

    evaluation = Evaluation.plan(outcome.folder.read_config(), TOWN)
    agent = PythonAgent(reader, name="python:reader")
    again = asyncio.run(evaluation.resume(agent, outcome.folder))
    assert len(reader.contexts) == asked + 1
    assert section(again) == outcome.report.answers


def test_an_agent_that_takes_no_context_is_not_asked_again(tmp_path: Path) -> None:
    outcome = run(perfect, TOWN, tmp_path, counterfactuals=True)
    assert section(outcome).counterfactuals is None
    assert not list(outcome.folder.path.glob("calls-*.jsonl"))


def test_a_target_that_dies_while_it_is_asked_again_can_be_resumed(tmp_path: Path) -> None:
    class Dying(Reader):
        well = False

        def __call__(
            self, query: str, top_k: int, context: list[dict[str, str]] | None = None
        ) -> dict[str, Any]:
            if context is not None and not self.well:
                raise ConnectionRefusedError("gone")
            return super().__call__(query, top_k, context)

    names = [f"open{n}" for n in range(30)]
    many = replace(
        TOWN,
        queries={**TOWN.queries, **{name: Query(name, "When open?") for name in names}},
        judgments={"test": {**TOWN.judgments["test"], **{name: {"pool": 1} for name in names}}},
        answers={
            **TOWN.answers,
            **{name: replace(TOWN.answers["open"], query_id=name) for name in names},
        },
    )
    reader = Dying()
    config = RunConfig(target="python:x", answers=True, counterfactuals=True, retries=0)
    evaluation = replace(Evaluation.plan(config, many), probe_pauses=(0.0,))
    said: list[str] = []
    listener = Events(message=said.append)
    agent = PythonAgent(reader, name="x")
    lost = asyncio.run(evaluation.start(agent, tmp_path, events=listener))
    assert lost.state == "target lost"
    assert said[-1] == "the target is still unreachable; giving up"
    reader.well = True
    resumed = asyncio.run(evaluation.resume(PythonAgent(reader, name="x"), lost.folder))
    assert resumed.state == "complete"
    tried = section(resumed).counterfactuals
    assert [each.asked for each in (tried or {}).values()] == [32, 32, 32]
