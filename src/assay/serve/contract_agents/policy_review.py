"""POLICY_REVIEW: may this resource be used in this way? Decided by rules in a readable file."""

import asyncio
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    AliasChoices,
    AliasPath,
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
)

from assay.contract.envelope import (
    AgentRunRequest,
    AgentRunResponse,
    ContractModel,
    Identifier,
    field_problems,
    read_inputs,
    succeeded,
)
from assay.contract.server import ReportProgress
from assay.errors import UsageError
from assay.files import read_text_file
from assay.net.json import JsonObject


def _texts(value: Any, label: str = "") -> Iterator[str]:
    """Every string, as `key: value` where it has a key: the key may be its label."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield str(key)
            yield from _texts(item, str(key).replace("_", " "))
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _texts(item, label)
    elif isinstance(value, str | int | float) and not isinstance(value, bool):
        yield f"{label}: {value}" if label else str(value)


UNNAMED = "unnamed"
"""The `resource_id` of a review that named no resource."""

_NO_RESOURCE = "inputs.resource_id is missing, and what has no name is not allowed"

BUILT_IN = Path(__file__).parent / "policy_rules.toml"

RiskLevel = Literal["low", "medium", "high"]
_LEVELS: tuple[RiskLevel, ...] = ("low", "medium", "high")


def _compiles(pattern: str) -> str:
    try:
        re.compile(pattern)
    except re.error:
        raise ValueError("not a regular expression") from None
    return pattern


class _Part(BaseModel):
    """An unknown key is an error in the file: a rule that is ignored gives no protection."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class PhiPattern(_Part):
    """A kind of protected information and how to recognize it."""

    kind: str
    pattern: Annotated[str, AfterValidator(_compiles)]


class RuleCondition(_Part):
    """What a request must be like; a field that is absent matches every request."""

    mode: list[str] | None = None
    risk_tier: list[str] | None = None
    domain: list[str] | None = None
    phi: bool | None = None
    kinds: list[str] | None = None


class PolicyRule(_Part):
    """A decision for the requests that match `when`, but not those that match `unless`."""

    id: str
    decision: Literal["allow", "deny"]
    risk_level: RiskLevel
    reason: str
    when: RuleCondition = RuleCondition()
    unless: RuleCondition | None = None


class PolicyFile(_Part):
    """The content of a rules file."""

    version: str
    phi: list[PhiPattern]
    rules: list[PolicyRule] = Field(min_length=1)


@dataclass(frozen=True, slots=True)
class Case:
    """What the rules are applied to. `kinds` of protected information were found in the inputs."""

    mode: str
    risk_tier: str
    domain: str
    kinds: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Decision:
    """What the rules decide. `reasons` name rules and kinds, never what was found."""

    allowed: bool
    risk_level: RiskLevel
    reasons: tuple[str, ...]
    rules: tuple[str, ...]


@dataclass(frozen=True)
class Policy:
    """The rules of a file, ready to be applied; a kind of PHI may have several patterns."""

    version: str
    rules: Sequence[PolicyRule]
    patterns: Sequence[tuple[str, re.Pattern[str]]]

    def phi_kinds(self, value: Any) -> tuple[str, ...]:
        """The kinds of PHI anywhere in a JSON value, keys included, in the order of the rules."""
        texts = list(_texts(value))
        found = [kind for kind, pattern in self.patterns if any(map(pattern.search, texts))]
        return tuple(dict.fromkeys(found))

    def decide(self, case: Case) -> Decision:
        """Allowed where a rule allows it and none denies it."""
        applied = [rule for rule in self.rules if _applies(rule, case)]
        decisions = {rule.decision for rule in applied}
        levels: list[RiskLevel] = [rule.risk_level for rule in applied] or ["high"]
        return Decision(
            allowed=decisions == {"allow"},
            risk_level=max(levels, key=_LEVELS.index),
            reasons=tuple(_reasons(applied, case)),
            rules=tuple(rule.id for rule in applied),
        )


def read_policy(path: Path | None = None) -> Policy:
    """The rules of `path`, or the built-in ones."""
    path = path or BUILT_IN
    try:
        content = tomllib.loads(read_text_file(path))
        file = PolicyFile.model_validate(content)
    except OSError as error:
        raise UsageError(f"cannot read the policy rules {str(path)!r}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"the policy rules {str(path)!r} are not TOML: {error}") from None
    except ValidationError as error:
        first = field_problems(error, PolicyFile)[0]
        raise UsageError(
            f"the policy rules {str(path)!r}: {first['field']} {first['problem']}; "
            f"see {str(BUILT_IN)!r} for the format"
        ) from None
    patterns = [(each.kind, re.compile(each.pattern)) for each in file.phi]
    return Policy(file.version, file.rules, patterns)


def _applies(rule: PolicyRule, case: Case) -> bool:
    return _holds(rule.when, case) and not (rule.unless and _holds(rule.unless, case))


def _holds(condition: RuleCondition, case: Case) -> bool:
    return (
        _among(case.mode, condition.mode)
        and _among(case.risk_tier, condition.risk_tier)
        and _among(case.domain, condition.domain)
        and condition.phi in (None, bool(case.kinds))
        and (condition.kinds is None or not set(condition.kinds).isdisjoint(case.kinds))
    )


def _among(value: str, allowed: list[str] | None) -> bool:
    return allowed is None or value.lower() in {each.lower() for each in allowed}


def _reasons(applied: Sequence[PolicyRule], case: Case) -> list[str]:
    reasons = [f"{rule.id}: {rule.reason}" for rule in applied]
    if case.kinds:
        reasons.append(f"found in the inputs: {', '.join(case.kinds)}")
    return reasons or ["no rule applies to this request, so it is not allowed"]


class PolicyInputs(ContractModel):
    """The inputs of the task. All others are searched for protected information, too."""

    resource_id: Identifier | None = Field(
        default=None,
        validation_alias=AliasChoices("resource_id", "resourceId", AliasPath("resource", "id")),
    )
    domain: str | None = Field(default=None, max_length=256)


@dataclass(frozen=True)
class PolicyReview:
    """The work of the agent."""

    policy: Policy

    async def __call__(self, request: AgentRunRequest, report: ReportProgress) -> AgentRunResponse:
        inputs = read_inputs(PolicyInputs, request)
        kinds = await asyncio.to_thread(self.policy.phi_kinds, request.inputs)
        report("inputs searched", percent=60, kinds=len(kinds))
        domain = inputs.domain or request.domain_id
        case = Case(request.mode, request.risk_tier, domain, kinds)
        decision = self.policy.decide(case)
        if inputs.resource_id is None:
            decision = replace(decision, allowed=False, reasons=(_NO_RESOURCE, *decision.reasons))
        report("decided", percent=100, rules=len(decision.rules))
        outputs: JsonObject = {
            "resource_id": inputs.resource_id or UNNAMED,
            "domain": domain,
            "allowed": decision.allowed,
            "reasons": list(decision.reasons),
            "risk_level": decision.risk_level,
        }
        provenance = {"policy_version": self.policy.version, "rules": list(decision.rules)}
        artifacts = [] if inputs.resource_id is None else [inputs.resource_id]
        return succeeded(request, outputs, artifacts=artifacts, provenance=provenance)
