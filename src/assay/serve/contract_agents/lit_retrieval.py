"""LIT_RETRIEVAL: papers for a query, from the indexed literature and, if asked for, PubMed."""

import time
from dataclasses import dataclass, field
from typing import Annotated

from pydantic import Field, StringConstraints

from assay.contract.envelope import (
    NO_FLAG,
    AgentRunRequest,
    AgentRunResponse,
    ContractModel,
    ErrorCode,
    TaskError,
    read_inputs,
    succeeded,
)
from assay.contract.server.runs import ReportProgress
from assay.net.json import JsonObject
from assay.search.retriever import MOST
from assay.serve.contract_agents.knowledge_bases import (
    ChunkQuery,
    FoundChunk,
    KnowledgeBase,
    KnowledgeBases,
)
from assay.serve.contract_agents.policy_review import PhiPatterns
from assay.serve.contract_agents.pubmed import PUBMED, Paper, PubMed, PubMedError, interleave
from assay.serve.contract_agents.rag_retrieve import search_chunks, tokens_in
from assay.serve.retrieval import SEARCHABLE

INDEX = "index"
"""The name, in `databases`, of the literature that the server was started with."""


class LiteratureInputs(ContractModel):
    """The inputs of the task."""

    query: Annotated[
        str, StringConstraints(strip_whitespace=True, min_length=1, max_length=1000), SEARCHABLE
    ]
    max_results: Annotated[int, Field(ge=1, le=200), NO_FLAG] = 25
    databases: list[Annotated[str, StringConstraints(min_length=1, max_length=64)]] = Field(
        default_factory=lambda: [INDEX], min_length=1, max_length=10
    )


@dataclass
class _Search:
    """What one run has found so far."""

    inputs: LiteratureInputs
    papers: list[list[Paper]] = field(default_factory=list)
    searched: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class LitRetrieval:
    """The work of the agent."""

    knowledge: KnowledgeBases
    pubmed: PubMed
    phi: PhiPatterns

    async def __call__(self, request: AgentRunRequest, report: ReportProgress) -> AgentRunResponse:
        started = time.perf_counter()
        search = _Search(read_inputs(LiteratureInputs, request))
        for name in dict.fromkeys(search.inputs.databases):
            if name == PUBMED:
                await self._ask_pubmed(request, search, report)
            else:
                await self._ask_index(None if name == INDEX else name, search, report)
        if not search.searched:
            raise TaskError(ErrorCode.TASK_FAILED, "; ".join(search.warnings))
        papers = interleave(search.papers, search.inputs.max_results)
        papers = _within(papers, request.budgets.max_context_tokens, search.warnings)
        report("merged", percent=95, papers=len(papers))
        outputs: JsonObject = {
            "papers": [each.to_wire() for each in papers],
            "count": len(papers),
            "duration_ms": round((time.perf_counter() - started) * 1000),
        }
        return succeeded(
            request,
            outputs,
            status="degraded" if search.warnings else "ok",
            artifacts=[each.id for each in papers],
            provenance={"databases": search.searched},
            warnings=search.warnings,
        )

    async def _ask_index(self, name: str | None, search: _Search, report: ReportProgress) -> None:
        base = await self.knowledge.find(name)
        report("index ready", percent=10, documents=base.size)
        most = min(search.inputs.max_results, MOST)
        found = await search_chunks(
            base, ChunkQuery(search.inputs.query, most, base.mode_for(None)), report
        )
        if len(found) == MOST < search.inputs.max_results:
            search.warnings.append(f"an index returns at most {MOST} papers for a query")
        search.searched.append(base.name)
        search.papers.append(_papers(found, base))

    async def _ask_pubmed(
        self, request: AgentRunRequest, search: _Search, report: ReportProgress
    ) -> None:
        """Only for a query that may leave this machine."""
        if request.risk_tier != "NON_SENSITIVE" or self.phi.kinds_in(search.inputs.query):
            search.warnings.append(
                "PubMed was not queried: the query may contain protected information"
            )
            return
        try:
            found = await self.pubmed.search(search.inputs.query, search.inputs.max_results)
        except PubMedError as error:
            search.warnings.append(str(error))
            return
        search.searched.append(PUBMED)
        search.papers.append(found)
        report("PubMed answered", percent=80, papers=len(found))


def _papers(found: list[FoundChunk], base: KnowledgeBase) -> list[Paper]:
    best = {chunk.doc_id: chunk for chunk in reversed(found)}
    ordered = dict.fromkeys(chunk.doc_id for chunk in found)
    return [_paper(best[doc_id], base) for doc_id in ordered]


def _paper(chunk: FoundChunk, base: KnowledgeBase) -> Paper:
    """With the complete abstract where it is known, else the part of it that was found."""
    document = base.document(chunk.doc_id)
    abstract = chunk.text if document is None else document.text
    return Paper.from_metadata(
        chunk.title, abstract, base.name, chunk.metadata, doc_id=chunk.doc_id
    )


def _within(papers: list[Paper], max_tokens: int | None, warnings: list[str]) -> list[Paper]:
    if max_tokens is None:
        return papers
    kept: list[Paper] = []
    for each in papers:
        max_tokens -= tokens_in(each.title) + tokens_in(each.abstract)
        if max_tokens < 0:
            break
        kept.append(each)
    if len(kept) < len(papers):
        left = len(papers) - len(kept)
        warnings.append(f"budgets.max_context_tokens: {left} papers were left out")
    return kept
