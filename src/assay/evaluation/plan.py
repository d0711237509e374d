"""Plans a run: draws its queries, selects the shard, validates the target and its options."""

import random
from collections.abc import Collection, Sequence
from functools import partial
from typing import TYPE_CHECKING

from assay.data.dataset import Dataset, Judgments, Query
from assay.errors import UsageError
from assay.extras import missing_extra
from assay.metrics.metric import (
    AP,
    MRR,
    CappedRecall,
    Hit,
    Judged,
    Metric,
    Precision,
    Recall,
    nDCG,
)
from assay.net.outbound import OutboundPolicy, policy_of_process
from assay.net.redact import mask_secrets, redact_known, reveal
from assay.progress import Progress, silent
from assay.run.config import CHUNK_KEY, RunConfig, settings
from assay.run.models import TargetRecord
from assay.targets.protocol import Agent, AgentInfo
from assay.targets.target_kinds import (
    TARGET_KINDS,
    OpenContext,
    RequestSettings,
    builtin_track,
    no_effect,
    open_target,
    parse_target,
    unused_in_mode,
)

if TYPE_CHECKING:
    from assay.targets.health_check import HealthReport

# Metrics at these depths too, if the agent is asked for more.
_USUAL_CUTS = (5, 10)
# The groups of options that only some kinds of targets use: see `TargetKind.settings`.
_OF_SOME_TARGETS = ("Target", "Built-in retriever")


def target_record(info: AgentInfo, called: str = "") -> TargetRecord:
    """What a run records of an agent that was opened, without its secrets."""
    return TargetRecord(
        **({"called": called} if called else {}),
        name=redact_known(str(mask_secrets(info.name))),
        protocol=info.protocol,
        details=redact_known(str(mask_secrets(info.details))),
        agent=info.agent,
    )


def draw_queries(dataset: Dataset, config: RunConfig) -> list[Query]:
    """The sample for a seed; the same as that of the public evaluator.

    All queries in file order where no number is asked for, else
    `random.Random(seed).sample(valid, n)`; a shard takes every num_shards-th of those.
    """
    find = dataset.questions_in if config.answers else dataset.queries_in
    valid = find(config.split)
    if not valid:
        usable = [split for split in sorted(dataset.judgments) if find(split)]
        remedy = f"choose another with --split: {', '.join(usable)}"
        raise UsageError(
            f"split {config.split!r} of data set {dataset.name!r} has no query with a relevant "
            f"document; {remedy if usable else 'grade a document 1 or more in its judgments'}"
        )
    drawn: Sequence[Query] = valid
    if config.num_queries is not None:
        if config.num_queries > len(valid):
            kind = "questions with a reference answer" if config.answers else "judged queries"
            raise UsageError(
                f"num_queries must be at most {len(valid)}, the {kind} of split "
                f"{config.split!r}, got {config.num_queries}"
            )
        drawn = random.Random(config.seed).sample(valid, config.num_queries)
    shard = list(drawn[config.shard_index :: config.num_shards])
    ranked = {query.id for query in dataset.queries_in(config.split)}
    if not any(query.id in ranked for query in shard):
        shards = f", shard {config.shard_index + 1} of {config.num_shards},"
        place = dataset.name + shards * (config.num_shards > 1)
        raise UsageError(
            f"none of the {len(shard)} questions drawn for {place} has an expected id, so no "
            "ranking can be measured; draw more questions or use fewer shards, or score logged "
            "answers with `assay score`"
        )
    return shard


def metrics_for(top_k: int, extra: Sequence[Metric] = ()) -> list[Metric]:
    """The headline first: nDCG at the depth that the agent was asked for."""
    metrics = [nDCG @ top_k, *(nDCG @ cut for cut in _USUAL_CUTS if cut < top_k)]
    metrics += [kind @ top_k for kind in (Recall, CappedRecall, Precision, MRR, Hit, AP, Judged)]
    metrics += [nDCG(gain="exp") @ top_k]
    return metrics + [metric for metric in extra if metric not in metrics]


def judgments_of(dataset: Dataset, config: RunConfig, queries: Sequence[Query]) -> Judgments:
    """The judgments of the queries that have any: an unanswerable question has none."""
    judgments = dataset.judgments_in(config.split)
    return {query.id: judgments[query.id] for query in queries if query.id in judgments}


