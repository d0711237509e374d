"""The form of an evaluation: its fields, its problems, targets of the project."""

from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.report.page_reading import read_page
from tests.ui.conftest import open_pages

from assay.cli.settings import named_configs
from assay.net.outbound import OutboundPolicy
from assay.net.redact import full_text
from assay.run.config import RunConfig, form_fields, form_settings, settings
from assay.serve.ui.context import Ui
from assay.serve.ui.evaluate import config_problems, form_problems, read_config

DEFAULTS = form_fields(RunConfig(target=""))
DOCS = (
    '[target.docs]\ntarget = "rest:http://u:hunter2@h.example/?q={query}"\n'
    'map = ["ids=hits[].id"]\ntimeout = 20\ntop_k = 7\nheader = "X-Key: $DOCS_KEY"\n'
    '[target.code]\ntarget = "python:a:b"\n'
)


def test_every_option_is_in_the_form_with_its_label_and_help(server: httpx.Client) -> None:
    """Only the parts of a split evaluation cannot be entered: a page evaluates everything."""
    page = read_page(server.get("/evaluate").text)
    names = {each.get("name") for tag in ("input", "select", "textarea") for each in page.tags(tag)}
    assert set(settings()) - names == {"shard_index", "num_shards"}
    for setting in form_settings():
        assert f"{setting.label}" in page.text
        assert setting.help in page.text
    assert server.get("/evaluations/new").headers["location"] == "/evaluate"


@pytest.mark.parametrize(
    ("wrong", "fields"),
    [
        ({"target": ""}, {"target"}),
        ({"target": "nonsense", "gates": "ndcg@99>=0.1"}, {"target", "gates"}),
        ({"judge": "oracle", "answers": "on"}, {"judge"}),
        ({"counterfactuals": "on"}, {"counterfactuals"}),
        ({"top_k": "ten", "retries": "many"}, {"top_k", "retries"}),
        ({"top_k": "0"}, {"top_k"}),
    ],
)
def test_all_problems_are_told(tmp_path: Path, wrong: dict[str, str], fields: set[str]) -> None:
    given = {**DEFAULTS, "target": "builtin:bm25", **wrong}
    assert set(form_problems(Ui(tmp_path), given)) == fields


def test_a_wrong_form_comes_back_and_starts_nothing(server: httpx.Client, runs: Path) -> None:
    before = len(list(runs.iterdir()))
    answer = server.post("/evaluate", data={"target": "builtin:bm25", "top_k": "ten"})
    assert answer.status_code == 422
    assert 'value="ten"' in answer.text
    assert len(list(runs.iterdir())) == before


def test_a_target_of_the_project_is_offered_and_filled_in(tmp_path: Path) -> None:
    (tmp_path / "assay.toml").write_text(DOCS)
    named = named_configs(tmp_path)
    with open_pages(tmp_path / "runs", named=named) as client:
        page = read_page(client.get("/evaluate?target=docs").text)
    assert "hunter2" not in page.text
    values = {each.get("name"): each.get("value") for each in page.tags("input")}
    assert (values["target"], values["top_k"], values["timeout"]) == ("docs", "7", "20")
    given = {**DEFAULTS, "target": "docs", "top_k": "3"}
    assert form_problems(Ui(tmp_path, named=named), given) == {}
    config = read_config(Ui(tmp_path, named=named), given)  # what is seen is what is run
    assert full_text(config.target) == "rest:http://u:hunter2@h.example/?q={query}"
    assert (config.top_k, config.headers) == (3, ("X-Key: $DOCS_KEY",))
    assert config.mapping == ("ids=hits[].id",)


def test_a_visitor_of_another_machine_has_no_target_of_the_project(tmp_path: Path) -> None:
    """Its key could otherwise be sent to a host of theirs, such as that of a baseline."""
    (tmp_path / "assay.toml").write_text(DOCS)
    elsewhere = OutboundPolicy.for_server("0.0.0.0", "h.example")
    ui = Ui(tmp_path, policy=elsewhere, named=named_configs(tmp_path))
    assert set(form_problems(ui, {**DEFAULTS, "target": "docs"})) == {"target"}


# --- what strangers may have evaluated ------------------------------------------------------------

AT_HOME = OutboundPolicy.for_server("127.0.0.1")
EXPOSED = OutboundPolicy.for_server("0.0.0.0", "purple-agent, tools:8000, example.org")
REST = "rest:http://example.org/?q={query}"


def refused(policy: OutboundPolicy, **settings: Any) -> set[str]:
    config = RunConfig(**{"target": "builtin:bm25", **settings})
    return set(config_problems(config, policy))


@pytest.mark.parametrize(
    "target", ["python:a:b", "mcp-stdio:server", "a2a:http://10.0.0.1", "http://localhost:1"]
)
def test_only_on_loopback_everything_may_be_evaluated(target: str) -> None:
    assert refused(AT_HOME, target=target) == set()
    assert refused(EXPOSED, target=target) == {"target"}
    assert refused(EXPOSED, baseline=target) == {"baseline"}
    assert refused(EXPOSED, search=target) == {"search"}


@pytest.mark.parametrize(
    "settings",
    [
        {"target": "a2a:http://purple-agent:9010"},
        {"target": REST, "headers": ("X-Tenant: a",), "mapping": ("ids=hits[].id",)},
        {"dataset": "notes", "compare_to": "main"},
        *({"judge": judge, "answers": True} for judge in ("", "ollama", "gguf", "anthropic")),
        {"judge": "openai:m@http://tools:8000/v1", "answers": True},
    ],
)
def test_strangers_may_use_what_is_built_in_or_named(settings: dict[str, Any]) -> None:
    assert refused(EXPOSED, **settings) <= {"judge"}  # of which no model may be installed here
    assert refused(EXPOSED, **settings) == refused(AT_HOME, **settings)


@pytest.mark.parametrize(
    ("field", "settings"),
    [
        ("dataset", {"dataset": "/etc"}),
        ("judge", {"judge": "openai:m@http://169.254.169.254/v1", "answers": True}),
        ("judge", {"judge": "gguf:/etc/passwd", "answers": True}),
        ("criteria", {"criteria": "/etc/passwd", "answers": True, "judge": "ollama:m"}),
        ("searches", {"searches": "/var/log/steps.jsonl"}),
        ("compare_to", {"compare_to": "../other/run"}),
        ("embedder", {"target": "builtin:hybrid", "embedder": "openai:m@http://127.0.0.1:1/v1"}),
        ("request", {"target": REST, "headers": ("X-A: $ASSAY_ADMIN_TOKEN",)}),
        ("request", {"target": REST, "request": "@/etc/passwd"}),
        ("mapping", {"target": REST, "mapping": ("ids=hits[].id,texts=\t re:(a+)+$",)}),
        ("target", {"target": "rest:http://example.org/?q={query}&k=${ASSAY_ADMIN_TOKEN}"}),
        ("target", {"target": "rest:http://other.org/?q={query}"}),
        ("judge_set", {"judge": "ollama:m", "judge_set": "calibration=/x", "answers": True}),
    ],
)
def test_strangers_name_no_file_host_or_code(field: str, settings: dict[str, Any]) -> None:
    assert field in refused(EXPOSED, **settings) - refused(AT_HOME, **settings)
