"""`--answers`: what is asked, how it is held against references, and whose fault a miss is."""

import asyncio
import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from assay.agents import PythonAgent
from assay.answer.answerer import ModelAnswerer
from assay.answer.passages import Passage
from assay.data import Dataset, Document, Query
from assay.data.dataset import Fact, ReferenceAnswer
from assay.errors import (
    BudgetExceeded,
    GateError,
    ProviderError,
    ProviderFailure,
    RunError,
    UsageError,
)
from assay.evaluation.api import evaluate
from assay.evaluation.evaluation import Evaluation, Listener
from assay.evaluation.merge import merge, merged_config
from assay.evaluation.plan import draw_queries
from assay.evaluation.run import Run
from assay.run.answers import (
    AnswersReport,
    CounterfactualCount,
    DiagnosisReport,
    InventedExample,
    JudgeControls,
    JudgeRecord,
    Quadrants,
)
from assay.run.config import RunConfig
from assay.run.models import AnswerRow

NOTHING = "The documents do not answer this question."


@pytest.fixture
def town() -> Dataset:
    """Two questions with an answer (the second needs two documents) and one without."""
    return Dataset(
        name="town",
        documents={
            "pool": Document("pool", "Pool", "The pool opens at 7:00."),
            "bus": Document("bus", "Bus", "Bus 4 goes to the pool."),
            "fare": Document("fare", "Fare", "A ride on bus 4 costs 2.80 euros."),
            "zoo": Document("zoo", "Zoo", "The zoo has a pool for otters."),
        },
        queries={
            "open": Query("open", "When does the pool open?"),
            "ride": Query("ride", "What does the ride to the pool cost?"),
            "mayor": Query("mayor", "Who is the mayor?"),
        },
        judgments={"test": {"open": {"pool": 2}, "ride": {"bus": 1, "fare": 2}}},
        answers={
            "open": ReferenceAnswer("open", "At 7:00.", (Fact("7:00", ("7:00",)),), ("pool",)),
            "ride": ReferenceAnswer(
                "ride", "2.80 euros by bus 4.", (Fact("2.80", ("2.80",)),), ("bus", "fare")
            ),
            "mayor": ReferenceAnswer("mayor", None),
        },
    )


def run(
    function: Callable[..., Any],
    dataset: Dataset,
    out: Path,
    judge: Any = "",
    **settings: Any,
) -> Run:
    if judge:  # most of the judges here say one thing about everything
        settings.setdefault("judge_controls", 0)
    return evaluate(function, dataset, out=out, judge=judge, answers=True, **settings)


def section(outcome: Run) -> AnswersReport:
    assert outcome.report.answers is not None
    return outcome.report.answers


def diagnosis_of(answers: AnswersReport) -> DiagnosisReport:
    assert answers.diagnosis is not None
    return answers.diagnosis


def judge_of(answers: AnswersReport) -> JudgeRecord:
    assert answers.judge is not None
    return answers.judge


def rows_of(outcome: Run) -> dict[str, AnswerRow]:
    return {row.query_id: row for row in outcome.folder.read_answers()}


def perfect(query: str, top_k: int) -> dict[str, Any]:
    if "open" in query:
        return {"doc_ids": ["pool"], "answer": "It opens at 7:00.", "citations": ["pool"]}
    if "ride" in query:
        answer = "The ride on bus 4 costs 2.80 euros."
        return {"doc_ids": ["fare", "bus"], "answer": answer, "citations": ["bus", "fare"]}
    return {"doc_ids": ["zoo"], "answer": NOTHING}


def test_a_question_without_an_answer_is_asked_and_not_ranked(
    town: Dataset, tmp_path: Path
) -> None:
    outcome = run(perfect, town, tmp_path)
    assert outcome.report.summary.total_queries == 2
    assert outcome.metrics["ndcg@5"] == 1.0
    answers = section(outcome)
    assert (answers.questions, answers.unanswerable) == (3, 1)
    assert answers.metrics["correctness"] == 1.0
    assert answers.metrics["abstention"] == 1.0
    assert diagnosis_of(answers).sentence == "Nothing to fix: all 3 questions are right."


