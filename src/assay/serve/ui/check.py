"""Checks of targets from the pages: what may be asked at all, and whether it answers well.

Users of the pages on loopback could type the same in a terminal. Beyond loopback, a target
must run no code, start no process and read no file here, and every host that it contacts must be
one that the operator of the server has named. What a target does, its kind says.

`try_query` sends one query to the target of an evaluation, and says what came back and why.
"""

import asyncio
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from assay.contract.check import TargetReport, check_agent, parse_check_target
from assay.data import load_dataset
from assay.data.dataset import Dataset
from assay.data.load import KNOWN, is_available_offline
from assay.errors import UsageError
from assay.evaluation.plan import check_target_health
from assay.net.outbound import VARIABLE, OutboundPolicy, split_address
from assay.net.redact import reveal
from assay.report.numbers import figure
from assay.run.config import RunConfig
from assay.search.explanation import Explanation
from assay.search.retriever import check_request
from assay.targets.health_check import HealthReport, query_of
from assay.targets.opening import check_permitted, parse_target
from assay.targets.rest import require_public
from assay.targets.target_kinds import (
    TARGET_KINDS,
    RequestSettings,
    provider_addresses,
    provider_files,
)

LONGEST_S = 240.0
SHOWN = 10
# A mapping may have blanks around its expression.
_REGULAR_EXPRESSION = re.compile(r"=\s*re:")


@dataclass(frozen=True)
class TargetRules:
    """`policy` restricts nothing on loopback: see `OutboundPolicy.for_server`."""

    policy: OutboundPolicy

    def check_target(self, target: str) -> None:
        if not target:
            raise UsageError("enter a target, such as builtin:hybrid or http://localhost:9010")
        check_permitted(parse_target(target), self.policy)

    def examples(self) -> list[str]:
        """Targets to offer in a form: those that may be evaluated here."""
        return [
            example
            for kind in TARGET_KINDS.values()
            for example in kind.examples
            if self._permits(example)
        ]

    def _permits(self, target: str) -> bool:
        try:
            self.check_target(target)
        except UsageError:
            return False
        return True

    def check_judge(self, judge: str) -> None:
        """As it is configured here, a judge may be used; at another address, only a named host."""
        if not self.policy.public_only:
            return
        strange = [
            address
            for address in provider_addresses(judge)
            if not self.policy.names(*split_address(address))
        ]
        if strange or provider_files(judge):
            raise UsageError(
                f"judge {judge!r} names a file or a host that remote visitors may not use; leave "
                "it empty, or ask the operator of this server to allow the host with "
                f"--allow-hosts or {VARIABLE}"
            )

    def check_embedder(self, embedder: str) -> None:
        """Visitors from other machines use the model that this server was started with."""
        if self.policy.public_only and embedder:
            raise UsageError(
                "the embedder names a file or a host of this server, which remote visitors may not "
                "choose; leave it empty, or ask its operator to set ASSAY_EMBEDDER"
            )

    def check_request(self, request: RequestSettings, mapping: Sequence[str]) -> None:
        """Visitors from other machines read no file and no variable of this one."""
        if not self.policy.public_only:
            return
        require_public(request, "")
        if any(_REGULAR_EXPRESSION.search(each) for each in mapping):
            raise UsageError(
                "a regular expression can keep this server busy, so visitors may not send one; "
                "write a JMESPath expression, or a text without re:"
            )

    def check_dataset(self, dataset: str) -> None:
        if self.policy.public_only and dataset not in KNOWN:
            known = ", ".join(KNOWN)
            raise UsageError(f"data set {dataset!r} is not available here; choose one of: {known}")

    def check_file(self, name: str, path: str) -> None:
        """Visitors from other machines name no file of this one."""
        if path and self.policy.public_only:
            raise UsageError(
                f"{name} {path!r} is a file on this server, which remote visitors may not use; "
                "leave it empty, or open the pages on 127.0.0.1"
            )

    def check_run_name(self, run: str) -> None:
        """Nor a folder outside of the runs."""
        if self.policy.public_only and re.search(r"[/\\]|^\.", run):
            raise UsageError(
                f"{run!r} is a folder on this server, which remote visitors may not name; enter a "
                "label, a branch or the name of a run"
            )


@dataclass(frozen=True, slots=True)
class TriedHit:
    """A document that came back for a tried query; `why` is empty if only the target knows."""

    doc_id: str
    title: str
    text: str
    grade: int | None
    why: str = ""


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
    own = TARGET_KINDS[target.kind].searches_dataset
    if own or is_available_offline(config.dataset):
        data = await asyncio.to_thread(load_dataset, config.dataset, columns=config.columns)
    asked = query or query_of(data)
    if own and data is not None:
        hits = await asyncio.to_thread(_explained_hits, config, data, target.address, asked)
        return TriedQuery(asked, hits)
    health = await check_target_health(config, data, query=asked, policy=policy)
    contract = None
    found = parse_target(health.target)
    if found.kind == "http" and "://" in found.address:
        contract = await check_agent(parse_check_target(found.address), policy=policy)
    ids = next((call.doc_ids for call in health.calls if not call.failure), ())
    grades = _grades(data, config.split, asked)
    hits = [_hit(data, doc_id, grades) for doc_id in ids[:SHOWN]]
    return TriedQuery(asked, hits, health, contract)


def _explained_hits(config: RunConfig, data: Dataset, mode: str, query: str) -> list[TriedHit]:
    """What a built-in retriever finds, and what each score is made of."""
    from assay.search.index import open_retriever

    retriever = open_retriever(data, check_request(query, SHOWN, mode))
    try:
        found = retriever.explain(query, SHOWN, mode=check_request(query, SHOWN, mode))
    finally:
        retriever.close()
    grades = _grades(data, config.split, query)
    return [_hit(data, hit.doc_id, grades, _words(why)) for hit, why in found]


def _words(why: Explanation) -> str:
    shares = ", ".join(f"{name} {figure(share, 3)}" for name, share in why.shares.items())
    terms = sorted(why.terms.items(), key=lambda term: -term[1])
    matched = ", ".join(f"{word} {figure(weight, 1)}" for word, weight in terms)
    return "; ".join(filter(None, (shares, f"words: {matched}" if matched else "")))


def _grades(data: Dataset | None, split: str, query: str) -> Mapping[str, int]:
    """The judgments of the query of these words, if the data set has one."""
    if data is None or split not in data.judgments:
        return {}
    ids = (each.id for each in data.queries.values() if each.text == query)
    return data.judgments[split].get(next(ids, ""), {})


def _hit(data: Dataset | None, doc_id: str, grades: Mapping[str, int], why: str = "") -> TriedHit:
    document = data.documents.get(doc_id) if data else None
    text = document.text if document else ""
    title = document.title or text[:60] if document else ""
    return TriedHit(doc_id, title, text, grades.get(doc_id), why)
