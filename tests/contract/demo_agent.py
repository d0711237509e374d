"""A small agent that conforms to the contract: it finds words in three documents."""

import asyncio
from typing import Any

from pydantic import BaseModel, Field

from assay.contract.envelope import (
    AgentRunRequest,
    AgentRunResponse,
    ErrorCode,
    GroundingChunk,
    GroundingPack,
    TaskError,
    read_inputs,
    succeeded,
)
from assay.contract.server import AgentService, ReportProgress, ServingLimits

DOCUMENTS = {
    "d1": "Vitamin D was given for a year and blood pressure did not change.",
    "d2": "Green tea lowered blood pressure a little.",
    "d3": "Statins lower cholesterol.",
}


class SearchInputs(BaseModel):
    query: str = Field(min_length=1, max_length=1000)
    topK: int = Field(default=10, ge=1, le=100)
    knowledgeBase: str = "demo"


async def search(request: AgentRunRequest, report: ReportProgress) -> AgentRunResponse:
    inputs = read_inputs(SearchInputs, request)
    if inputs.knowledgeBase != "demo":
        raise TaskError(ErrorCode.TASK_FAILED, "there is no such knowledge base")
    report("index ready", percent=10, documents=len(DOCUMENTS))
    await asyncio.sleep(0)
    found = _rank(inputs.query)[: inputs.topK]
    report("ranked", percent=90, candidates=len(found))
    return succeeded(
        request,
        {"chunks": found, "count": len(found)},
        artifacts=[chunk["chunk_id"] for chunk in found],
        grounding=GroundingPack(chunks=[GroundingChunk(**chunk) for chunk in found]),
    )


def _rank(query: str) -> list[dict[str, Any]]:
    words = set(query.lower().split())
    overlap = {key: len(words & set(text.lower().split())) for key, text in DOCUMENTS.items()}
    ranked = sorted((key for key in DOCUMENTS if overlap[key]), key=lambda key: -overlap[key])
    return [
        {
            "chunk_id": f"{key}__chunk_0",
            "doc_id": key,
            "text": DOCUMENTS[key],
            "score": float(overlap[key]),
        }
        for key in ranked
    ]


def demo_service(limits: ServingLimits | None = None) -> AgentService:
    return AgentService("demo", "RAG_RETRIEVE", search, limits=limits or ServingLimits())
