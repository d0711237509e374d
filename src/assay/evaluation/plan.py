"""What a run will ask, and whom: the queries that are drawn, the shard of them, the target."""

import random
from collections.abc import Sequence

from assay.agents.protocol import AgentInfo
from assay.data.dataset import Dataset, Judgments, Query
from assay.errors import UsageError
from assay.net.secret_text import mask_secrets
from assay.run.config import RunConfig
from assay.run.models import TargetRecord


def target_record(info: AgentInfo) -> TargetRecord:
    """What a run records of an agent that was opened, without its secrets."""
    return TargetRecord(
        name=str(mask_secrets(info.name)),
        protocol=info.protocol,
        details=str(mask_secrets(info.details)),
        agent=info.agent,
    )


def draw_queries(dataset: Dataset, config: RunConfig) -> list[Query]:
    """The sample for a seed; the same as that of the public evaluator.

    All queries in file order where no number is asked for, else
    `random.Random(seed).sample(valid, n)`; a shard takes every num_shards-th of those.
    """
    valid = (
        dataset.questions_in(config.split) if config.answers else dataset.queries_in(config.split)
    )
    if not valid:
        raise UsageError(
            f"split {config.split!r} of data set {dataset.name!r} has no query with a relevant "
            "document, so nothing can be measured"
        )
    if config.num_queries is None:
        drawn: Sequence[Query] = valid
    elif config.num_queries > len(valid):
        kind = "questions with a reference answer" if config.answers else "judged queries"
        raise UsageError(
            f"num_queries must be at most {len(valid)}, the {kind} of split "
            f"{config.split!r}, got {config.num_queries}"
        )
    else:
        drawn = random.Random(config.seed).sample(valid, config.num_queries)
    shard = list(drawn[config.shard_index :: config.num_shards])
    if not shard:
        raise UsageError(
            f"shard {config.shard_index} of {config.num_shards} is empty, since only {len(drawn)} "
            "queries are drawn; use fewer shards"
        )
    return shard


def judgments_of(dataset: Dataset, config: RunConfig, queries: Sequence[Query]) -> Judgments:
    """Of those that have any: a question without an answer has no relevant document."""
    judgments = dataset.judgments_in(config.split)
    return {query.id: judgments[query.id] for query in queries if query.id in judgments}
