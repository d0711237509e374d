"""What a run will ask, and whom: the queries that are drawn, the shard of them, the target."""

import random
from collections.abc import Sequence
from dataclasses import asdict

from assay.agents.protocol import Agent, AgentInfo
from assay.agents.target_kinds import (
    TARGET_KINDS,
    RequestSettings,
    TargetKind,
    builtin_track,
)
from assay.agents.targets import open_target, parse_target
from assay.data.dataset import Dataset, Judgments, Query
from assay.errors import UsageError
from assay.extras import missing_extra
from assay.net.secret_text import mask_secrets, reveal
from assay.progress import Progress, silent
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
            f"shard {config.shard_index + 1} of {config.num_shards} is empty, since only "
            f"{len(drawn)} queries are drawn; use fewer shards"
        )
    ranked = {query.id for query in dataset.queries_in(config.split)}
    if not any(query.id in ranked for query in shard):
        place = f"drawn from {dataset.name!r}"
        remedy = "add ids, or score logged answers with `assay score`"
        if any(query.id in ranked for query in drawn):
            place = f"of shard {config.shard_index + 1} of {config.num_shards}"
            remedy = "use fewer shards, or draw more questions"
        elif all(_is_unanswerable(dataset, query) for query in shard):
            place += ", which are unanswerable,"
            remedy = "draw more questions, or add questions that the documents answer"
        raise UsageError(
            f"none of the {len(shard)} questions {place} has an expected id, so no ranking can be "
            f"measured; {remedy}"
        )
    return shard


def _is_unanswerable(dataset: Dataset, query: Query) -> bool:
    reference = dataset.answers.get(query.id)
    return reference is not None and reference.answer is None


def judgments_of(dataset: Dataset, config: RunConfig, queries: Sequence[Query]) -> Judgments:
    """Of those that have any: a question without an answer has no relevant document."""
    judgments = dataset.judgments_in(config.split)
    return {query.id: judgments[query.id] for query in queries if query.id in judgments}


def open_agent(config: RunConfig, dataset: Dataset, progress: Progress = silent) -> Agent:
    """The agent that a run's settings name, not yet connected.

    Raises `MissingExtra` where its kind needs a package that is not installed.
    """
    try:
        return _open_agent(config, dataset, progress)
    except ImportError as error:
        raise missing_extra(error) or error from None


def _open_agent(config: RunConfig, dataset: Dataset, progress: Progress) -> Agent:
    if TARGET_KINDS[parse_target(reveal(config.target)).kind].searches_dataset:
        dataset.require_documents(f"target {config.target!r}")
    mapping = None
    if config.mapping:
        from assay.agents.mapping import parse_mapping

        mapping = parse_mapping([reveal(each) for each in config.mapping])
    bm25 = None
    if chosen := config.bm25_settings():
        from assay.search.bm25 import Bm25Settings

        bm25 = Bm25Settings.chosen(chosen)
    embedder = None
    if config.embedder or config.model or config.device != "auto" or config.reranker:
        from assay.search.embedding import EmbedderSettings

        embedder = EmbedderSettings(config.embedder, config.model, config.device, config.reranker)
    return open_target(
        config.target,
        dataset,
        track=config.track,
        mapping=mapping,
        answers=config.answers,
        progress=progress,
        bm25=bm25,
        embedder=embedder,
        request=http_request_settings(config),
    )


def baseline_track(config: RunConfig, baseline: str) -> str:
    """What is declared of a baseline: `--track` is about the target, not about Assay's own one."""
    built_in = baseline and TARGET_KINDS[parse_target(baseline).kind].searches_dataset
    return "undeclared" if built_in else config.track


def http_request_settings(config: RunConfig) -> RequestSettings:
    """The settings of a run that are about HTTP requests."""
    return RequestSettings(
        body=reveal(config.request),
        method=config.method,
        headers=tuple(map(reveal, config.headers)),
        preset=config.preset,
        index=config.index,
    )


def refuse_unused_settings(config: RunConfig) -> None:
    """Raise `UsageError` for a setting that the target's kind does not use."""
    kind = TARGET_KINDS[parse_target(config.target).kind]
    _refuse_unused_retriever_settings(config, kind)
    _refuse_other_track(config, kind)
    names = {"body": "request", "headers": "header"}
    for field, value in asdict(http_request_settings(config)).items():
        if value and field not in kind.settings:
            users = [f"{each.name}:" for each in TARGET_KINDS.values() if field in each.settings]
            raise UsageError(
                f"--{names.get(field, field)} has no effect on a {kind.name}: target; it is for "
                f"{' and '.join(users)} targets"
            )


# Those of Assay's own retriever. A device is often set for a whole machine: it may be of no use.
_RETRIEVER_SETTINGS = (
    *("embedder", "model", "reranker"),
    *("bm25_k1", "bm25_b", "bm25_delta", "bm25_title_weight", "bm25_language", "bm25_stop_words"),
)


def _refuse_unused_retriever_settings(config: RunConfig, kind: TargetKind) -> None:
    kinds = [kind]
    if config.baseline:
        kinds.append(TARGET_KINDS[parse_target(config.baseline).kind])
    given = [name for name in _RETRIEVER_SETTINGS if getattr(config, name) not in (None, "")]
    if given and not any(each.searches_dataset for each in kinds):
        option = given[0].replace("_", "-")
        raise UsageError(
            f"--{option} has no effect on a {kind.name}: target, which brings its own search; it "
            "is for builtin: and purple: targets"
        )


def _refuse_other_track(config: RunConfig, kind: TargetKind) -> None:
    if not kind.searches_dataset or config.track == "undeclared":
        return
    target = parse_target(config.target)
    if builtin_track(target.address, config.track) != config.track:
        raise UsageError(
            f"target {config.target!r} learns from judgments: it cannot be on the {config.track} "
            "track; leave out --track"
        )
