"""The EvalRequest: what is taken, what is refused, and how little of it is said again."""

import re
from typing import Any

import pytest

from assay.data import Dataset
from assay.run.config import RunConfig
from assay.serve.a2a import TaskRefused, read_request
from assay.serve.green.request import EvalRequest, to_config

AGENT = "http://127.0.0.1:9010"


def order(tiny: Dataset, *, agent: Any = AGENT, **config: Any) -> tuple[RunConfig, list[str]]:
    asked = {"participants": {"retrieval_agent": agent}, "config": config}
    return to_config(read_request(EvalRequest, asked), tiny, "tiny", 8)


def test_unknown_keys_are_named_briefly_whatever_they_are(tiny: Dataset) -> None:
    keys = {f"{number:03}{'k' * 10_000}": 1 for number in range(500)}
    (warning,) = order(tiny, **keys)[1]
    assert warning.startswith("config: ignored unknown keys: '000kkk")
    assert len(warning) < 600
    asked = {"participants": {"retrieval_agent": AGENT, "judge": "http://judge"}}
    _, warnings = to_config(read_request(EvalRequest, asked), tiny, "tiny", 8)
    assert warnings == ["participants: not evaluated: 'judge'"]


@pytest.mark.parametrize(
    "url", ["http://h/" + "x" * 3000, "http://user:secret@h/", "ftp://x", None, 7]
)
def test_a_wrong_address_is_refused_and_not_repeated(tiny: Dataset, url: Any) -> None:
    with pytest.raises(TaskRefused, match=r"^participants") as refused:
        order(tiny, agent=url)
    assert "xxx" not in str(refused.value)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    ("config", "variables", "name", "value"),
    [
        ({"timeout": 2.5}, {"ASSAY_TIMEOUT": "7.5"}, "timeout", 2.5),
        ({"random_seed": "7"}, {}, "seed", 7),
        ({"track": "zero-shot"}, {"ASSAY_TRACK": "trained"}, "track", "zero-shot"),
        ({}, {"ASSAY_TIMEOUT": "7.5"}, "timeout", 7.5),
        ({}, {"ASSAY_WARM_UP": "0"}, "warm_up", 0),
    ],
)
def test_a_request_decides_how_it_is_evaluated_then_the_environment(
    tiny: Dataset,
    monkeypatch: pytest.MonkeyPatch,
    config: dict[str, Any],
    variables: dict[str, str],
    name: str,
    value: Any,
) -> None:
    for variable, given in variables.items():
        monkeypatch.setenv(variable, given)
    assert getattr(order(tiny, **config)[0], name) == value


@pytest.mark.parametrize(
    ("config", "field"),
    [
        *(
            ({field: value}, f"config.{field}: ")
            for field in ("num_queries", "top_k", "shard_index")
            for value in (True, 2.5, -1)
        ),
        ({"random_seed": 2**53}, "config.random_seed: "),
        ({"num_queries": 41}, "config.num_queries: at most 40"),
        ({"top_k": 101}, "config.top_k: "),
        ({"num_shards": 2, "shard_index": 2}, "config.shard_index"),
        ({"num_queries": 2, "num_shards": 3}, "config.num_shards: at most 2"),
        ({"mcp_server_url": "nowhere"}, "config.mcp_server_url: "),
        ({"concurrency": 65}, "config.concurrency: "),
        ({"answers": "perhaps"}, "config.answers: "),
        ({"compare_to": "../other/runs/main"}, "config.compare_to: "),
    ],
)
def test_a_wrong_setting_is_refused(tiny: Dataset, config: dict[str, Any], field: str) -> None:
    with pytest.raises(TaskRefused, match=f"^{re.escape(field)}"):
        order(tiny, **config)