async def test_keys_that_nothing_reads_are_named_once(town: Dataset, tmp_path: Path) -> None:
    def agent(query: str, top_k: int) -> dict[str, Any]:
        return {**perfect(query, top_k), "chunk_texts": ["The pool opens at 7:00."]}

    said: list[str] = []
    evaluation = Evaluation.plan(RunConfig(target="x", answers=True), town)
    target = PythonAgent(agent, name="python:x")
    await evaluation.start(target, tmp_path, listener=Listener(say=said.append))
    assert said == [
        "warning: the agent's answer has keys that are not read: 'chunk_texts'; an answer may have "
        "doc_ids, answer, citations and contexts"
    ]


def test_an_agent_that_ignores_its_context_is_told_so_and_not_advised_again(
    town: Dataset, tmp_path: Path
) -> None:
    def stubborn(query: str, top_k: int, context: object = None) -> dict[str, Any]:
        return {"doc_ids": ["zoo"], "answer": "The otters know it well.", "citations": ["zoo"]}

    answers = section(run(stubborn, town, tmp_path, counterfactuals=True))
    assert answers.findings[0].kind == "ignores its context"
    sentence = diagnosis_of(answers).sentence
    assert "all 2 questions that were asked again got the same answer" in sentence
    assert "--counterfactuals" not in sentence


def test_a_judge_that_always_says_true_is_not_praised(town: Dataset, tmp_path: Path) -> None:
    def wrong(query: str, top_k: int) -> dict[str, Any]:
        return {"doc_ids": ["zoo"], "answer": f"The otters know: {query}", "citations": ["zoo"]}

    answers = section(run(wrong, town, tmp_path, judge=Scripted("TRUE")))
    kinds = [finding.kind for finding in answers.findings]
    assert "judge against facts" in kinds
    assert "judged right and state none of the key facts" in diagnosis_of(answers).sentence


@pytest.mark.parametrize(
    ("word", "why"),
    [
        ("TRUE", "does not reject what another question's reference says in 2 of 2 controls"),
        ("FALSE", "does not find a reference right against itself in 2 of 2 controls"),
        ("Well.", "gave no verdict for 4 of 4 controls"),
    ],
)
def test_a_judge_that_says_one_thing_about_everything_fails_its_controls(
    town: Dataset, tmp_path: Path, word: str, why: str
) -> None:
    judge = Scripted(word)
    outcome = run(perfect, town, tmp_path, judge=judge, judge_controls=5, gates="fact_recall>=0")
    answers = section(outcome)
    assert outcome.state == "not judged"
    assert why in str(answers.trouble)
    assert "correctness" not in answers.metrics
    assert not outcome.gates_passed
    assert judge.asked == 8, "the answers are not judged any more: that would cost for nothing"


def test_a_judge_that_reads_passes_its_controls(town: Dataset, tmp_path: Path) -> None:
    class Reads(Scripted):
        async def generate(self, prompt: str, max_tokens: int = 100) -> str:
            if "STATED" in prompt or "Ground Truth" not in prompt:
                return "STATED" if "STATED" in prompt else "TRUE"
            return (
                "TRUE" if all(len(re.findall(said, prompt)) != 1 for said in FIGURES) else "FALSE"
            )

    answers = section(run(perfect, town, tmp_path, judge=Reads(""), judge_controls=5))
    assert judge_of(answers).controls == JudgeControls(
        same=2, same_right=2, different=2, different_right=2
    )
    assert answers.metrics["correctness"] == 1.0


FIGURES = (r"7:00", r"2\.80")


def test_inventing_does_not_pay(town: Dataset, tmp_path: Path) -> None:
    """One right answer each: the one declines the rest, the other invents it."""

    def agent(rest: str) -> Callable[[str, int], dict[str, Any]]:
        def answer(query: str, top_k: int) -> dict[str, Any]:
            if "open" in query:
                return perfect(query, top_k)
            return {"doc_ids": ["zoo"], "answer": rest, "citations": ["zoo"]}

        return answer

    careful, bold = (section(run(agent(rest), town, tmp_path)) for rest in (NOTHING, "An otter."))
    assert careful.outcomes == {"right": 2, "declined": 1, "invented": 0, "failed": 0}
    assert bold.outcomes == {"right": 1, "declined": 0, "invented": 2, "failed": 0}
    assert careful.metrics["truthfulness"] == pytest.approx(2 / 3)
    assert bold.metrics["truthfulness"] == pytest.approx(-1 / 3)
    assert bold.metrics["hallucination_rate"] == pytest.approx(2 / 3)
    assert (careful.metrics["abstention"], bold.metrics["abstention"]) == (1.0, 0.0)


