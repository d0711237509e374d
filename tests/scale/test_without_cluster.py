"""What is said where there is no Ray cluster."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from assay import ray_cluster
from assay.cli.app import app
from assay.data import load_dataset
from assay.errors import AssayError, RunError, TargetError
from assay.evaluation import merge as shards
from assay.ray_cluster import RayCluster
from assay.run.config import RunConfig


@pytest.mark.parametrize("place", ["variable", "session"])
def test_no_cluster_is_told(place: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Also where a head that died has left its session file."""
    monkeypatch.delenv("RAY_task_oom_retries", raising=False)
    if place == "variable":
        monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:9")
    else:
        (tmp_path / "ray").mkdir()
        (tmp_path / "ray" / "ray_current_cluster").write_text("127.0.0.1:9\n")
        monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))
    with pytest.raises(TargetError, match=r"no Ray cluster responds at 127\.0\.0\.1:9.*ray stop"):
        RayCluster().__enter__()
    # By default Ray never gives up.
    assert os.environ["RAY_task_oom_retries"] == "3"  # noqa: SIM112
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(AssayError, match=r"pip install 'agent-assay\[ray\]'"):
        RayCluster().__enter__()


def test_a_worker_of_another_version_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    here = ray_cluster._versions()
    assert ray_cluster._call(lambda: "done", {}, here) == "done"
    monkeypatch.setattr(ray_cluster, "version", lambda _name: "0.0.1")
    monkeypatch.setattr("socket.gethostname", lambda: "node-7")
    with pytest.raises(TargetError, match=rf"node-7 has agent-assay 0\.0\.1.*machine has {here}"):
        ray_cluster._call(lambda: "done", {}, here)


def test_workers_get_tokens_of_targets_and_judges_and_no_other_secret() -> None:
    assert "MCP_SERVER_TOKEN".startswith(ray_cluster._SENT)
    assert not "AWS_SECRET_ACCESS_KEY".startswith(ray_cluster._SENT)


@pytest.mark.parametrize(
    ("end", "told"),
    [
        (TargetError("the head is gone"), r"2 of 3 shards failed; shard 3: it broke; run"),
        (KeyboardInterrupt(), r"^interrupted; run"),
    ],
)
def test_shards_that_came_before_the_end_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: BaseException, told: str
) -> None:
    def two_of(_cluster: RayCluster, run_shard: Any, parts: Any) -> Iterator[tuple[int, Any]]:
        yield 0, run_shard(*parts[0])
        yield 2, AssayError("it broke")  # a reason of its own, which is told
        raise end

    monkeypatch.setattr(RayCluster, "share", lambda _cluster, value: value)
    monkeypatch.setattr(RayCluster, "map", two_of)
    config = RunConfig(target="builtin:bm25", dataset="notes", num_queries=6)
    kind = KeyboardInterrupt if isinstance(end, KeyboardInterrupt) else RunError
    with pytest.raises(kind, match=rf"{told} each missing shard with --shard I/3"):
        shards.evaluate_on_cluster(config, load_dataset("notes"), 3, RayCluster(), tmp_path)


def test_options_that_belong_together_are_refused_alone() -> None:
    for words, message in (
        (["eval", "builtin:bm25", "--dataset", "notes", "--shard", "2"], "write I/N with I from 1"),
        (["index", "--dataset", "notes", "--out", "x"], "without --shard I/N; add it"),
        (["index", "--dataset", "notes", "--shard", "1/2", "--engine", "ray"], "pass one of them"),
    ):
        assert message in str(CliRunner().invoke(app, words).exception)
