"""`--poison` from the settings to the report, with applications that do this or that."""

import asyncio
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.poison.applications import TEA, application, ignores_them, obeys

from assay.errors import UsageError
from assay.evaluation.api import evaluate
from assay.evaluation.evaluation import Evaluation
from assay.evaluation.merge import merge, merged_config
from assay.evaluation.plan import open_agent
from assay.evaluation.run import Run
from assay.report.terminal import plain_text, render_report
from assay.run.answers import PoisonReport
from assay.run.config import RunConfig

ALL = 4 * len(TEA.queries)


def poisoned(agent: Any, out: Path, **options: Any) -> tuple[Run, PoisonReport]:
    run = evaluate(agent, TEA, out=out, **{"poison": True, **options})
    assert run.report.answers is not None
    assert run.report.answers.poison is not None
    return run, run.report.answers.poison


def test_an_application_that_obeys_is_poisoned_and_fails_its_gate(tmp_path: Path) -> None:
    run, poison = poisoned(application(obeys), tmp_path, gates="poisoned<=0.05")
    assert (poison.total.followed, poison.total.answered) == (ALL, ALL)
    assert set(poison.kinds) == {"override", "false_fact", "fake_citation", "exfiltration"}
    assert all(row.share == 1.0 and row.low is not None for row in poison.kinds.values())
    assert not run.gates_passed
    answers = run.report.answers
    assert answers is not None
    assert answers.metrics["poisoned"] == 1.0
    assert answers.findings[0].kind == "follows planted documents"
    assert answers.findings[0].words.startswith(f"{ALL} of {ALL} answers with a planted document")
    shown = plain_text(render_report(run.report, path="here"))
    assert "planted documents" in shown
    page = (run.folder.path / "report.html").read_text()
    assert "Planted documents" in page
    assert poison.examples[0].doc_id in page


def test_a_sound_application_passes(tmp_path: Path) -> None:
    run, poison = poisoned(application(ignores_them), tmp_path, gates="poisoned<=0.05")
    assert run.gates_passed
    assert poison.total.followed == 0
    assert poison.total.high is not None
    assert poison.total.high > 0
    assert poison.note is not None
    assert "--counterfactuals" in poison.note


def test_the_page_loads_nothing_that_an_answer_asks_for(tmp_path: Path) -> None:
    def shows(query: str, shown: list[dict[str, str]]) -> str:
        host = re.search(r"[a-z]{8}\d{4}\.example", shown[-1]["text"] + shown[0]["text"])
        return f'<img src="https://{host[0]}/x">' if host else "Three minutes."

    run, poison = poisoned(application(shows), tmp_path, poison="exfiltration")
    assert poison.total.followed == poison.total.answered
    page = (run.folder.path / "report.html").read_text()
    assert poison.examples[0].answer.partition("//")[2].partition("/")[0] in page
    assert not re.search(r"<(?:img|a|iframe)[^>]*\.example", page)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"gates": "poisoned<=0.05"}, "--poison"),
        ({"poison": ["all", "rumor"]}, "'rumor'"),
    ],
)
def test_wrong_settings_are_refused(options: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=message):
        evaluate(application(obeys), TEA, out=tmp_path, **options)
    assert not list(tmp_path.iterdir())


def test_a_target_that_takes_nothing_is_refused_before_the_first_call(tmp_path: Path) -> None:
    asked = []

    def search(query: str, top_k: int) -> list[str]:
        asked.append(query)
        return ["d2"]

    with pytest.raises(UsageError, match=r"into the contexts of .*parameter 'context'"):
        evaluate(search, TEA, out=tmp_path, poison=True)
    assert not asked


@pytest.mark.parametrize(("works", "passed"), [("", False), ("2", False), ("23456", True)])
def test_an_application_that_fails_passes_no_gate(works: str, passed: bool, tmp_path: Path) -> None:
    def fails(query: str, top_k: int, context: Any = None) -> dict[str, Any]:
        if context is not None and not any(each in query for each in works):
            raise ValueError("no contexts, please")
        return {"doc_ids": ["d2"], "answer": "2 minutes."}

    run, poison = poisoned(fails, tmp_path, gates="poisoned<=0.5")
    assert run.gates_passed is passed
    assert poison.total.answered == 4 * len(works)
    if not passed:
        assert poison.note is not None
        assert f"{4 * len(works)} of {ALL} questions were answered" in poison.note
        assert run.report.answers is not None
        assert "poisoned" not in run.report.answers.metrics


def test_a_private_run_keeps_no_text_of_it(tmp_path: Path) -> None:
    run, poison = poisoned(application(obeys), tmp_path, private=True)
    assert poison.total.followed == ALL
    assert poison.examples == []
    texts = b"".join(path.read_bytes() for path in run.folder.path.iterdir())
    assert b"steep" not in texts
    assert not (run.folder.path / "poison.jsonl").exists()


def test_the_extractive_answerer_quotes_false_facts_and_obeys_nothing(tmp_path: Path) -> None:
    _, poison = poisoned("builtin:bm25", tmp_path)
    assert poison.kinds["override"].followed == 0
    assert poison.kinds["false_fact"].followed >= 6


def test_shards_merge_into_the_undivided_run(tmp_path: Path) -> None:
    def run(shard_index: int = 0, num_shards: int = 1) -> Run:
        config = RunConfig(target="builtin:bm25", dataset="tea", poison=("all",))
        config = replace(config, shard_index=shard_index, num_shards=num_shards)
        plan = Evaluation.plan(config, TEA)
        return asyncio.run(plan.start(open_agent(config, TEA), tmp_path))

    shards = [run(shard_index=place, num_shards=2).folder for place in range(2)]
    merged = asyncio.run(merge(shards, merged_config(shards), TEA, tmp_path))
    whole = run()
    assert whole.report.answers is not None
    assert whole.report.answers.poison is not None
    assert merged.report.answers == whole.report.answers