def test_a_gate_that_fails_is_in_the_sentence(town: Dataset, tmp_path: Path) -> None:
    gates = ("hallucination_rate<=0.1", "ndcg@5>=0.1", "correctness>=0.1")
    outcome = run(Reader(), town, tmp_path, gates=gates)
    assert diagnosis_of(section(outcome)).sentence.endswith(
        "Gate failed: hallucination_rate<=0.1 (got 1.0000); correctness>=0.1 (got 0.0000)."
    )


def test_without_answers_only_rankable_queries_are_drawn(town: Dataset) -> None:
    asked = draw_queries(town, RunConfig(target="x"))
    assert [query.id for query in asked] == ["open", "ride"]


def test_a_data_set_without_references_gets_the_figures_that_need_none(
    town: Dataset, tmp_path: Path
) -> None:
    answers = section(run(perfect, replace(town, answers={}), tmp_path))
    assert answers.questions == 2
    assert answers.metrics["citation_recall"] == 1.0
    assert "correctness" not in answers.metrics
    assert answers.diagnosis is None


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
    assert answers.invented_citations.examples == [InventedExample(query_id="ride", doc_id="ghost")]
    assert diagnosis_of(answers).quadrants == Quadrants(
        evidence_right=0, evidence_wrong=1, no_evidence_right=0, no_evidence_wrong=1
    )


def test_an_agent_that_does_not_answer_keeps_its_ranking(town: Dataset, tmp_path: Path) -> None:
    outcome = run(lambda query, top_k: perfect(query, top_k)["doc_ids"], town, tmp_path)
    assert outcome.metrics["ndcg@5"] == 1.0
    assert section(outcome).answered == 0
    assert diagnosis_of(section(outcome)).counts == {"agent error": 3}
    assert section(outcome).metrics["context_recall"] == 1.0


class Reader:
    """Answers from the context it is given, and otherwise from one wrong document."""

    def __init__(self) -> None:
        self.contexts: list[tuple[str, list[str]]] = []

    def __call__(
        self, query: str, top_k: int, context: list[dict[str, str]] | None = None
    ) -> dict[str, Any]:
        if context is None:
            return {"doc_ids": ["zoo"], "answer": "The zoo has otters.", "citations": ["zoo"]}
        self.contexts.append((query, [each["id"] for each in context]))
        said = " ".join(each["text"] for each in context)
        return {"doc_ids": [each["id"] for each in context], "answer": said or NOTHING}


def test_counterfactuals_settle_whose_fault_it_is(town: Dataset, tmp_path: Path) -> None:
    reader = Reader()
    outcome = run(reader, town, tmp_path, counterfactuals=True)
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


def test_counterfactuals_that_were_asked_are_not_asked_again(town: Dataset, tmp_path: Path) -> None:
    reader = Reader()
    outcome = run(reader, town, tmp_path, counterfactuals=True)
    asked = len(reader.contexts)
    none = outcome.folder.path / "calls-none.jsonl"
    none.write_bytes(none.read_bytes().splitlines(keepends=True)[0] + b'{"query_id": "ri')  # torn

    evaluation = Evaluation.plan(outcome.folder.read_config(), town)
    agent = PythonAgent(reader, name="python:reader")
    again = asyncio.run(evaluation.resume(agent, outcome.folder))
    assert len(reader.contexts) == asked + 1
    assert section(again) == outcome.report.answers


def test_an_agent_that_takes_no_context_is_not_asked_again(town: Dataset, tmp_path: Path) -> None:
    outcome = run(perfect, town, tmp_path, counterfactuals=True)
    assert section(outcome).counterfactuals is None
    assert not list(outcome.folder.path.glob("calls-*.jsonl"))


