"""Checks an agent from a page: the agent contract for `URL=TASK`, else a probe of its protocol."""

import asyncio
from collections.abc import Callable

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from assay.agents.health_check import HealthReport, SampleQuery, check_health, query_of
from assay.agents.mapping import parse_mapping
from assay.agents.protocol import Agent
from assay.agents.target_kinds import TARGET_KINDS, Target
from assay.agents.targets import open_target, parse_target
from assay.contract.conformance.checks import check_agent, parse_check_target
from assay.contract.conformance.report import TargetReport
from assay.data import load_dataset
from assay.data.dataset import Dataset
from assay.data.load import is_available_offline
from assay.errors import AssayError, TargetError
from assay.evaluation.plan import http_request_settings
from assay.net.outbound import UNRESTRICTED, OutboundPolicy
from assay.net.redact import reveal
from assay.run.config import RunConfig
from assay.serve.ui.context import ui_of

LONGEST_S = 240.0
_NOTHING = Dataset(name="none", documents={}, queries={}, judgments={})


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
        ui.rules.check_target(target)
        async with asyncio.timeout(LONGEST_S):
            contract, health = await check_target(target, query, ui.rules.policy)
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
    target: str, query: str = "", policy: OutboundPolicy = UNRESTRICTED
) -> tuple[TargetReport | None, HealthReport | None]:
    """The conformance report for `URL=TASK`, else a health check by the protocol found there.

    Parameters:
        target: the agent.
        query: the sample query of a health check; a usual one by default.
        policy: which addresses may be called.
    """
    parsed = parse_target(target)
    if not _is_contract(parsed):
        sample = SampleQuery(query=query) if query else SampleQuery()
        health = await check_health(target, sample, _opener(policy), policy)
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
    mapping = parse_mapping([reveal(each) for each in config.mapping])
    request = http_request_settings(config)

    def build(target: Target) -> Agent:
        return open_target(
            target,
            data or _NOTHING,
            mapping=mapping,
            answers=config.answers,
            request=request,
            policy=policy,
        )

    sample = SampleQuery(query_of(data), config.top_k, config.timeout, config.answers)
    return await check_health(config.target, sample, build, policy, dataset=data, mapping=mapping)


def _opener(policy: OutboundPolicy) -> Callable[[Target], Agent]:
    return lambda target: open_target(target, _NOTHING, policy=policy)


def _is_contract(target: Target) -> bool:
    """Whether it is `http:URL=TASK`; the conformance checks take no agent by its name."""
    return target.kind == "http" and "://" in target.address
