"""Checks of an evaluation before it starts: what a visitor may ask for, and what a target answers.

Users of the pages on loopback could type the same in a terminal. Beyond loopback, a target
must run no code, start no process and read no file here, and every host that it contacts must be
one that the operator of the server has named. What a target does, its kind says.
"""

import asyncio
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from assay.contract.check import TargetReport, check_agent, parse_check_target
from assay.data import load_dataset
from assay.data.dataset import Dataset
from assay.data.load import KNOWN, is_available_offline
from assay.errors import UsageError
from assay.evaluation.gates import parse_gate
from assay.evaluation.plan import (
    check_target_health,
    http_request_settings,
    require_used_settings,
)
from assay.net.outbound import OutboundPolicy, split_address
from assay.net.redact import reveal
from assay.report.numbers import figure
from assay.run.config import RunConfig, settings
from assay.search.retriever import check_request
from assay.targets.health_check import HealthReport, query_of
from assay.targets.rest import require_public
from assay.targets.target_kinds import (
    TARGET_KINDS,
    check_permitted,
    parse_target,
    provider_addresses,
    provider_files,
)

TRY_TIMEOUT_S = 240.0
_MAX_HITS = 10
# A mapping may have blanks around its expression.
_REGULAR_EXPRESSION = re.compile(r"=\s*re:")


def require_permitted(target: str, policy: OutboundPolicy) -> None:
    """Raise `UsageError` for a target that may not be evaluated from these pages."""
    if not target:
        raise UsageError("enter a target, such as builtin:hybrid or http://localhost:9010")
    check_permitted(parse_target(target), policy)


def checks_of(
    config: RunConfig, policy: OutboundPolicy
) -> Iterator[tuple[str, Callable[[], object]]]:
    """What has to hold before an evaluation starts, with the field that it is about.

    Each check raises an `AssayError` if it does not hold.
    """
    from assay.llm.providers.opening import open_model

    for name in ("target", "baseline", "search"):
        if name == "target" or getattr(config, name):
            yield name, partial(require_permitted, getattr(config, name), policy)
    if policy.public_only:
        for name, problem in _forbidden(config, policy):
            words = "which remote visitors may not use; ask the operator to run it"
            yield name, partial(_fail, f"{problem}, {words}")
        yield "request", partial(require_public, http_request_settings(config), "")
    for gate in config.gates:
        yield "gates", partial(parse_gate, gate, config.top_k, config.compare_to)
    yield "target", partial(require_used_settings, config, given=settings())
    if config.judge:  # a wrong name is reported before the run, not after it
        yield "judge", partial(open_model, config.judge)


def _fail(problem: str) -> None:
    raise UsageError(problem)


def _forbidden(config: RunConfig, policy: OutboundPolicy) -> Iterator[tuple[str, str]]:
    """Fields in which a visitor from another machine names a file, a host or code, and what."""
    files = {
        "criteria": [config.criteria],
        "judge_set": [config.judge_set.calibration],
        "references": config.references,
        "faithfulness": [config.faithfulness],
        "searches": [config.searches],
        "dataset": [] if config.dataset in KNOWN else [config.dataset],
        "compare_to": [config.compare_to] if re.search(r"[/\\]|^\.", config.compare_to) else [],
    }
    for name, paths in files.items():
        for path in filter(None, paths):
            yield name, f"{name} {path!r} is a file on this server"
    if config.embedder:
        yield "embedder", "the embedder is one of this server"
    for address in provider_addresses(config.judge):
        if not policy.names(*split_address(address)):
            yield "judge", f"the judge {config.judge!r} is at a host that is not allowed"
    if provider_files(config.judge):
        yield "judge", f"the judge {config.judge!r} is a file on this server"
    # A regular expression can keep the server busy for hours.
    if any(map(_REGULAR_EXPRESSION.search, config.mapping)):
        yield "mapping", "the mapping has a regular expression (re:)"


class TriedHit(NamedTuple):
    """A document that came back for a tried query; `why` is empty if only the target knows."""

    doc_id: str
    title: str
    text: str
    grade: int | None
    why: str


@dataclass(frozen=True, slots=True)
class TriedQuery:
    """One query sent to the target of an evaluation: its hits, and what was found on the way."""

    query: str
    hits: Sequence[TriedHit]
    health: HealthReport | None = None
    contract: TargetReport | None = None


async def try_query(config: RunConfig, query: str, policy: OutboundPolicy) -> TriedQuery:
    """Ask the target of an evaluation as the run would; by default a query of the data set.

    The data set adds titles and grades if it is on this machine. An agent of the contract is also
    checked against it. Raises `TargetError` if the agent cannot be reached.
    """
    data, target = None, parse_target(reveal(config.target))
    is_builtin = TARGET_KINDS[target.kind].searches_dataset
    if is_builtin or is_available_offline(config.dataset):
        data = await asyncio.to_thread(load_dataset, config.dataset, columns=config.columns)
    asked = query or query_of(data)
    grades: Mapping[str, int] = {}
    if data is not None:  # the judgments of the query of these words, if it is one of the data set
        ids = (known.id for known in data.queries.values() if known.text == asked)
        grades = data.judgments.get(config.split, {}).get(next(ids, ""), {})
    health = contract = None
    if is_builtin and data is not None:
        found = await asyncio.to_thread(_explained, data, target.address, asked)
    else:
        health = await check_target_health(config, data, query=asked, policy=policy)
        spoken = parse_target(health.target)
        if spoken.kind == "http" and "://" in spoken.address:
            contract = await check_agent(*parse_check_target(spoken.address), policy=policy)
        doc_ids = next((call.doc_ids for call in health.calls if not call.failure), ())
        found = dict.fromkeys(doc_ids[:_MAX_HITS], "")
    hits = []
    for doc_id, why in found.items():
        document = data.documents.get(doc_id) if data else None
        title, text = (document.title, document.text) if document else ("", "")
        hits.append(TriedHit(doc_id, title or text[:60], text, grades.get(doc_id), why))
    return TriedQuery(asked, hits, health, contract)


def _explained(data: Dataset, mode: str, query: str) -> dict[str, str]:
    """What a built-in retriever finds, and what each score is made of."""
    from assay.search.index import open_retriever

    retriever = open_retriever(data, check_request(query, _MAX_HITS, mode))
    try:
        found = retriever.explain(query, _MAX_HITS, mode=check_request(query, _MAX_HITS, mode))
    finally:
        retriever.close()
    explained = {}
    for hit, why in found:
        terms = sorted(why.terms.items(), key=lambda term: -term[1])
        matched = ", ".join(f"{word} {figure(weight, 1)}" for word, weight in terms)
        shares = ", ".join(f"{name} {figure(share, 3)}" for name, share in why.shares.items())
        words = filter(None, (shares, f"words: {matched}" if matched else ""))
        explained[hit.doc_id] = "; ".join(words)
    return explained
