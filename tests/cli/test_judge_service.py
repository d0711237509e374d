"""Criteria and preferences with a judge behind a real socket: cache, cost limit, going on."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cli.conftest import RunAssay
from tests.judge_controls import control_reply
from tests.llm_providers.model_server import ModelServer

TEXTS = re.compile(r"<answer \w+>\n(.*?)\n</answer", re.DOTALL)


def reply_to(prompt: str) -> str:
    said = TEXTS.findall(prompt)
    if prompt.startswith("Rate an answer"):
        return control_reply(prompt) or str(min(5, 1 + len(said[0].split()) // 12))
    if prompt.startswith("Choose the better"):
        first, second = said[-2:]
        if len(said) == 3 and said[0] in (first, second):
            return "FIRST" if first == said[0] else "SECOND"
        return (
            "TIE"
            if len(first) == len(second)
            else "FIRST"
            if len(first) > len(second)
            else "SECOND"
        )
    if "STATED" in prompt:
        return "STATED"
    return "TRUE" if len(set(said)) <= 1 else "FALSE"


@pytest.fixture
def service() -> Iterator[ModelServer]:
    with ModelServer().running() as server:
        server.reply = reply_to
        usage = {"prompt_tokens": 1000, "completion_tokens": 1, "total_tokens": 1001}
        server.patch = {"usage": usage}
        yield server


def judge(service: ModelServer) -> tuple[str, str]:
    return "--judge", f"openai:small@{service.url}/v1"


ANSWERS = ("--dataset", "notes", "--num-queries", "6", "--answers")


def test_criteria_are_rated_and_a_second_run_asks_nothing(
    run_assay: RunAssay, folder: Path, service: ModelServer
) -> None:
    (folder / "depth.md").write_text("---\nscale: 1-5\n---\nHow much does the answer explain?")
    options = ("--criteria", "depth.md", "--gate", "criterion.depth<=1")
    words = ("eval", "builtin:bm25", *ANSWERS, *judge(service), *options, "--json")
    cache = {"ASSAY_CACHE": str(folder / "cache")}
    done = run_assay(*words, **cache)
    assert done.returncode == 0, done.stderr
    answers = json.loads(done.stdout)["answers"]
    assert 0 <= answers["metrics"]["criterion.depth"] <= 1
    assert answers["judge"]["controls"]["same_right"] == 5
    asked = len(service.requests)
    assert asked == answers["judge"]["spending"]["calls"]
    again = run_assay(*words, **cache)
    assert len(service.requests) == asked, "every verdict and rating is in the cache"
    assert json.loads(again.stdout)["answers"]["metrics"] == answers["metrics"]


def test_a_preference_that_costs_too_much_stops_and_goes_on(
    run_assay: RunAssay, folder: Path, service: ModelServer
) -> None:
    prices = json.dumps({"small": [10, 0]})  # a cent for each call
    cache = {"ASSAY_CACHE": str(folder / "cache")}
    for top_k in ("1", "5"):
        done = run_assay("eval", "builtin:bm25", *ANSWERS, "--top-k", top_k, "--label", top_k)
        assert done.returncode == 0, done.stderr
    first, second = sorted(path.name for path in (folder / "runs").iterdir())
    metric = ("--metrics", "correctness")
    words = ("compare", first, second, *metric, "--prefer", *judge(service), "--json")
    stopped = run_assay(*words, "--max-cost", "0.06", RAG_EVAL_PRICES=prices, **cache)
    assert stopped.returncode == 3, stopped.stderr
    assert "not judged" in stopped.stderr
    paid = len(service.requests)
    assert 0 < paid <= 6
    done = run_assay(*words, "--max-cost", "1", RAG_EVAL_PRICES=prices, **cache)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)["preference"]
    assert found["wins_a"] + found["wins_b"] + found["ties"] == found["pairs"] == 6
    assert found["spending"]["cached"] == paid
    assert found["controls_right"] == found["controls"] > 0
