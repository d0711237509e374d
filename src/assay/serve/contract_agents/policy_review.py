"""POLICY_REVIEW: may this resource be used in this way? Decided by `policy_rules.toml`.

A request is allowed if a rule allows it and none denies it. Reasons name rules and kinds of
protected information, never what was found.
"""

import asyncio
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import AliasChoices, AliasPath, Field

from assay.contract.envelope import (
    AgentRunRequest,
    AgentRunResponse,
    ContractModel,
    Identifier,
    read_inputs,
    succeeded,
)
from assay.contract.server import ReportProgress
from assay.files import read_text_file
from assay.net.json import JsonObject

_POLICY = tomllib.loads(read_text_file(Path(__file__).with_name("policy_rules.toml")))
# A kind may have several patterns.
_PHI = [(each["kind"], re.compile(each["pattern"])) for each in _POLICY["phi"]]
_LEVELS = ("low", "medium", "high")


class PolicyInputs(ContractModel):
    """The inputs of the task. All others are searched for protected information, too."""

    resource_id: Identifier | None = Field(
        default=None,
        validation_alias=AliasChoices("resource_id", "resourceId", AliasPath("resource", "id")),
    )
    domain: str | None = Field(default=None, max_length=256)


async def review_policy(request: AgentRunRequest, report: ReportProgress) -> AgentRunResponse:
    """The work of the agent."""
    inputs = read_inputs(PolicyInputs, request)
    kinds = await asyncio.to_thread(phi_kinds, request.inputs)
    report("inputs searched", percent=60, kinds=len(kinds))
    domain, named = inputs.domain or request.domain_id, inputs.resource_id
    applied = rules_for(request.mode, request.risk_tier, domain, kinds)
    report("decided", percent=100, rules=len(applied))
    reasons = [f"{rule['id']}: {rule['reason']}" for rule in applied]
    if kinds:
        reasons.append(f"found in the inputs: {', '.join(kinds)}")
    if not named:
        reasons.insert(0, "inputs.resource_id is missing, and what has no name is not allowed")
    # Where no rule applies, nothing says that the risk is low.
    levels = [rule["risk_level"] for rule in applied]
    outputs = {
        "resource_id": named or "unnamed",
        "domain": domain,
        "allowed": named is not None and {rule["decision"] for rule in applied} == {"allow"},
        "reasons": reasons or ["no rule applies to this request, so it is not allowed"],
        "risk_level": max(levels, key=_LEVELS.index, default="high"),
    }
    provenance = {"policy_version": _POLICY["version"], "rules": [rule["id"] for rule in applied]}
    return succeeded(request, outputs, artifacts=[named] if named else [], provenance=provenance)


def phi_kinds(value: Any) -> list[str]:
    """The kinds of protected information anywhere in a JSON value, keys included."""
    texts = list(_texts(value))
    found = [kind for kind, pattern in _PHI if any(map(pattern.search, texts))]
    return list(dict.fromkeys(found))


def _texts(value: Any, label: str = "") -> Iterator[str]:
    """Every string, as `key: value` if it has a key: the key may be its label."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield str(key)
            yield from _texts(item, str(key).replace("_", " "))
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _texts(item, label)
    # Numbers too: a caller may send the number of a record as one.
    elif isinstance(value, str | int | float) and not isinstance(value, bool):
        yield f"{label}: {value}" if label else str(value)


def rules_for(mode: str, risk_tier: str, domain: str, kinds: Sequence[str]) -> list[JsonObject]:
    """The rules that apply to a request in whose inputs these kinds were found."""
    asked = {"mode": mode.lower(), "risk_tier": risk_tier.lower(), "domain": domain.lower()}

    def holds(condition: Mapping[str, Any]) -> bool:
        fields = condition.keys() & asked.keys()
        return (
            all(asked[name] in map(str.lower, condition[name]) for name in fields)
            and condition.get("phi") in (None, bool(kinds))
            and ("kinds" not in condition or not set(condition["kinds"]).isdisjoint(kinds))
        )

    rules: list[JsonObject] = _POLICY["rules"]
    return [
        rule
        for rule in rules
        if holds(rule.get("when", {})) and not ("unless" in rule and holds(rule["unless"]))
    ]
