"""The form of an evaluation: its fields, its problems, targets of the project."""

from pathlib import Path

import httpx
from tests.report.page_reading import read_page
from tests.ui.test_access import form_token
from tests.ui.test_changes import open_pages

from assay.cli.settings import named_configs
from assay.net.outbound import OutboundPolicy
from assay.net.redact import full_text
from assay.run.config import RunConfig, settings
from assay.run.settings import form_fields, form_settings
from assay.serve.ui.context import Ui
from assay.serve.ui.evaluate import form_problems, read_config

DEFAULTS = form_fields(RunConfig(target=""))
DOCS = (
    '[target.docs]\ntarget = "rest:http://u:hunter2@h.example/?q={query}"\n'
    'map = ["ids=hits[].id"]\ntimeout = 20\ntop_k = 7\nheader = "X-Key: $DOCS_KEY"\n'
    '[target.code]\ntarget = "python:a:b"\n'
)


def test_every_option_is_in_the_form_with_its_label_and_help(server: httpx.Client) -> None:
    """Only the parts of a split evaluation cannot be entered: a page evaluates everything."""
    page = read_page(server.get("/evaluate").text)
    controls = [*page.tags("input"), *page.tags("select"), *page.tags("textarea")]
    names = {each.get("name") for each in controls}
    assert set(settings()) - names == {"shard_index", "num_shards"}
    for setting in form_settings():
        assert f"{setting.label}" in page.text
        assert setting.help in page.text
    assert server.get("/evaluations/new").headers["location"] == "/evaluate"


def test_a_field_without_effect_is_told(tmp_path: Path) -> None:
    given = {**DEFAULTS, "target": "builtin:dense"}
    assert form_problems(Ui(tmp_path), given) == {}
    for name, text in (("bm25", "k1=0.9"), ("mapping", "ids=hits")):
        problems = form_problems(Ui(tmp_path), given | {name: text})
        assert "has no effect" in problems["target"]


def test_all_that_is_wrong_is_told_by_field_and_nothing_is_started(
    server: httpx.Client, runs: Path, tmp_path: Path
) -> None:
    wrong = {"target": "nonsense", "gates": "ndcg@99>=0.1", "judge": "oracle", "answers": "on"}
    assert set(form_problems(Ui(tmp_path), wrong)) == {"target", "gates", "judge"}
    wrong |= {"top_k": "ten", "tags": "x"}
    assert form_problems(Ui(tmp_path), wrong) == {"top_k": "top_k must be an integer, got 'ten'"}
    before = len(list(runs.iterdir()))
    answer = server.post("/evaluate", data={"form_token": form_token(server), **wrong})
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
