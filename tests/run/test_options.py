"""The table of options, and everything that is derived from it."""

from dataclasses import fields, replace

import pytest

from assay.errors import RunError, UsageError
from assay.run.config import (
    JudgeSettings,
    RunConfig,
    arguments,
    command_settings,
    form_fields,
    read_form,
    require_same,
    resumed,
    settings,
)

PLAIN = RunConfig(target="builtin:bm25")
FULL = RunConfig(
    target="python:mine:find",
    dataset="notes",
    columns=("query=Frage", "ids=docs"),
    split="dev",
    num_queries=7,
    seed=1,
    top_k=10,
    concurrency=2,
    timeout=1.25,
    retries=0,
    warm_up=2.5,
    gates=("ndcg@5>=0.3", "success_rate>=0.9"),
    track="trained",
    baseline="builtin:bm25",
    mapping=("query=q", "ids=re:(a,b)", "chunk=#"),
    request='{"q": "{query}"}',
    headers=("X-Tenant: a; b", "Authorization: Bearer $TOKEN"),
    preset="solr:docs",
    embedder="openai:m@http://127.0.0.1:9/v1",
    bm25=("k1=0.9,b=0.4", "language=german"),
    search="builtin:bm25",
    searches="searches.jsonl",
    repeat=3,
    private=True,
    label="tuned",
    tags=("chunks=512", "reader=b=2"),
    compare_to="main",
    allow_first_run=True,
    fail_on_regression=True,
    note="with the larger model",
    answers=True,
    judge="gguf",
    judge_set=JudgeSettings(
        votes=5,
        max_flips=0.5,
        controls=3,
        timeout=900.0,
        concurrency=2,
        calibration="calibration.jsonl",
        max_cost=0.5,
        require_calibrated=True,
    ),
    no_cache=True,
    criteria="criteria",
    counterfactuals=True,
    poison=("override", "false_fact"),
    references=("truth.json", "facts.jsonl"),
    faithfulness="onnx:nli",
)


def test_every_option_is_set_somewhere_in_these_tests() -> None:
    """So that the round trips below speak of all options, also of those to come."""
    assert {each.name for each in fields(RunConfig)} - set(settings()) == {"target", "target_name"}
    unset = [o.name for o in command_settings() if getattr(FULL, o.name) == o.default]
    assert unset == []


@pytest.mark.parametrize("config", [PLAIN, FULL])
def test_settings_survive_their_form_and_their_file(config: RunConfig) -> None:
    assert read_form(form_fields(config)) == config
    assert RunConfig.from_json(config.to_json()) == config


def test_the_command_that_repeats_a_run_names_every_setting() -> None:
    flags = {flag for flag, _ in arguments(FULL)}
    assert flags == {setting.flag for setting in command_settings()}
    assert dict(arguments(FULL))["--retries"] == "0"
    assert dict(arguments(FULL))["--references"] == "facts.jsonl"
    assert [value for flag, value in arguments(FULL) if flag == "--gate"] == list(FULL.gates)


@pytest.mark.parametrize(
    ("field", "text", "message"),
    [
        ("top_k", "many", "top_k must be an integer, got 'many'"),
        ("top_k", "0", "top_k must be between 1 and 1000, got 0"),
        ("timeout", "soon", "timeout must be a number, got 'soon'"),
        ("timeout", "nan", "timeout must be between 0.001 and 86400, got nan"),
        ("track", "fast", "track must be one of zero-shot, trained, undeclared, got 'fast'"),
        ("judge_set", "votes=1", "judge_set needs --judge; set it as well"),
    ],
)
def test_a_wrong_value_in_the_form_is_named(field: str, text: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        read_form({**form_fields(PLAIN), field: text})
    assert str(caught.value) == message


def test_resume_takes_what_may_change_and_refuses_the_rest() -> None:
    after = resumed(FULL, {"timeout": 9.0, "seed": 1}, "run-1")
    assert (after.timeout, after.seed) == (9.0, 1)
    with pytest.raises(UsageError, match="run 'run-1' was started with seed 1, not 2"):
        resumed(FULL, {"seed": 2}, "run-1")


def test_shards_agree_on_what_decides_scores() -> None:
    require_same({"a": FULL, "b": replace(FULL, concurrency=99, timeout=3.0)})
    with pytest.raises(RunError, match="run 'b' has top_k 3, run 'a' has 10"):
        require_same({"a": FULL, "b": replace(FULL, top_k=3)})
