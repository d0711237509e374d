"""What RAG_RETRIEVE and RAG_ANSWER take: two dialects of callers, read as one."""

from collections.abc import Iterator
from typing import Annotated, Any

from pydantic import AliasChoices, Field, StringConstraints

from assay.contract.envelope import NO_FLAG, ContractModel, Positive
from assay.search.retriever import MOST, Mode
from assay.serve.contract_agents.knowledge_bases import Wanted, check_filters
from assay.serve.query_text import Readable

QueryText = Annotated[
    str, StringConstraints(strip_whitespace=True, min_length=1, max_length=10000), Readable
]


class RetrieveInputs(ContractModel):
    """`query, knowledgeBase, topK, ...` or `query_text, collection, top_k, ...`."""

    query: QueryText = Field(validation_alias=AliasChoices("query", "query_text"))
    knowledge_base: str | None = Field(
        default=None,
        max_length=256,
        validation_alias=AliasChoices("knowledgeBase", "collection", "knowledge_base"),
    )
    top_k: Annotated[int, Field(ge=1, le=MOST), NO_FLAG] = Field(
        default=10, validation_alias=AliasChoices("topK", "top_k")
    )
    filters: dict[str, Any] | None = Field(
        default=None, validation_alias=AliasChoices("metadataFilters", "where", "filter")
    )
    semantic_weight: float | None = Field(default=None, ge=0, le=1)
    semantic_k: Positive | None = None
    rerank_mode: str | None = Field(
        default=None, validation_alias=AliasChoices("rerankMode", "rerank_mode")
    )
    domain_id: str | None = Field(
        default=None, validation_alias=AliasChoices("domainId", "domain_id")
    )
    project_id: str | None = Field(
        default=None, validation_alias=AliasChoices("projectId", "project_id")
    )

    @property
    def asked_mode(self) -> Mode | None:
        """The ends of the scale are kinds of search; between them, our own mixture is used."""
        if self.semantic_weight is None:
            return None
        ends: dict[float, Mode] = {0.0: "bm25", 1.0: "dense"}
        return ends.get(self.semantic_weight)

    def wanted(self, mode: Mode) -> Wanted:
        check_filters(self.filters, "inputs.metadataFilters")
        return Wanted(self.query, self.top_k, mode, self.filters)

    def unheeded(self, mode: Mode) -> Iterator[str]:
        """What the caller asked for and will not get, in words for `warnings`."""
        if self.semantic_weight is not None and self.asked_mode is None:
            yield "inputs.semantic_weight is heeded at 0 (words only) and 1 (meaning only)"
        elif self.asked_mode not in (None, mode):
            yield f"inputs.semantic_weight is not heeded: this server searches with {mode} alone"
        if self.semantic_k is not None:
            yield "inputs.semantic_k is not heeded; retrieval_trace says how deep was searched"
        if self.rerank_mode not in (None, "", "none"):
            yield "inputs.rerankMode is not heeded; retrieval_trace says how chunks were ranked"
        for name, given in (("domainId", self.domain_id), ("projectId", self.project_id)):
            if given is not None:
                yield f"inputs.{name} does not narrow the search; metadataFilters do"
