"""Wrong answers asked again with other contexts: whose fault it was, what a broken run keeps."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.evaluation.town import Reader, diagnosis_of, perfect, rows_of, run, section

from assay.data import Dataset, Query
from assay.evaluation.evaluation import Evaluation, Events
from assay.run.answers import (
    CounterfactualCount,
)
from assay.run.config import RunConfig
from assay.targets import PythonAgent


def test_an_agent_that_ignores_its_context_is_told_so_and_not_advised_again(
    town: Dataset, tmp_path: Path
) -> None:
    def stubborn(query: str, top_k: int, context: object = None) -> dict[str, Any]:
        return {"doc_ids": ["zoo"], "answer": "The otters know it well.", "citations": ["zoo"]}

    answers = section(run(stubborn, town, tmp_path, counterfactuals=True))
    assert answers.findings[0].kind == "ignores-context"
    sentence = diagnosis_of(answers).sentence
    assert "all 2 questions that were asked again got the same answer" in answers.findings[0].words
    assert "--counterfactuals" not in sentence


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
