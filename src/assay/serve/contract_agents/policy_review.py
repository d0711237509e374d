"""POLICY_REVIEW: may this resource be used in this way? Decided by rules in a readable file."""

import asyncio
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
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

# The `resource_id` of a review that named no resource.
UNNAMED = "unnamed"

BUILT_IN = Path(__file__).parent / "policy_rules.toml"

_NO_RESOURCE = "inputs.resource_id is missing, and what has no name is not allowed"
_LEVELS = ("low", "medium", "high")


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

    def holds(self, mode: str, risk_tier: str, domain: str, kinds: Sequence[str]) -> bool:
        """Whether a request is like this; `kinds` of PHI were found in its inputs."""
        given = ((mode, self.mode), (risk_tier, self.risk_tier), (domain, self.domain))
        named = all(
            allowed is None or value.lower() in {name.lower() for name in allowed}
            for value, allowed in given
        )
        found = self.phi in (None, bool(kinds))
        return named and found and (self.kinds is None or not set(self.kinds).isdisjoint(kinds))


class PolicyRule(_Part):
    """A decision for the requests that match `when`, but not those that match `unless`."""

    id: str
    decision: Literal["allow", "deny"]
    risk_level: Literal["low", "medium", "high"]
    reason: str
    when: RuleCondition = RuleCondition()
    unless: RuleCondition | None = None


class PolicyFile(_Part):
    """The content of a rules file."""

    version: str
    phi: list[PhiPattern]
    rules: list[PolicyRule] = Field(min_length=1)


@dataclass(frozen=True, slots=True)
class Decision:
    """What the rules decide. `reasons` name rules and kinds, never what was found."""

    allowed: bool
    risk_level: str
    reasons: list[str]
    rules: list[str]


@dataclass(frozen=True)
class Policy:
    """The rules of a file, ready to be applied; a kind of PHI may have several patterns."""

    version: str
    rules: Sequence[PolicyRule]
    patterns: Sequence[tuple[str, re.Pattern[str]]]

    def phi_kinds(self, value: Any) -> list[str]:
        """The kinds of PHI anywhere in a JSON value, keys included, in the order of the rules."""
        texts = list(_texts(value))
        found = [kind for kind, pattern in self.patterns if any(map(pattern.search, texts))]
        return list(dict.fromkeys(found))

    def decide(self, mode: str, risk_tier: str, domain: str, kinds: Sequence[str]) -> Decision:
        """Allowed if a rule allows it and none denies it."""
        request = (mode, risk_tier, domain, kinds)
        applied = [
            rule
            for rule in self.rules
            if rule.when.holds(*request) and not (rule.unless and rule.unless.holds(*request))
        ]
        reasons = [f"{rule.id}: {rule.reason}" for rule in applied]
        levels = [rule.risk_level for rule in applied]
        if kinds:
            reasons.append(f"found in the inputs: {', '.join(kinds)}")
        return Decision(
            allowed={rule.decision for rule in applied} == {"allow"},
            risk_level=max(levels, key=_LEVELS.index, default="high"),
            reasons=reasons or ["no rule applies to this request, so it is not allowed"],
            rules=[rule.id for rule in applied],
        )


def _texts(value: Any, label: str = "") -> Iterator[str]:
    """Every string, as `key: value` if it has a key: the key may be its label."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield str(key)
            yield from _texts(item, str(key).replace("_", " "))
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _texts(item, label)
    elif isinstance(value, str | int | float) and not isinstance(value, bool):
        yield f"{label}: {value}" if label else str(value)


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
    patterns = [(part.kind, re.compile(part.pattern)) for part in file.phi]
    return Policy(file.version, file.rules, patterns)


class PolicyInputs(ContractModel):
    """The inputs of the task. All others are searched for protected information, too."""

    resource_id: Identifier | None = Field(
        default=None,
        validation_alias=AliasChoices("resource_id", "resourceId", AliasPath("resource", "id")),
    )
    domain: str | None = Field(default=None, max_length=256)


async def review_policy(
    policy: Policy, request: AgentRunRequest, report: ReportProgress
) -> AgentRunResponse:
    """The work of the agent."""
    inputs = read_inputs(PolicyInputs, request)
    kinds = await asyncio.to_thread(policy.phi_kinds, request.inputs)
    report("inputs searched", percent=60, kinds=len(kinds))
    domain, named = inputs.domain or request.domain_id, inputs.resource_id
    decision = policy.decide(request.mode, request.risk_tier, domain, kinds)
    report("decided", percent=100, rules=len(decision.rules))
    return succeeded(
        request,
        {
            "resource_id": named or UNNAMED,
            "domain": domain,
            "allowed": decision.allowed and named is not None,
            "reasons": decision.reasons if named else [_NO_RESOURCE, *decision.reasons],
            "risk_level": decision.risk_level,
        },
        artifacts=[named] if named else [],
        provenance={"policy_version": policy.version, "rules": decision.rules},
    )
