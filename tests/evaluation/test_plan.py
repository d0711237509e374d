import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tests.run.test_options import FULL
from tests.tiny_dataset import tiny_dataset

from assay.cli.app import app
from assay.data import load_dataset
from assay.data.dataset import ReferenceAnswer
from assay.errors import RunError, UsageError
from assay.evaluation.plan import draw_queries, require_used_settings
from assay.run.config import RunConfig, settings
from assay.targets.target_kinds import TARGET_KINDS

needs_nfcorpus = pytest.mark.skipif(
    "NFCORPUS_ARCHIVE" not in os.environ, reason="set NFCORPUS_ARCHIVE to the official nfcorpus.zip"
)


@needs_nfcorpus
@pytest.mark.parametrize(
    ("seed", "expected"),
    [
        (42, [634, 133, 1557, 1398, 1275, 782, 583, 3014, 499, 3271]),
        (777, [1309, 2500, 2071, 3191, 1537]),
    ],
)
def test_the_draw_is_that_of_the_public_evaluator(seed: int, expected: list[int]) -> None:
    dataset = load_dataset("nfcorpus")
    config = RunConfig(target="t", num_queries=len(expected), seed=seed)
    assert [q.id for q in draw_queries(dataset, config)] == [f"PLAIN-{n}" for n in expected]


def test_shards_partition_the_sample() -> None:
    dataset = tiny_dataset(20)
    everything = draw_queries(dataset, RunConfig(target="t"))
    assert [query.id for query in everything] == [f"q{n}" for n in range(20)]
    whole = draw_queries(dataset, RunConfig(target="t", num_queries=11))
    shards = [
        draw_queries(dataset, RunConfig(target="t", num_queries=11, shard_index=i, num_shards=3))
        for i in range(3)
    ]
    assert [len(shard) for shard in shards] == [4, 4, 3]
    assert sorted(q.id for shard in shards for q in shard) == sorted(q.id for q in whole)


def test_queries_without_a_relevant_document_are_not_drawn() -> None:
    dataset = tiny_dataset(2)
    nothing = {query_id: {"d0": 0} for query_id in dataset.queries}
    some = {**dataset.judgments["test"], "q1": {"d0": 0}}
    drawn = draw_queries(replace(dataset, judgments={"test": some}), RunConfig(target="t"))
    assert [query.id for query in drawn] == ["q0"]
    judgments = {"test": nothing, "dev": dataset.judgments["test"]}
    with pytest.raises(UsageError, match=r"choose another with --split: dev$"):
        draw_queries(replace(dataset, judgments=judgments), RunConfig(target="t"))
    with pytest.raises(UsageError, match="grade a document 1 or more"):
        draw_queries(replace(dataset, judgments={"test": nothing}), RunConfig(target="t"))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"num_queries": 0}, "num_queries must be at least 1, got 0"),
        ({"num_queries": 4}, "num_queries must be at most 3"),
        ({"top_k": 0}, "top_k must be between 1 and 1000, got 0"),
        ({"seed": -1}, "seed must be between 0"),
        ({"num_shards": 9, "shard_index": 8}, "shard 9 of 9.*use fewer shards"),
        ({"timeout": float("nan")}, "timeout must be between 0.001 and 86400"),
        ({"shard_index": 2, "num_shards": 2}, "shard_index must be between 0 and 1, got 2"),
        ({"track": "secret"}, "track must be one of zero-shot, trained, undeclared"),
        ({"split": "train"}, "has no split 'train'; it has: test"),
    ],
)
def test_settings_out_of_range_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        draw_queries(tiny_dataset(3), RunConfig(target="t", **settings))


def test_a_data_set_without_judgments_names_the_file_that_it_needs() -> None:
    with pytest.raises(UsageError, match=r"write qrels/test\.tsv"):
        draw_queries(replace(tiny_dataset(3), judgments={}), RunConfig(target="t"))


def test_questions_without_a_ranking_are_refused_with_the_remedy() -> None:
    tiny = tiny_dataset(2)
    judgments = {"test": {"q0": tiny.judgments["test"]["q0"]}}
    answers = {"q0": ReferenceAnswer("q0", "yes"), "q1": ReferenceAnswer("q1", None)}
    dataset = replace(tiny, judgments=judgments, answers=answers)
    config = RunConfig(target="t", answers=True)
    assert len(draw_queries(dataset, config)) == 2
    with pytest.raises(UsageError, match=r"none of the 1 .* shard 2 of 2.*fewer shards"):
        draw_queries(dataset, replace(config, shard_index=1, num_shards=2))
    dataset = replace(dataset, answers={"q1": answers["q1"]})
    with pytest.raises(UsageError, match="draw more questions"):
        draw_queries(dataset, config)


