"""CLAIM_VERIFY: does the grounding support each claim?"""

import asyncio
from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import AliasChoices, BeforeValidator, Field, StringConstraints

from assay.contract.envelope import (
    AgentRunRequest,
    AgentRunResponse,
    ContractModel,
    read_inputs,
    succeeded,
)
from assay.contract.server.runs import ReportProgress
from assay.net.json import JsonObject
from assay.serve.contract_agents.claim_evidence import STRICTNESS, ClaimFinding, EvidenceBase
from assay.serve.contract_agents.rag_retrieve import CHARACTERS_PER_TOKEN

MAX_CLAIMS = 200


def _claim_text(value: Any) -> Any:
    """Callers send claims as strings, or as objects that contain the string."""
    if isinstance(value, dict):
        return value.get("claim", value.get("text"))
    return value


Claim = Annotated[
    str,
    StringConstraints(strip_whitespace=True, min_length=1, max_length=4000),
    BeforeValidator(_claim_text),
]


class ChunkInput(ContractModel):
    """A chunk or source of the grounding, in any dialect."""

    chunk_id: str = Field(validation_alias=AliasChoices("chunk_id", "chunkId", "id"))
    text: str = Field(default="", validation_alias=AliasChoices("text", "content"))


class GroundingInput(ContractModel):
    """The grounding to check claims against."""

    chunks: list[ChunkInput] = Field(default_factory=list)
    sources: list[ChunkInput] = Field(default_factory=list)

    def passages(self) -> list[tuple[str, str]]:
        """Ids and texts; of the sources where there are no chunks."""
        return [(each.chunk_id, each.text) for each in self.chunks or self.sources]


class ClaimInputs(ContractModel):
    """The inputs of the task."""

    claims: list[Claim] = Field(max_length=MAX_CLAIMS)
    grounding: GroundingInput = Field(
        validation_alias=AliasChoices("groundingPack", "grounding_pack", "grounding")
    )
    governance_mode: str | None = Field(
        default=None, validation_alias=AliasChoices("governanceMode", "governance_mode")
    )
    strictness: Literal["lenient", "normal", "strict"] = "normal"


async def verify_claims(request: AgentRunRequest, report: ReportProgress) -> AgentRunResponse:
    """The work of the agent."""
    inputs = read_inputs(ClaimInputs, request)
    passages, warning = _within(inputs.grounding.passages(), request.budgets.max_context_tokens)
    evidence = await asyncio.to_thread(EvidenceBase, passages)
    report("grounding read", percent=10, chunks=len(passages))
    findings: list[ClaimFinding] = []
    for claim in inputs.claims:
        needed = STRICTNESS[inputs.strictness]
        findings.append(await asyncio.to_thread(evidence.check, claim, needed))
        percent = round(10 + 90 * len(findings) / len(inputs.claims))
        report("checked", percent=percent, claims=len(findings))
    quoted = [each.chunk_id for finding in findings for each in finding.evidence]
    closed = fails_closed(request.mode, inputs.governance_mode)
    warnings = [warning] if warning else []
    if not inputs.claims:
        warnings.append("inputs.claims is empty: nothing was verified")
    verdicts = list(map(_verdict_json, inputs.claims, findings))
    passed = _overall(findings, closed=closed, unread=warning is not None)
    return succeeded(
        request,
        {"claim_verdicts": verdicts, "overallPass": passed},
        status="degraded" if warning else "ok",
        artifacts=list(dict.fromkeys(quoted)),
        provenance={"verifier": "words", "failsClosed": closed},
        warnings=warnings,
    )


def fails_closed(mode: str, governance_mode: str | None) -> bool:
    """Whether an unclear claim fails the whole: everywhere but in a plain demonstration."""
    return any(each.upper() != "DEMO" for each in (mode, governance_mode or "DEMO"))


def _overall(findings: Sequence[ClaimFinding], *, closed: bool, unread: bool) -> bool:
    verdicts = {finding.verdict for finding in findings}
    if closed:
        return verdicts == {"pass"} and not unread
    return "fail" not in verdicts


def _verdict_json(claim: str, finding: ClaimFinding) -> JsonObject:
    return {
        "claim": claim,
        "verdict": finding.verdict,
        "evidence": [{"chunkId": each.chunk_id, "quote": each.quote} for each in finding.evidence],
        "reason": finding.reason,
    }


def _within(
    passages: list[tuple[str, str]], max_tokens: int | None
) -> tuple[list[tuple[str, str]], str | None]:
    if max_tokens is None:
        return passages, None
    left, read = max_tokens * CHARACTERS_PER_TOKEN, []
    for chunk_id, text in passages:
        if text and left <= 0:
            break
        read.append((chunk_id, text[:left]))
        left -= len(text)
    if left >= 0:
        return read, None
    return read, "budgets.max_context_tokens: not all of the grounding was read"