class Scripted:
    """A judge whose every reply is `word`; `failing` is raised from the n-th question on."""

    name = "scripted"

    def __init__(self, word: str, failing: int | None = None) -> None:
        self.word = word
        self.failing = failing
        self.asked = 0

    async def generate(self, prompt: str, max_tokens: int = 100) -> str:
        self.asked += 1
        if self.failing is not None and self.asked > self.failing:
            raise ProviderError(ProviderFailure.CONNECTION, "the judge is not there")
        return "STATED" if "STATED" in prompt else self.word


def test_a_judge_decides_where_there_is_one(town: Dataset, tmp_path: Path) -> None:
    outcome = run(perfect, town, tmp_path, judge=Scripted("FALSE"), judge_votes=1)
    answers = section(outcome)
    assert answers.metrics["correctness"] == pytest.approx(1 / 3)  # declining is correct by rule
    assert answers.metrics["judged_facts"] == 1.0
    assert answers.metrics["judged_faithfulness"] == 0.0
    assert answers.correctness_by == "judge scripted, the majority in both orders of 2 votes"
    assert judge_of(answers).judged == 2
    assert rows_of(outcome)["open"].votes == ["false", "false"]


def test_a_judge_that_says_neither_has_judged_nothing(town: Dataset, tmp_path: Path) -> None:
    outcome = run(perfect, town, tmp_path, judge=Scripted("Well, perhaps."))
    answers = section(outcome)
    assert outcome.state == "not judged"
    assert "no verdict for 2 of 2 answers" in str(answers.trouble)
    assert judge_of(answers).undecided == 2
    assert judge_of(answers).unparseable_votes == 4
    assert not {"correctness", "judged_facts", "judged_faithfulness"} & answers.metrics.keys()
    assert answers.diagnosis is None
    assert all(row.correct is None for row in rows_of(outcome).values())


@pytest.mark.parametrize("votes", [1, 2, 3, 4, 5])
def test_a_judge_that_prefers_a_place_passes_nobody(
    town: Dataset, tmp_path: Path, votes: int
) -> None:
    """It says TRUE whenever the generated answer stands first; every answer is wrong."""

    class PrefersFirst(Scripted):
        async def generate(self, prompt: str, max_tokens: int = 100) -> str:
            first = "Generated Answer" in prompt.partition("Ground Truth Answer")[0]
            return "STATED" if "STATED" in prompt else "TRUE" if first else "FALSE"

    def wrong(query: str, top_k: int) -> dict[str, Any]:
        return {"doc_ids": ["zoo"], "answer": "The otters know.", "citations": ["zoo"]}

    gate = ("correctness>=0.01",)
    outcome = run(wrong, town, tmp_path, judge=PrefersFirst(""), judge_votes=votes, gates=gate)
    answers = section(outcome)
    assert outcome.state == "not judged"
    assert not outcome.gates_passed
    assert "both TRUE and FALSE about 2 of 2 answers (100%)" in str(answers.trouble)
    assert judge_of(answers).flip_rate == 1.0
    assert "correctness" not in answers.metrics


def test_points_are_of_all_questions_those_undecided_among_them(
    town: Dataset, tmp_path: Path
) -> None:
    class Half(Scripted):
        async def generate(self, prompt: str, max_tokens: int = 100) -> str:
            said = "FALSE" if "7:00" in prompt else "Hm."
            return "STATED" if "STATED" in prompt else said

    outcome = run(perfect, town, tmp_path, judge=Half(""))
    diagnosis = diagnosis_of(section(outcome))
    assert (diagnosis.questions, diagnosis.wrong, diagnosis.undecided) == (3, 1, 1)
    assert "worth 33.3 of the 66.7 points that are lost (undecided 33.3)" in diagnosis.sentence


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
    gates = ("correctness>=0", "judged_facts<=1")
    outcome = run(perfect, town, tmp_path, judge=Scripted("TRUE", failing=1), gates=gates)
    answers = section(outcome)
    assert outcome.state == "not judged"
    assert answers.trouble == "the judge is not there"
    assert answers.metrics["fact_recall"] == 1.0
    assert outcome.metrics["ndcg@5"] == 1.0
    assert not {"correctness", "judged_facts", "judged_faithfulness"} & answers.metrics.keys()
    assert answers.diagnosis is None
    assert [(gate.value, gate.passed) for gate in outcome.report.gates] == [(None, False)] * 2


