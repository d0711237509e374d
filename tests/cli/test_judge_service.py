"""Criteria with a judge behind a real socket: a second run asks nothing."""

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
