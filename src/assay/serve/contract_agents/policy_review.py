"""POLICY_REVIEW: may this resource be used in this way? Decided by rules that people can read."""

import asyncio
from dataclasses import dataclass
from typing import Any

from pydantic import AliasChoices, AliasPath, Field

from assay.contract.envelope import (
    AgentRunRequest,
    AgentRunResponse,
    ContractModel,
    Identifier,
    succeeded,
)
from assay.contract.refusals import read_inputs
from assay.contract.serving.execution import ReportProgress
from assay.serve.contract_agents.policy_rules import Case, Policy


class PolicyInputs(ContractModel):
    """The rest of the inputs is free: all of it is searched for protected information."""

    resource_id: Identifier = Field(
        validation_alias=AliasChoices("resource_id", "resourceId", AliasPath("resource", "id"))
    )
    domain: str | None = Field(default=None, max_length=256)


@dataclass(frozen=True)
class PolicyReview:
    policy: Policy

    async def __call__(self, request: AgentRunRequest, report: ReportProgress) -> AgentRunResponse:
        inputs = read_inputs(PolicyInputs, request)
        kinds = await asyncio.to_thread(self.policy.phi.kinds_in, request.inputs)
        report("inputs searched", percent=60, kinds=len(kinds))
        domain = inputs.domain or request.domain_id
        case = Case(request.mode, request.risk_tier, domain, kinds)
        decision = self.policy.decide(case)
        report("decided", percent=100, rules=len(decision.rules))
        outputs: dict[str, Any] = {
            "resource_id": inputs.resource_id,
            "domain": domain,
            "allowed": decision.allowed,
            "reasons": list(decision.reasons),
            "risk_level": decision.risk_level,
        }
        provenance = {"policy_version": self.policy.version, "rules": list(decision.rules)}
        return succeeded(request, outputs, artifacts=[inputs.resource_id], provenance=provenance)
