"""`assay judge calibrate`: with recorded verdicts, and with a model behind a real server."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tests.llm_providers.model_server import ModelServer

from assay.cli.app import judge_verbs
from assay.errors import AssayError, BudgetExceeded


def row(label: bool | None, **more: Any) -> dict[str, Any]:
    return {"question": "When?", "answer": "On 3 May", "reference": "3 May", "label": label} | more


def invoke(*arguments: str) -> str:
    result = CliRunner().invoke(judge_verbs, ["calibrate", *arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def refused(*arguments: str) -> AssayError:
    result = CliRunner().invoke(judge_verbs, ["calibrate", *arguments])
    assert isinstance(result.exception, AssayError), result.output
    return result.exception


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("RAG_EVAL_PROVIDER", raising=False)
    monkeypatch.delenv("RAG_EVAL_PRICES", raising=False)
    monkeypatch.setenv("ASSAY_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def recorded(tmp_path: Path) -> str:
    rows = [row(True, verdict=True)] * 20 + [row(False, verdict=False)] * 15
    rows += [row(False, verdicts=[True, False, True])] * 5 + [row(None, verdict=True)] * 60
    path = tmp_path / "recorded.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    return str(path)


def test_recorded_verdicts_need_no_model(recorded: str) -> None:
    content = json.loads(invoke(recorded, "--json"))
    assert content["judge"] == {"provider": "recorded"}
    assert content["accuracy"]["mean"] == pytest.approx(35 / 40)
    assert content["kappa"] == pytest.approx(0.75)
    assert content["confusion"]["false"] == {"true": 5, "false": 15, "undecided": 0}
    assert content["flip_rate"] == 1.0
    assert (content["labelled"], content["unlabelled"]) == (40, 60)
    assert content["uncorrected"] == 1.0
    assert content["corrected"]["mean"] == pytest.approx(0.875)


def test_people_read_a_table_of_80_columns(recorded: str) -> None:
    shown = invoke(recorded)
    assert max(map(len, shown.splitlines())) <= 80
    for words in ("accuracy", "0.8750 [", "Cohen's kappa", "0.7500", "judge: undecided"):
        assert words in shown
    assert "correct, judge corrected by the labels" in shown


def test_a_model_is_asked_where_no_verdict_is_recorded(tmp_path: Path) -> None:
    path = tmp_path / "labels.jsonl"
    lines = [row(True), row(False, answer="On 4 May"), row(True, verdict=True)]
    path.write_text("\n".join(map(json.dumps, lines)))
    with ModelServer().running() as server:
        arguments = (str(path), "--judge", f"openai:own@{server.url}", "--json")
        content = json.loads(invoke(*arguments, "--judge-set", "votes=3"))
        assert len(server.requests) == 8
        assert content["judge"]["provider"] == "openai:own"
        assert content["judge"]["votes"] == 4
        assert content["judge"]["prompts"]["judge_correctness"].startswith("judge_correctness@1+")
        assert content["judge"]["spending"]["calls"] == 8
        assert content["accuracy"]["mean"] == pytest.approx(2 / 3)
        again = json.loads(invoke(*arguments, "--judge-set", "votes=3"))
        assert len(server.requests) == 8  # the second run is answered by the cache
        assert again["judge"]["spending"]["cached"] == 8
        assert again["confusion"] == content["confusion"]


def test_a_judge_that_eval_would_refuse_is_called_so(recorded: str) -> None:
    content = json.loads(invoke(recorded, "--json"))
    assert "both TRUE and FALSE about 5 of 5 answers (100%)" in content["unreliable"]


def test_a_budget_stops_it_in_words(tmp_path: Path) -> None:
    path = tmp_path / "labels.jsonl"
    path.write_text(json.dumps(row(True)))
    with ModelServer().running() as server:
        error = refused(
            str(path), "--provider", f"openai:gpt-4o@{server.url}", "--max-cost", "0.0001"
        )
    assert isinstance(error, BudgetExceeded)
    assert "budget of $0.0001" in str(error)
    assert server.requests == []
