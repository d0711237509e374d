"""The table of options, and everything that is derived from it."""

import shutil
import subprocess
import sys
from dataclasses import fields, replace
from pathlib import Path

import pytest

import assay
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


def test_a_toy_option_in_one_place_is_seen_everywhere(tmp_path: Path) -> None:
    """One field is added to a copy of the sources; help, file, form, command and resume know it."""
    source = Path(assay.__file__).parent
    copy = tmp_path / "src" / "assay"
    shutil.copytree(source, copy, ignore=shutil.ignore_patterns("__pycache__"))
    config = copy / "run" / "config.py"
    text = config.read_text(encoding="utf-8")
    anchor = "    shard_index: int = _data(\n"
    toy = (
        '    toy: int = _option(7, "A toy setting.", metavar="N", '
        'low=1, on_resume="free", same_in_shards=True, '
        'request_field="toy_value", group="Data")\n'
    )
    assert text.count(anchor) == 1
    config.write_text(text.replace(anchor, toy + anchor), encoding="utf-8")
    script = tmp_path / "look.py"
    script.write_text(_LOOK, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, script],
        env={"PYTHONPATH": str(copy.parent), "ASSAY_TOY": "9", "PATH": ""},
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


_LOOK = """
import pathlib
import orjson
import pytest
from click.testing import CliRunner
from assay.cli.app import app
from assay.errors import RunError, UsageError
from assay.report.html import command_of
from assay.run.config import RunConfig
from assay.run.models import RunHeader
from assay.run.config import arguments, form_fields, read_form, require_same, resumed

runner = CliRunner(env={"COLUMNS": "100", "NO_COLOR": "1"})
shown = runner.invoke(app, ["eval", "--help-all"]).output
assert "--toy" in shown and "A toy setting." in shown, shown

pathlib.Path("mine.py").write_text("def find(query, top_k): return []")
options = ["--dataset", "notes", "--num-queries", "2", "--json"]
done = runner.invoke(app, ["eval", "python:mine:find", *options])
run = next(pathlib.Path("runs").iterdir())
header = orjson.loads((run / "run.json").read_bytes())
assert header["config"]["toy"] == 9, header
assert RunConfig.from_json(header["config"]).toy == 9

config = RunConfig(target="x", toy=3)
assert read_form(form_fields(config)) == config
from starlette.testclient import TestClient
from assay.serve.ui.app import ui_app
with TestClient(ui_app(pathlib.Path("runs")), base_url="http://localhost") as client:
    assert 'name="toy"' in client.get("/evaluate").text
assert ("--toy", "3") in arguments(config)
assert "--toy=3" in command_of(config) or "--toy 3" in command_of(config)
assert resumed(config, {"toy": 5}, "r").toy == 5
with pytest.raises(RunError, match="toy"):
    require_same({"a": config, "b": RunConfig(target="x", toy=4)})
assert "toy" in str(RunHeader.model_json_schema())
from assay.data import load_dataset
from assay.serve.green.request import EvalRequest, to_spec
asked = {"participants": {"retrieval_agent": "http://localhost:1"}, "config": {"toy_value": 4}}
assert to_spec(EvalRequest.model_validate(asked), load_dataset("notes"), "notes", 1).config.toy == 4
"""
