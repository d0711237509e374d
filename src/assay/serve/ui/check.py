"""Checks of targets from the pages: what may be asked at all, and whether it answers well.

Users of the pages on loopback could type the same in a terminal. Beyond loopback, a target
must run no code, start no process and read no file here, and every host that it contacts must be
one that the operator of the server has named. What a target does, its kind says.

An agent is checked against the agent contract for `URL=TASK`, else by a probe of its protocol.
"""

import asyncio
import re
from collections.abc import Sequence
from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from assay.contract.conformance.checks import TargetReport, check_agent, parse_check_target
from assay.data import load_dataset
from assay.data.load import KNOWN, is_available_offline
from assay.errors import AssayError, TargetError, UsageError
from assay.evaluation.plan import check_target_health
from assay.net.outbound import VARIABLE, OutboundPolicy, split_address
from assay.net.redact import reveal
from assay.run.config import RunConfig
from assay.serve.ui.context import ui_of
from assay.targets.health_check import HealthReport
from assay.targets.opening import check_permitted, parse_target
from assay.targets.rest import refuse_local
from assay.targets.target_kinds import (
    TARGET_KINDS,
    RequestSettings,
    Target,
    provider_addresses,
    provider_files,
)

LONGEST_S = 240.0
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

    def check_embedder(self, embedder: str, device: str, reranker: str) -> None:
        """Visitors from other machines use the models that this server was started with."""
        if self.policy.public_only and (embedder or device != "auto" or reranker):
            raise UsageError(
                "the embedder or reranker names a file, a host or a device of this server, which "
                "remote visitors may not choose; leave it empty, or ask the operator of this "
                "server to set ASSAY_EMBEDDER or ASSAY_RERANKER"
            )

    def check_request(
        self, request: RequestSettings, mapping: Sequence[str], chunk_separator: str
    ) -> None:
        """Visitors from other machines read no file and no variable of this one."""
        if not self.policy.public_only:
            return
        refuse_local(request, "")
        if any(_REGULAR_EXPRESSION.search(each) for each in (*mapping, f"={chunk_separator}")):
            raise UsageError(
                "a regular expression can keep this server busy, so visitors may not send one; "
                "write a JMESPath expression, or a chunk separator without re:"
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


def check_routes() -> list[BaseRoute]:
    """The form, and the check that it starts."""
    return [
        Route("/check", check_form_page, methods=["GET"]),
        Route("/check", check_page, methods=["POST"]),
    ]


async def check_form_page(request: Request) -> Response:
    """The form, filled in from the address."""
    given = {name: request.query_params.get(name, "") for name in ("target", "query")}
    return ui_of(request).page(
        request, "check.html", given=given, contract=None, health=None, problem=""
    )


async def check_page(request: Request) -> Response:
    """Check an agent. This is a POST because it sends requests to another host."""
    ui = ui_of(request)
    given = {"target": "", "query": "", **await ui.form(request)}
    target, query = given["target"].strip(), given["query"].strip()
    contract, health, problem = None, None, ""
    try:
        TargetRules(ui.policy).check_target(target)
        async with asyncio.timeout(LONGEST_S):
            contract, health = await check_target(target, query, ui.policy)
    except TimeoutError:
        problem = f"the check was stopped after {LONGEST_S:g} s; is the agent responding?"
    except AssayError as error:
        problem = str(error)
    return ui.page(
        request,
        "check.html",
        status=422 if problem else 200,
        given=given,
        contract=contract,
        health=health,
        problem=problem,
    )


async def check_target(
    target: str, query: str, policy: OutboundPolicy
) -> tuple[TargetReport | None, HealthReport | None]:
    """The conformance report for `URL=TASK`, else a health check by the protocol found there.

    Parameters:
        target: the agent.
        query: the sample query of a health check; a usual one where it is empty.
        policy: which addresses may be called.
    """
    parsed = parse_target(target)
    if not _is_contract(parsed):
        health = await check_target_health(RunConfig(target=target), query=query, policy=policy)
        parsed = parse_target(health.target)
        if not _is_contract(parsed):
            return None, health
    report = await check_agent(parse_check_target(parsed.address), policy=policy)
    if report.unreachable:
        raise TargetError(report.unreachable)
    return report, None


async def check_config(config: RunConfig, policy: OutboundPolicy) -> HealthReport | None:
    """The health of an evaluation's target, asked as the run would; None for one that is built in.

    The answers are compared with the data set where that is on this machine.
    """
    if TARGET_KINDS[parse_target(reveal(config.target)).kind].searches_dataset:
        return None
    data = None
    if is_available_offline(config.dataset):
        data = await asyncio.to_thread(load_dataset, config.dataset, columns=config.columns)
    return await check_target_health(config, data, policy=policy)


def _is_contract(target: Target) -> bool:
    """Whether it is `http:URL=TASK`; the conformance checks take no agent by its name."""
    return target.kind == "http" and "://" in target.address
