"""CLAIM_VERIFY and POLICY_REVIEW: what is said is checked by rules, without a model.

POLICY_REVIEW allows a request if a rule of `policy_rules.toml` allows it and none denies it; its
reasons name rules and kinds of protected information, never what was found. In CLAIM_VERIFY, a
claim passes if a clause of a chunk has its content words in their order, its numbers and the same
hedges (may, some, all), and `assay.answers.differences` finds nothing that it says differently. It
fails if that finds another value, a negation or an opposite. Everything else is unclear: a
paraphrase may be true, which words alone cannot tell.
"""

import asyncio
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AliasChoices, AliasPath, BeforeValidator, Field, StringConstraints

from assay.answers.differences import differences
from assay.answers.values import polarity
from assay.contract.envelope import (
    AgentRunRequest,
    AgentRunResponse,
    ContractModel,
    Identifier,
    field_named,
    read_inputs,
    succeeded,
)
from assay.contract.server import ReportProgress
from assay.files import read_text_file
from assay.net.json import JsonObject
from assay.text import is_negation, is_stop, sentences, stem, words

MAX_CLAIMS = 200

_STRICTNESS = {"lenient": 0.85, "normal": 0.9, "strict": 1.0}
# "May lower" does not state "lowers", nor does a part state the whole.
_HEDGES = frozenset(words("may might could can would should if whether some all every only"))
_CLAUSE_END = re.compile(r"[;:]\s+|,\s+(?:but|and|while|whereas|although|though)\s+")


def _claim_text(value: Any) -> Any:
    """Callers send claims as strings, or as objects that contain the string."""
    return value.get("claim", value.get("text")) if isinstance(value, dict) else value


Claim = Annotated[
    str,
    StringConstraints(strip_whitespace=True, min_length=1, max_length=4000),
    BeforeValidator(_claim_text),
]


class ChunkInput(ContractModel):
    """A chunk or source of the grounding, in any dialect."""

    chunk_id: str = field_named("chunk_id", "chunkId", "id")
    text: str = field_named("text", "content", default="")


class GroundingInput(ContractModel):
    """The grounding to check claims against: `sources` count if there are no `chunks`."""

    chunks: list[ChunkInput] = Field(default_factory=list)
    sources: list[ChunkInput] = Field(default_factory=list)


class ClaimInputs(ContractModel):
    """The inputs of the task."""

    claims: list[Claim] = Field(max_length=MAX_CLAIMS)
    grounding: GroundingInput = field_named("groundingPack", "grounding_pack", "grounding")
    governance_mode: str | None = field_named("governanceMode", "governance_mode", default=None)
    strictness: Literal["lenient", "normal", "strict"] = "normal"


def verify_claim(claim: str, chunks: Sequence[tuple[str, str]], needed: float) -> JsonObject:
    """The verdict on one claim, with at most two quotes from `chunks`, ids and texts.

    `needed` is the share of the claim's content words that its evidence must have.
    """
    stating, denying, said = [], [], set(words(claim))
    numbers = {word for word in said if word[0].isdigit()}
    for chunk_id, text in chunks:
        for quote, is_clause in _quotes(text):
            if _shared(claim, quote) < needed:
                continue
            found, there = {"chunkId": chunk_id, "quote": quote}, set(words(quote))
            same_scope = numbers <= there and said & _HEDGES == there & _HEDGES
            if is_clause and differences(claim, {quote: chunk_id}):
                denying.append(found)
            # In a longer piece, a negation may belong to another statement.
            elif same_scope and (is_clause or polarity(quote)):
                stating.append(found)
    if stating and not denying:
        verdict, reason = "pass", "the grounding states it"
    elif denying and not stating:
        verdict, reason = "fail", "the grounding has another value, or says the opposite"
    else:
        verdict = "unclear"
        reason = "chunks disagree" if stating else "the grounding does not state it in these words"
    evidence = [*stating[:1], *denying[:1]]
    return {"claim": claim, "verdict": verdict, "evidence": evidence, "reason": reason}


def _quotes(text: str) -> Iterator[tuple[str, bool]]:
    """The clauses of a text, and its sentences of several clauses."""
    for sentence in sentences(text):
        clauses = [part for part in _CLAUSE_END.split(sentence) if part]
        yield from ((clause, True) for clause in clauses)
        if len(clauses) > 1:
            yield sentence, False


def _shared(claim: str, quote: str) -> float:
    """The share of the claim's content words that the quote has in the same order."""
    said, there = _content_stems(claim), _content_stems(quote)
    # `autojunk` would skip words that are frequent in a quote of 200 words or more.
    blocks = SequenceMatcher(None, said, there, autojunk=False).get_matching_blocks()
    return sum(block.size for block in blocks) / len(said) if said else 0.0


def _content_stems(text: str) -> list[str]:
    return [
        stem(word)
        for word in words(text)
        if not (is_stop(word) or is_negation(word) or word in _HEDGES or word[0].isdigit())
    ]


async def verify_claims(request: AgentRunRequest, report: ReportProgress) -> AgentRunResponse:
    """The work of the agent."""
    inputs = read_inputs(ClaimInputs, request)
    given = inputs.grounding.chunks or inputs.grounding.sources
    chunks = [(chunk.chunk_id, chunk.text) for chunk in given]
    chunks = chunks[: request.budgets.count_in_context(text for _, text in chunks)]
    is_cut = len(chunks) < len(given)
    warnings = ["budgets.max_context_tokens: not all of the grounding was read"] if is_cut else []
    if not inputs.claims:
        warnings.append("inputs.claims is empty: nothing was verified")
    report("grounding read", percent=10, chunks=len(chunks))
    needed, verdicts = _STRICTNESS[inputs.strictness], []
    for claim in inputs.claims:
        verdicts.append(await asyncio.to_thread(verify_claim, claim, chunks, needed))
        percent = round(10 + 90 * len(verdicts) / len(inputs.claims))
        report("checked", percent=percent, claims=len(verdicts))
    found = {verdict["verdict"] for verdict in verdicts}
    # Everywhere but in a plain demonstration, an unclear claim fails the whole.
    closed = {request.mode.upper(), (inputs.governance_mode or "DEMO").upper()} != {"DEMO"}
    passed = found == {"pass"} and not is_cut if closed else "fail" not in found
    quoted = [quote["chunkId"] for verdict in verdicts for quote in verdict["evidence"]]
    return succeeded(
        request,
        {"claim_verdicts": verdicts, "overallPass": passed},
        status="degraded" if is_cut else "ok",
        artifacts=list(dict.fromkeys(quoted)),
        provenance={"verifier": "words", "failsClosed": closed},
        warnings=warnings,
    )


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
