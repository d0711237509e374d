import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from assay.data import Dataset, load_dataset
from assay.data.dataset import ReferenceAnswer
from assay.errors import RunError, UsageError
from assay.evaluation.plan import draw_queries
from assay.run.config import RunConfig

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
    dataset = load_dataset("nfcorpus", archive=Path(os.environ["NFCORPUS_ARCHIVE"]))
    config = RunConfig(target="t", num_queries=len(expected), seed=seed)
    assert [q.id for q in draw_queries(dataset, config)] == [f"PLAIN-{n}" for n in expected]


def test_all_queries_in_file_order_where_no_number_is_given(
    make_dataset: Callable[[int], Dataset],
) -> None:
    drawn = draw_queries(make_dataset(5), RunConfig(target="t"))
    assert [query.id for query in drawn] == ["q0", "q1", "q2", "q3", "q4"]


def test_shards_partition_the_sample(make_dataset: Callable[[int], Dataset]) -> None:
    dataset = make_dataset(20)
    whole = draw_queries(dataset, RunConfig(target="t", num_queries=11))
    shards = [
        draw_queries(dataset, RunConfig(target="t", num_queries=11, shard_index=i, num_shards=3))
        for i in range(3)
    ]
    assert [len(shard) for shard in shards] == [4, 4, 3]
    assert sorted(q.id for shard in shards for q in shard) == sorted(q.id for q in whole)


def test_queries_without_a_relevant_document_are_not_drawn(
    make_dataset: Callable[[int], Dataset],
) -> None:
    dataset = make_dataset(3)
    judgments = {**dataset.judgments["test"], "q1": {"d0": 0}}
    only_zero = Dataset("tiny", dataset.documents, dataset.queries, {"test": judgments})
    assert [q.id for q in draw_queries(only_zero, RunConfig(target="t"))] == ["q0", "q2"]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"num_queries": 0}, "num_queries must be at least 1, got 0"),
        ({"num_queries": 4}, "num_queries must be at most 3"),
        ({"top_k": 0}, "top_k must be between 1 and 1000, got 0"),
        ({"concurrency": 0}, "concurrency must be between"),
        ({"seed": -1}, "seed must be between 0"),
        ({"seed": 2**70}, "seed must be between 0"),
        ({"num_shards": 9, "shard_index": 8}, "shard 9 of 9 is empty"),
        ({"timeout": 0}, "timeout must be a positive number"),
        ({"timeout": float("nan")}, "timeout must be a positive number"),
        ({"retries": -1}, "retries must be between"),
        ({"shard_index": 2, "num_shards": 2}, "shard_index must be between 0 and 1, got 2"),
        ({"track": "secret"}, "track must be one of zero-shot, trained, undeclared"),
        ({"split": "train"}, "has no split 'train'; it has: test"),
    ],
)
def test_settings_out_of_range_are_refused(
    make_dataset: Callable[[int], Dataset], settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        draw_queries(make_dataset(3), RunConfig(target="t", **settings))


def test_questions_without_a_ranking_are_refused_with_the_remedy(
    make_dataset: Callable[[int], Dataset],
) -> None:
    tiny = make_dataset(2)
    judgments = {"test": {"q0": tiny.judgments["test"]["q0"]}}
    answers = {"q0": ReferenceAnswer("q0", "yes"), "q1": ReferenceAnswer("q1", None)}
    dataset = replace(tiny, judgments=judgments, answers=answers)
    config = RunConfig(target="t", answers=True)
    assert len(draw_queries(dataset, config)) == 2
    with pytest.raises(UsageError, match=r"none of the 1 questions of shard 2 of 2.*fewer shards"):
        draw_queries(dataset, replace(config, shard_index=1, num_shards=2))
    dataset = replace(dataset, answers={"q1": answers["q1"]})
    with pytest.raises(UsageError, match=r"which are unanswerable.*draw more questions, or add"):
        draw_queries(dataset, config)


def test_a_config_survives_its_json() -> None:
    config = RunConfig(target="t", gates=("ndcg@5>=0.1",), num_queries=3)
    assert RunConfig.from_json({**config.to_json(), "gates": ["ndcg@5>=0.1"]}) == config


@pytest.mark.parametrize("values", [{"target": "t", "colour": 1}, {"dataset": "notes"}])
def test_a_config_of_another_version_is_refused(values: dict[str, Any]) -> None:
    with pytest.raises(RunError, match="not written by this version"):
        RunConfig.from_json(values)