@pytest.mark.parametrize("values", [{"target": "t", "colour": 1}, {"dataset": "notes"}])
def test_a_config_of_another_version_is_refused(values: dict[str, Any]) -> None:
    with pytest.raises(RunError, match="not written by this version"):
        RunConfig.from_json(values)


# Settings that only some kinds of targets use are in the table of kinds. These are used by all:
# by the data, the calls, what is recorded and compared, or the evaluation of answers.
_OF_EVERY_TARGET = {"Usual options", "Data", "Calls", "Answers and judge", "Run", "Output"}
_TARGETS = {kind: f"{kind}:http://127.0.0.1:9" for kind in TARGET_KINDS} | {
    "builtin": "builtin:hybrid",
    "purple": "purple:hybrid",
    "python": "python:mine:find",
    "http": "http:http://127.0.0.1:9=RAG_RETRIEVE",
    "url": "http://127.0.0.1:9",
}


@pytest.mark.parametrize(
    "name", [n for n, o in settings().items() if o.group not in _OF_EVERY_TARGET]
)
def test_an_option_is_refused_where_the_kind_of_target_does_not_use_it(name: str) -> None:
    values = {name: getattr(FULL, name)} | ({"preset": "solr"} if name == "index" else {})
    users = [_TARGETS[kind] for kind, of in TARGET_KINDS.items() if name in of.settings]
    for kind, target in _TARGETS.items():
        config = RunConfig(target, **values)
        if target in users:
            require_used_settings(config, given=values)
            continue
        with pytest.raises(UsageError, match=f"has no effect on a {kind}: target"):
            require_used_settings(config, given=values)
        require_used_settings(replace(config, baseline=users[0]), given=values)


@pytest.mark.parametrize("name", [name for name, each in settings().items() if each.needs])
def test_an_option_is_refused_without_the_one_that_it_needs(name: str) -> None:
    needs = settings()[name].needs.replace("_", "-")
    with pytest.raises(UsageError, match=f"{name} needs --{needs}; set it as well"):
        RunConfig(target="rest:http://127.0.0.1:9", **{name: getattr(FULL, name)})


@pytest.mark.parametrize(
    ("target", "settings", "refused"),
    [
        ("builtin:dense", {"bm25": ("k1=0.9",)}, "--bm25"),
        ("purple:dense", {"bm25": ("language=german",)}, "--bm25"),
        ("builtin:bm25", {"embedder": "openai:m"}, "--embedder"),
        ("builtin:hybrid", {"bm25": ("k1=0.9",), "embedder": "openai:m"}, ""),
        ("builtin:bm25", {"embedder": "openai:m", "baseline": "builtin:dense"}, ""),
    ],
)
def test_options_belong_to_modes(target: str, settings: dict[str, Any], refused: str) -> None:
    config = RunConfig(target, **settings)
    require_used_settings(config)  # of the environment, for all runs
    if refused:
        with pytest.raises(UsageError, match=f"{refused} has no effect on target {target!r}"):
            require_used_settings(config, given=settings)
    else:
        require_used_settings(config, given=settings)


def test_a_regression_needs_something_to_compare_with() -> None:
    with pytest.raises(UsageError, match="needs --compare-to or --baseline"):
        require_used_settings(RunConfig("builtin:bm25", fail_on_regression=True))
    require_used_settings(RunConfig("builtin:bm25", fail_on_regression=True, compare_to="main"))


def test_of_a_resumed_run_only_what_is_given_now_is_checked() -> None:
    config = RunConfig("builtin:bm25", request="{}", mapping=("ids=hits",))
    require_used_settings(config, resumed=True)
    with pytest.raises(UsageError, match="--request has no effect on a builtin: target"):
        require_used_settings(config)


def test_a_mapping_of_the_project_leaves_other_targets_alone_and_runs_with_it_are_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "assay.toml").write_text('[eval]\nmap = ["ids=hits"]\n')
    command = ["eval", "builtin:bm25", "--dataset", "notes", "--num-queries", "2"]
    for arguments in (command, ["eval", "--resume", "latest"]):
        result = CliRunner().invoke(app, arguments)
        assert result.exit_code == 0, result.output
    monkeypatch.setenv("ASSAY_MAP", "ids=hits")
    assert CliRunner().invoke(app, ["doctor", "builtin:bm25", "--dataset", "notes"]).exit_code == 0
    refused = CliRunner().invoke(app, ["doctor", "builtin:bm25", "--map", "ids=hits"])
    assert "--map has no effect on a builtin: target" in str(refused.exception)
