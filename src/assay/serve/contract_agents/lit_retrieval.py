"""LIT_RETRIEVAL: papers for a query, from the data set of the server and from knowledge bases."""

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest
from typing import Annotated, Any
from urllib.parse import unquote

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
from assay.contract.server import ReportProgress
from assay.net.json import JsonObject
from assay.search.retriever import MAX_TOP_K
from assay.serve.contract_agents.knowledge_bases import (
    ChunkQuery,
    FoundChunk,
    KnowledgeBase,
    KnowledgeBases,
)
from assay.serve.contract_agents.rag_retrieve import search_chunks, tokens_in
from assay.serve.retrieval import SEARCHABLE

INDEX = "index"
"""The name, in `databases`, of the literature that the server was started with."""

_YEAR = re.compile(r"\b(1[5-9]\d\d|20\d\d)\b")
_PUBMED_URL = re.compile(r"(?:ncbi\.nlm\.nih\.gov/pubmed|pubmed\.ncbi\.nlm\.nih\.gov)/(\d{1,9})")


class LiteratureInputs(ContractModel):
    """The inputs of the task."""

    query: Annotated[
        str, StringConstraints(strip_whitespace=True, min_length=1, max_length=1000), SEARCHABLE
    ]
    max_results: Annotated[int, Field(ge=1, le=200), NO_FLAG] = 25
    databases: list[Annotated[str, StringConstraints(min_length=1, max_length=64)]] = Field(
        default_factory=lambda: [INDEX], min_length=1, max_length=10
    )


@dataclass(frozen=True)
class LitRetrieval:
    """The work of the agent."""

    knowledge: KnowledgeBases

    async def __call__(self, request: AgentRunRequest, report: ReportProgress) -> AgentRunResponse:
        started = time.perf_counter()
        inputs = read_inputs(LiteratureInputs, request)
        warnings: list[str] = []
        found: dict[str, list[JsonObject]] = {}
        for name in dict.fromkeys(inputs.databases):
            try:
                base = await self.knowledge.find(None if name == INDEX else name)
            except TaskError as error:
                warnings.append(f"a database was not searched: {error.message}")
            else:
                found[base.name] = await _papers(base, inputs, report)
        if not found:
            raise TaskError(ErrorCode.TASK_FAILED, "; ".join(dict.fromkeys(warnings)))
        in_turns = [each for each in chain(*zip_longest(*found.values())) if each is not None]
        papers = _within(
            in_turns[: inputs.max_results], request.budgets.max_context_tokens, warnings
        )
        report("merged", percent=95, papers=len(papers))
        outputs: JsonObject = {
            "papers": papers,
            "count": len(papers),
            "duration_ms": round((time.perf_counter() - started) * 1000),
        }
        return succeeded(
            request,
            outputs,
            status="degraded" if warnings else "ok",
            artifacts=[each["doc_id"] for each in papers],
            provenance={"databases": list(found)},
            warnings=warnings,
        )


async def _papers(
    base: KnowledgeBase, inputs: LiteratureInputs, report: ReportProgress
) -> list[JsonObject]:
    """One paper for each document, by its best chunk."""
    report("index ready", percent=10, documents=base.size)
    query = ChunkQuery(inputs.query, min(inputs.max_results, MAX_TOP_K), base.mode_for(None))
    best: dict[str, FoundChunk] = {}
    for chunk in await search_chunks(base, query, report):
        best.setdefault(chunk.doc_id, chunk)
    return [_paper(chunk, base) for chunk in best.values()]


def _paper(chunk: FoundChunk, base: KnowledgeBase) -> JsonObject:
    """What is known of a paper, with the complete abstract if the base has it."""
    metadata, document = chunk.metadata, base.document(chunk.doc_id)
    url = _text(metadata.get("url"))
    fields = {
        "title": chunk.title,
        "abstract": chunk.text if document is None else document.text,
        "authors": _names(metadata.get("authors", metadata.get("author"))),
        "year": _year(metadata),
        "journal": _text(metadata.get("journal")),
        "doi": _text(metadata.get("doi")),
        "pmid": _text(metadata.get("pmid")) or pmid_in(url),
        "source": base.name,
        "url": url,
        "doc_id": chunk.doc_id,
    }
    return {name: value for name, value in fields.items() if value}


def pmid_in(url: str | None) -> str | None:
    """The PubMed id in a URL of PubMed, as data sets often have it."""
    match = _PUBMED_URL.search(unquote(url)) if url else None
    return match[1] if match else None


def _year(metadata: Mapping[str, Any]) -> int | None:
    for name in ("year", "date", "published"):
        if match := _YEAR.search(str(metadata.get(name, ""))):
            return int(match[1])
    return None


def _names(value: Any) -> list[str]:
    if isinstance(value, str):
        separator = ";" if ";" in value else ","
        return [name.strip() for name in value.split(separator) if name.strip()]
    if isinstance(value, Sequence):
        return [str(name) for name in value if isinstance(name, str | int)]
    return []


def _text(value: Any) -> str | None:
    known = isinstance(value, str | int) and not isinstance(value, bool)
    return str(value).strip() if known else None


def _within(
    papers: list[JsonObject], max_tokens: int | None, warnings: list[str]
) -> list[JsonObject]:
    if max_tokens is None:
        return papers
    kept: list[JsonObject] = []
    for paper in papers:
        max_tokens -= tokens_in(paper.get("title", "")) + tokens_in(paper.get("abstract", ""))
        if max_tokens < 0:
            break
        kept.append(paper)
    if len(kept) < len(papers):
        left = len(papers) - len(kept)
        warnings.append(f"budgets.max_context_tokens: {left} papers were left out")
    return kept
