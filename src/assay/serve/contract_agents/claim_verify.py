"""CLAIM_VERIFY: does the grounding state each claim? Decided by words and values, without a model.

A claim passes if a clause of a chunk has its content words in their order, all of its numbers and
the same negations; without negations, two sentences in a row may have them. It fails if a clause
has its words with other numbers or negations. Everything else is unclear: a paraphrase may be true,
which words alone cannot tell.
"""

import asyncio
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import pairwise
from typing import Annotated, Any, Literal

from pydantic import AliasChoices, BeforeValidator, Field, StringConstraints

from assay.contract.envelope import (
    AgentRunRequest,
    AgentRunResponse,
    ContractModel,
    read_inputs,
    succeeded,
)
from assay.contract.server import ReportProgress
from assay.net.json import JsonObject
from assay.serve.contract_agents.rag_retrieve import CHARACTERS_PER_TOKEN
from assay.text import is_negation, is_stop, sentences, stem, words

MAX_CLAIMS = 200

_STRICTNESS = {"lenient": 0.85, "normal": 0.9, "strict": 1.0}
# "May lower" does not state "lowers", nor does a part state the whole.
_MODAL = frozenset(
    [
        "may",
        "might",
        "could",
        "can",
        "would",
        "should",
        "if",
        "whether",
        "some",
        "all",
        "every",
        "only",
    ]
)

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

    chunk_id: str = Field(validation_alias=AliasChoices("chunk_id", "chunkId", "id"))
    text: str = Field(default="", validation_alias=AliasChoices("text", "content"))


class GroundingInput(ContractModel):
    """The grounding to check claims against: `sources` count if there are no `chunks`."""

    chunks: list[ChunkInput] = Field(default_factory=list)
    sources: list[ChunkInput] = Field(default_factory=list)


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


@dataclass(frozen=True, slots=True)
class Statement:
    """A piece of text as it is compared: its content words in order, its numbers and negations.

    `is_clause` is false for two sentences in a row, or for one of several clauses.
    """

    chunk_id: str
    quote: str
    is_clause: bool
    terms: tuple[str, ...]
    numbers: frozenset[str]
    negations: Counter[str]

    @classmethod
    def read(cls, text: str, chunk_id: str = "", *, is_clause: bool = True) -> "Statement":
        """From a piece of a chunk, or from a claim."""
        found = words(text)
        turning = [word for word in found if is_negation(word) or word in _MODAL]
        numbers = frozenset(word for word in found if word[0].isdigit())
        terms = [
            stem(word)
            for word in found
            if word not in turning and word not in numbers and not is_stop(word)
        ]
        negations = Counter("not" if is_negation(word) else word for word in turning)
        return cls(chunk_id, text, is_clause, tuple(terms), numbers, negations)

    def share_in(self, text: "Statement") -> float:
        """The share of these content words that `text` has in the same order."""
        blocks = SequenceMatcher(None, self.terms, text.terms, autojunk=False)
        return sum(block.size for block in blocks.get_matching_blocks()) / len(self.terms)


def read_chunk(chunk_id: str, text: str) -> list[Statement]:
    """Its clauses, and longer pieces of up to two sentences, letter by letter as in its text."""
    found = sentences(text)
    clauses = [part for sentence in found for part in _CLAUSE_END.split(sentence) if part]
    pairs = [
        text[text.find(one) : text.find(two, text.find(one)) + len(two)]
        for one, two in pairwise(found)
    ]
    longer = [each for each in [*found, *pairs] if each and each not in clauses]
    return [Statement.read(each, chunk_id) for each in clauses] + [
        Statement.read(each, chunk_id, is_clause=False) for each in longer
    ]


def verify_claim(claim: str, grounding: Sequence[Statement], needed: float) -> JsonObject:
    """The verdict on one claim, with at most two quotes.

    Parameters:
        claim: what is claimed.
        grounding: the statements of all chunks.
        needed: the share of the claim's content words that its evidence must have.
    """
    asked = Statement.read(claim)
    about = [each for each in grounding if asked.terms and asked.share_in(each) >= needed]
    clauses = [each for each in about if each.is_clause]
    # In a longer piece, a number or negation may belong to another statement than the claim's.
    longer = [each for each in about if not each.negations and not asked.negations]
    stating = [
        each
        for each in clauses or longer
        if asked.numbers <= each.numbers and asked.negations == each.negations
    ]
    denying = [each for each in clauses if each not in stating and _differs(asked, each)]
    if stating and not denying:
        verdict, reason = "pass", "the grounding states it"
    elif denying and not stating:
        verdict, reason = "fail", "the grounding has other numbers or negations"
    else:
        verdict = "unclear"
        reason = "chunks disagree" if stating else "the grounding does not state it in these words"
    evidence = [
        {"chunkId": each.chunk_id, "quote": each.quote} for each in (*stating[:1], *denying[:1])
    ]
    return {"claim": claim, "verdict": verdict, "evidence": evidence, "reason": reason}


def _differs(claim: Statement, text: Statement) -> bool:
    """Whether the text denies the claim, or has other numbers; a modal word only weakens it."""
    other_numbers = bool(text.numbers) and not claim.numbers <= text.numbers
    return other_numbers or claim.negations["not"] != text.negations["not"]


async def verify_claims(request: AgentRunRequest, report: ReportProgress) -> AgentRunResponse:
    """The work of the agent."""
    inputs = read_inputs(ClaimInputs, request)
    chunks = inputs.grounding.chunks or inputs.grounding.sources
    passages, cut = _within(chunks, request.budgets.max_context_tokens)
    warnings = ["budgets.max_context_tokens: not all of the grounding was read"] if cut else []
    if not inputs.claims:
        warnings.append("inputs.claims is empty: nothing was verified")
    read = [await asyncio.to_thread(read_chunk, *passage) for passage in passages]
    grounding = [statement for each in read for statement in each]
    report("grounding read", percent=10, chunks=len(passages))
    verdicts = []
    for claim in inputs.claims:
        needed = _STRICTNESS[inputs.strictness]
        verdicts.append(await asyncio.to_thread(verify_claim, claim, grounding, needed))
        percent = round(10 + 90 * len(verdicts) / len(inputs.claims))
        report("checked", percent=percent, claims=len(verdicts))
    found = {each["verdict"] for each in verdicts}
    # Everywhere but in a plain demonstration, an unclear claim fails the whole.
    closed = {request.mode.upper(), (inputs.governance_mode or "DEMO").upper()} != {"DEMO"}
    passed = found == {"pass"} and not cut if closed else "fail" not in found
    quoted = [each["chunkId"] for verdict in verdicts for each in verdict["evidence"]]
    return succeeded(
        request,
        {"claim_verdicts": verdicts, "overallPass": passed},
        status="degraded" if cut else "ok",
        artifacts=list(dict.fromkeys(quoted)),
        provenance={"verifier": "words", "failsClosed": closed},
        warnings=warnings,
    )


def _within(
    chunks: Sequence[ChunkInput], max_tokens: int | None
) -> tuple[list[tuple[str, str]], bool]:
    """Ids and texts up to the budget, and whether it left any out."""
    passages = [(each.chunk_id, each.text) for each in chunks]
    if max_tokens is None:
        return passages, False
    left, read = max_tokens * CHARACTERS_PER_TOKEN, []
    for chunk_id, text in passages:
        read.append((chunk_id, text[: max(left, 0)]))
        left -= len(text)
    return read, left < 0
