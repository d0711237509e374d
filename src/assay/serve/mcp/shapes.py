"""What the MCP server's tools take and give, for MCP and REST alike."""

from typing import Annotated, Literal

from pydantic import BaseModel, Field, StringConstraints

from assay.contract.envelope import NO_FLAG
from assay.serve.retrieval import SEARCHABLE

LONGEST_QUERY = 10_000

QueryText = Annotated[
    str,
    StringConstraints(strip_whitespace=True, min_length=1, max_length=LONGEST_QUERY),
    SEARCHABLE,
    Field(description="What to look for, in plain words."),
]
TopK = Annotated[int, Field(ge=1, le=100, description="How many documents at most."), NO_FLAG]
Threshold = Annotated[
    float, Field(ge=0.0, le=1.0, description="Leave out documents with a lower score.")
]
AnswerTokens = Annotated[
    int, Field(ge=1, le=4000, description="How long the answer may be, in tokens."), NO_FLAG
]


class SearchRequest(BaseModel):
    query: QueryText
    top_k: TopK = 5


class FoundDocument(BaseModel):
    doc_id: str
    score: float = Field(description="From 0 to 1, higher is better.")
    title: str
    text: str


class SearchResults(BaseModel):
    results: list[FoundDocument] = Field(description="Best first, each document once.")


class Health(BaseModel):
    status: Literal["healthy", "loading", "unhealthy"]
    ready: bool = Field(description="Whether a search would be answered at once.")
    dataset: str | None = Field(description="What is searched; null until it has been loaded.")
    documents: int
    mode: str | None = Field(description="How it is searched: hybrid, tuned, dense or bm25.")
    version: str


class FoundNote(BaseModel):
    """A document in the words of Nextcloud's semantic search."""

    id: str
    doc_type: str
    title: str
    category: str
    excerpt: str
    score: float
    chunk_index: int
    total_chunks: int


class SemanticResults(BaseModel):
    success: bool
    results: list[FoundNote]
    query: str
    total_found: int
    search_method: str


class SemanticAnswer(BaseModel):
    success: bool
    query: str
    generated_answer: str = Field(description="Cites its sources as [1], [2], by their place.")
    sources: list[FoundNote] = Field(description="What the answer was made from, best first.")
    total_found: int = Field(description="How many sources; 0 where they hold no answer.")
    search_method: str = Field(description="How was searched, and who wrote: hybrid+sampling.")
    model_used: str
    stop_reason: str
    citations: list[str] = Field(description="Ids of the documents that the answer cites.")
    warnings: list[str]


class SyncStatus(BaseModel):
    indexed_documents: int
    indexed_chunks: int
    pending_count: int
    status: Literal["idle", "syncing", "disabled"]
    enabled: bool