def open_agent(config: RunConfig, dataset: Dataset, progress: Progress = silent) -> Agent:
    """The agent that a run's settings name, not yet connected.

    Raises `MissingExtra` where its kind needs a package that is not installed.
    """
    if TARGET_KINDS[parse_target(reveal(config.target)).kind].searches_dataset:
        dataset.require_documents(f"target {config.target!r}")
    try:
        return open_target(config.target, open_context(config, dataset, progress))
    except ImportError as error:
        raise missing_extra(error) or error from None


def open_context(
    config: RunConfig,
    dataset: Dataset,
    progress: Progress = silent,
    policy: OutboundPolicy | None = None,
) -> OpenContext:
    """What opening a target takes from a run's settings."""
    bm25 = embedder = mapping = None
    if config.bm25:
        from assay.search.bm25 import Bm25Settings

        bm25 = Bm25Settings.parse(config.bm25)
    if config.embedder:
        from assay.search.embedding import EmbedderSettings

        embedder = EmbedderSettings(config.embedder)
    if mapped := _mapped_fields(config):
        from assay.targets.answer_reader import parse_mapping

        mapping = parse_mapping([reveal(each) for each in mapped])
    return OpenContext(
        dataset,
        track=config.track,
        mapping=mapping,
        answers=config.answers,
        progress=progress,
        bm25=bm25,
        embedder=embedder,
        request=http_request_settings(config),
        policy=policy or policy_of_process(),
    )


def _mapped_fields(config: RunConfig) -> list[str]:
    """The mapping without `chunk=`, which applies to ids from every kind of target."""
    return [each for each in config.mapping if not each.startswith(CHUNK_KEY)]


async def check_target_health(
    config: RunConfig,
    dataset: Dataset | None = None,
    *,
    query: str = "",
    policy: OutboundPolicy | None = None,
) -> "HealthReport":
    """The health of a run's target, asked as the run would ask it, by default one of its queries.

    Its ids are compared with those of `dataset`. Raises `TargetError` if it cannot be reached.
    """
    from assay.targets.health_check import check_health, query_of

    searched = dataset or Dataset(name="none", documents={}, queries={}, judgments={})
    context = open_context(config, searched, policy=policy)
    asked = query or query_of(dataset)
    build = partial(open_target, context=context)
    return await check_health(config, asked, build, context.policy, dataset=dataset)


def http_request_settings(config: RunConfig) -> RequestSettings:
    """The settings of a run that are about HTTP requests."""
    preset, _, index = config.preset.partition(":")
    return RequestSettings(
        body=reveal(config.request),
        headers=tuple(map(reveal, config.headers)),
        preset=preset,
        index=index,
    )


def require_used_settings(
    config: RunConfig, given: Collection[str] = (), *, resumed: bool = False
) -> None:
    """Raise `UsageError` for a setting that neither the target nor the baseline uses.

    `given` are the settings that were chosen for this very run: a mapping that the environment or a
    file has for all runs may be of no use to one of them. Of a run that is `resumed` only those are
    checked: an earlier version may have accepted the others.
    """
    if config.fail_on_regression and not (config.compare_to or config.baseline):
        raise UsageError("--fail-on-regression needs --compare-to or --baseline; add one of them")
    named = [config.target, config.baseline] if config.baseline else [config.target]
    targets = [parse_target(each) for each in named]
    kinds = [TARGET_KINDS[each.kind] for each in targets]
    is_own = kinds[0].searches_dataset and config.track != "undeclared" and not resumed
    if is_own and builtin_track(targets[0].address, config.track) != config.track:
        raise UsageError(
            f"target {config.target!r} learns from judgments: it cannot be on the {config.track} "
            "track; leave out --tag track"
        )
    changed = {
        name: setting
        for name, setting in settings().items()
        if getattr(config, name) != setting.default and (name in given or not resumed)
    }
    for name, setting in changed.items():
        if setting.group not in _OF_SOME_TARGETS:
            continue
        if name == "mapping" and not _mapped_fields(config):
            continue
        if not any(name in each.settings for each in kinds):
            if name in given or name != "mapping":
                raise UsageError(no_effect(setting.flag, name, kinds[0]))
        elif name in given and all(name in unused_in_mode(each) for each in targets):
            raise UsageError(
                f"{setting.flag} has no effect on target {config.target!r}; leave it out"
            )
