"""The form of an evaluation: its fields, its words, targets of the project."""

import re
from pathlib import Path

import httpx
import pytest
from tests.ui.test_access import form_token

from assay.cli.settings import named_configs
from assay.net.outbound import OutboundPolicy
from assay.net.redact import full_text
from assay.run.config import option_table
from assay.run.settings import form_settings
from assay.serve.ui.context import Ui
from assay.serve.ui.evaluation_form import (
    allowed_targets,
    form_defaults,
    form_problems,
    in_web_words,
    read_config,
    short_label,
    shown_settings,
    with_named_target,
)


def test_no_option_is_missing_in_the_form() -> None:
    """Only the parts of a split evaluation cannot be entered: a page evaluates everything."""
    shown = {setting.name for setting in form_settings()}
    assert {each for each in option_table() if each not in shown} == {"shard_index", "num_shards"}
    labels = {setting.name: short_label(setting) for setting in form_settings()}
    usual = ("top_k", "concurrency", "timeout", "judge_set")
    assert [labels[name] for name in usual] == ["Top k", "Concurrency", "Timeout", "Cost limit"]


def test_a_placeholder_that_is_an_example_can_be_entered(tmp_path: Path) -> None:
    """The gate of the placeholder needed more documents than the form asks for by default."""
    for setting in form_settings():
        example = setting.option.placeholder
        if not re.match(r"[\w@-]+>?=|[A-Z]\w+: \w+ \$", example):
            continue  # words about the default
        if setting.option.needs:
            continue  # has no meaning by itself
        target = "rest:http://localhost:1/?q={query}" if "Bearer" in example else "builtin:bm25"
        given = {**form_defaults(), "target": target, setting.name: example}
        assert form_problems(Ui(tmp_path), given) == {}, (setting.name, example)


@pytest.mark.parametrize(
    "message",
    [
        "gate 'ndcg@10>=0.3' needs 10 documents, but the run requests 5; add --top-k 10",
        "--request has no effect on a builtin: target",
        "--bm25 has no effect on target 'builtin:dense'",
        "judge_set needs --judge; set it as well",
    ],
)
def test_no_flag_is_named_to_a_visitor(message: str) -> None:
    assert not re.search(r"--|Python|_", in_web_words(message))


def test_a_field_without_effect_is_told(tmp_path: Path) -> None:
    given = {**form_defaults(), "target": "builtin:dense"}
    assert form_problems(Ui(tmp_path), given) == {}
    for name, text in (("bm25", "k1=0.9"), ("mapping", "ids=hits")):
        problems = form_problems(Ui(tmp_path), given | {name: text})
        assert "has no effect" in problems["target"]


def test_a_form_is_checked_while_it_is_filled_in(server: httpx.Client, runs: Path) -> None:
    """All that is wrong at once, by field; nothing is started."""
    before = len(list(runs.iterdir()))
    wrong = {"target": "nonsense", "gates": "ndcg@99>=0.1", "judge": "oracle", "answers": "on"}
    data = {"form_token": form_token(server), **wrong}
    found = server.post("/evaluate/problems", data=data).json()
    assert set(found) == {"target", "gates", "judge"}
    data |= {"top_k": "ten", "tags": "x"}
    assert server.post("/evaluate/problems", data=data).json() == {
        "top_k": "Top k must be an integer, got 'ten'"
    }
    assert server.post("/evaluate/problems", data=wrong).status_code == 403
    assert len(list(runs.iterdir())) == before


def test_a_target_of_the_project_is_offered_and_filled_in(tmp_path: Path) -> None:
    (tmp_path / "assay.toml").write_text(
        '[target.docs]\ntarget = "rest:http://u:hunter2@h.example/?q={query}"\n'
        'map = ["ids=hits[].id"]\ntimeout = 20\ntop_k = 7\nheader = "X-Key: $DOCS_KEY"\n'
        '[target.code]\ntarget = "python:a:b"\n'
    )
    named = named_configs(tmp_path)
    ui = Ui(tmp_path, named=named)
    assert list(allowed_targets(ui)) == ["docs", "code"]
    assert "hunter2" not in str(allowed_targets(ui))
    given = {**form_defaults(), "target": "docs", "top_k": "3"}
    assert form_problems(ui, given) == {}
    config = read_config(with_named_target(ui, given))
    assert full_text(config.target) == "rest:http://u:hunter2@h.example/?q={query}"
    assert (config.timeout, config.top_k, config.headers) == (20, 3, ("X-Key: $DOCS_KEY",))
    assert config.mapping == ("ids=hits[].id",)
    shown = shown_settings(ui, "docs")
    assert {name: shown[name] for name in ("settings_of", "top_k")} == {
        "settings_of": "docs",
        "top_k": "7",
    }
    assert not {"target", "mapping", "headers"} & shown.keys()
    given = {**form_defaults(), **shown, "target": "docs", "top_k": form_defaults()["top_k"]}
    config = read_config(with_named_target(ui, given))  # what is seen is what is run
    assert (config.timeout, config.top_k, config.headers) == (20, 5, ("X-Key: $DOCS_KEY",))
    assert shown_settings(ui, "builtin:bm25") == {}
    elsewhere = OutboundPolicy.for_server("0.0.0.0", "h.example")
    assert allowed_targets(Ui(tmp_path, policy=elsewhere, named=named)) == {}


def test_a_key_of_the_project_is_sent_to_no_baseline_of_a_visitor(tmp_path: Path) -> None:
    (tmp_path / "assay.toml").write_text(
        '[target.docs]\ntarget = "rest:http://h.example/?q={query}"\n'
        'map = ["ids=hits[].id"]\nheader = "X-Key: hunter2"\n'
    )
    elsewhere = OutboundPolicy.for_server("0.0.0.0", "h.example, other.example")
    ui = Ui(tmp_path, policy=elsewhere, named=named_configs(tmp_path))
    given = {**form_defaults(), "target": "docs", "dataset": "notes"}
    for own in ("builtin:bm25", "Builtin:bm25"):
        assert form_problems(ui, {**given, "baseline": own}) == {}
    assert form_problems(ui, {**given, "baseline": "purple:hybrid"}) != {}
    assert form_problems(ui, {**given, "baseline": "nonsense"}) != {}
    found = form_problems(ui, {**given, "baseline": "rest:http://other.example/?q={query}"})
    assert list(found) == ["baseline"]
    assert "hunter2" not in str(found)