def test_a_rule_is_no_vote(town: Dataset, tmp_path: Path) -> None:
    outcome = run(perfect, town, tmp_path, judge=Scripted("TRUE"))
    assert judge_of(section(outcome)).judged == 2
    assert judge_of(section(outcome)).decided_by_rule == 1
    assert rows_of(outcome)["mayor"].votes is None


def test_gates_may_be_on_answers(town: Dataset, tmp_path: Path) -> None:
    gates = ("correctness>=0.9", "Fact-Recall > 0.5", "abstention>=1", "ndcg@5>=0.9")
    assert run(perfect, town, tmp_path, gates=gates).gates_passed
    failed = run(lambda query, top_k: ["pool"], town, tmp_path, gates=gates)
    assert [gate.passed for gate in failed.report.gates] == [False, False, False, False]


def test_a_gate_on_a_figure_that_only_a_judge_gives_is_refused_without_one(town: Dataset) -> None:
    for gate in ("judged_facts>=0.1", "correctness>=0.1"):
        bare = {"open": ReferenceAnswer("open", "At 7:00.")}
        config = RunConfig(target="x", answers=True, gates=(gate,))
        with pytest.raises(UsageError, match="add --judge"):
            Evaluation.plan(config, replace(town, answers=bare))


def test_a_gate_on_answers_needs_answers(town: Dataset) -> None:
    with pytest.raises(UsageError, match="add --answers"):
        Evaluation.plan(RunConfig(target="x", gates=("correctness>=0.5",)), town)


def test_a_gate_that_top_k_forbids_is_refused(town: Dataset) -> None:
    config = RunConfig(target="x", answers=True, top_k=1, gates=("context_recall>=0.8",))
    with pytest.raises(GateError, match=r"0\.7500"):
        Evaluation.plan(config, town)


@pytest.mark.parametrize("setting", [{"judge": "ollama"}, {"counterfactuals": True}])
def test_what_is_for_answers_needs_answers(setting: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="--answers"):
        RunConfig(target="x", **setting)


def test_runs_are_compared_on_answers_as_well(town: Dataset, tmp_path: Path) -> None:
    good = run(perfect, town, tmp_path)
    poor = run(Reader(), town, tmp_path)
    compared = good.compare(poor).metrics
    assert compared["correctness"].n == 3
    assert compared["fact_recall"].difference == 1.0
    assert compared["ndcg@5"].n == 2


def test_correctness_by_a_judge_is_not_compared_with_correctness_by_facts(
    town: Dataset, tmp_path: Path
) -> None:
    by_facts = run(perfect, town, tmp_path)
    by_judge = run(perfect, town, tmp_path, judge=Scripted("TRUE"))
    comparison = by_judge.compare(by_facts)
    assert "correctness" not in comparison.metrics
    assert any("correctness was measured in two ways" in each for each in comparison.warnings)


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


def test_the_printed_report_holds_the_answers(town: Dataset, tmp_path: Path) -> None:
    folder = run(perfect, town, tmp_path).folder
    with (tmp_path / "printed.json").open("wb") as stream:
        folder.copy_report(stream)
    printed = json.loads((tmp_path / "printed.json").read_text())
    assert printed == json.loads(json.dumps(folder.read_json()))
    assert [row["query_id"] for row in printed["answer_results"]] == ["open", "ride", "mayor"]


async def test_a_run_that_is_stopped_while_it_is_judged_can_be_resumed(
    town: Dataset, tmp_path: Path
) -> None:
    stop = asyncio.Event()

    class Stopping(Scripted):
        async def generate(self, prompt: str, max_tokens: int = 100) -> str:
            stop.set()
            await asyncio.sleep(60)
            raise AssertionError("the judge is not waited for")

    config = RunConfig(target="python:x", answers=True, judge="scripted", judge_controls=0)
    evaluation = replace(Evaluation.plan(config, town), provider=Stopping("TRUE"))
    agent = PythonAgent(perfect, name="python:x")
    stopped = await evaluation.start(agent, tmp_path, stop=stop)
    assert stopped.state == "interrupted"
    assert section(stopped).trouble == "interrupted before all answers were judged"

    evaluation = replace(evaluation, provider=Scripted("TRUE"))
    resumed = await evaluation.resume(PythonAgent(perfect, name="python:x"), stopped.folder)
    assert resumed.state == "complete"
    assert section(resumed).metrics["correctness"] == 1.0


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
    outcome = run(perfect, bare, tmp_path, judge=Scripted("TRUE"), ground_truth=str(path))
    assert section(outcome).questions == 1
    assert rows_of(outcome)["open"].reference_answer == "At seven."
    assert section(outcome).metrics["correctness"] == 1.0


async def test_without_documents_a_model_answers_from_memory(town: Dataset) -> None:
    class Remembering(Scripted):
        async def generate(self, prompt: str, max_tokens: int = 100) -> str:
            return "By heart: 7:00." if "<document" not in prompt else "NOT FOUND"

    answerer = ModelAnswerer(Remembering(""))
    from_memory = await answerer.answer_from_memory("When does the pool open?", 100)
    assert from_memory.text == "By heart: 7:00."
    passages = [Passage("pool", "Pool", "The pool opens.")]
    assert not (await answerer.answer("When does the pool open?", passages, 100)).found


def test_documents_beyond_top_k_earn_nothing(town: Dataset, tmp_path: Path) -> None:
    def flood(query: str, top_k: int) -> dict[str, Any]:
        everything = ["zoo", "pool", "bus", "fare"]
        return {"doc_ids": everything, "answer": "It was blue.", "citations": everything}

    metrics = section(run(flood, town, tmp_path, top_k=1)).metrics
    assert metrics["context_recall"] == metrics["citation_recall"] == 0.0


def test_an_agent_that_ignores_its_context_is_not_believed(town: Dataset, tmp_path: Path) -> None:
    def deaf(query: str, top_k: int, context: Any = None) -> dict[str, Any]:
        return {"doc_ids": ["zoo"], "answer": "Otters.", "citations": ["zoo"]}

    answers = section(run(deaf, town, tmp_path, counterfactuals=True))
    assert answers.counterfactuals is None
    assert "ignored the documents that it was given" in str(answers.note)
    assert "guessed from one run" in diagnosis_of(answers).sentence


def test_a_target_that_dies_while_it_is_asked_again_can_be_resumed(
    town: Dataset, tmp_path: Path
) -> None:
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
        town,
        queries={**town.queries, **{name: Query(name, "When open?") for name in names}},
        judgments={"test": {**town.judgments["test"], **{name: {"pool": 1} for name in names}}},
        answers={
            **town.answers,
            **{name: replace(town.answers["open"], query_id=name) for name in names},
        },
    )
    reader = Dying()
    config = RunConfig(target="python:x", answers=True, counterfactuals=True, retries=0)
    evaluation = replace(Evaluation.plan(config, many), probe_pauses=(0.0,))
    lost = asyncio.run(evaluation.start(PythonAgent(reader, name="x"), tmp_path))
    assert lost.state == "target lost"
    reader.well = True
    resumed = asyncio.run(evaluation.resume(PythonAgent(reader, name="x"), lost.folder))
    assert resumed.state == "complete"
    tried = section(resumed).counterfactuals
    assert [each.asked for each in (tried or {}).values()] == [32, 32, 32]


def test_a_run_is_not_resumed_with_other_references(town: Dataset, tmp_path: Path) -> None:
    folder = run(perfect, town, tmp_path).folder
    other = replace(town, answers={**town.answers, "open": ReferenceAnswer("open", "At noon.")})
    evaluation = Evaluation.plan(folder.read_config(), other)
    with pytest.raises(RunError, match="different reference answers"):
        asyncio.run(evaluation.resume(PythonAgent(perfect, name="x"), folder))


def test_a_budget_that_ends_keeps_the_run(town: Dataset, tmp_path: Path) -> None:
    class Dear(Scripted):
        async def generate(self, prompt: str, max_tokens: int = 100) -> str:
            raise BudgetExceeded("1.00 US dollars are spent")

    outcome = run(perfect, town, tmp_path, judge=Dear("TRUE"), max_cost=1.0)
    assert outcome.state == "not judged"
    assert section(outcome).trouble == "1.00 US dollars are spent"
