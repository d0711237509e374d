"""Arguments and results of the MCP server's tools, shared with REST."""

from typing import Annotated, Literal

from pydantic import BaseModel, Field, StringConstraints

from assay.contract.envelope import NO_FLAG
from assay.serve.retrieval import SEARCHABLE

MAX_QUERY_LENGTH = 10_000

QueryText = Annotated[
    str,
    StringConstraints(strip_whitespace=True, min_length=1, max_length=MAX_QUERY_LENGTH),
    SEARCHABLE,
    Field(description="The query, in plain words."),
]
TopK = Annotated[int, Field(ge=1, le=100, description="Maximum number of documents."), NO_FLAG]
Threshold = Annotated[
    float, Field(ge=0.0, le=1.0, description="Omit documents with a lower score.")
]
AnswerTokens = Annotated[
    int, Field(ge=1, le=4000, description="Maximum length of the answer in tokens."), NO_FLAG
]


class SearchRequest(BaseModel):
    """Arguments of `search_nfcorpus`."""

    query: QueryText
    top_k: TopK = 5


class FoundDocument(BaseModel):
    """One document that a search found."""

    doc_id: str
    score: float = Field(description="From 0 to 1, higher is better.")
    title: str
    text: str


class SearchResults(BaseModel):
    """Result of `search_nfcorpus`."""

    results: list[FoundDocument] = Field(description="Best first, each document once.")


class Health(BaseModel):
    """Result of `health_check`."""

    status: Literal["healthy", "loading", "unhealthy"]
    ready: bool = Field(description="Whether the server is ready to search.")
    dataset: str | None = Field(description="The data set being searched; null until it is loaded.")
    documents: int
    mode: str | None = Field(description="The search mode: hybrid, tuned, dense or bm25.")
    version: str


class FoundNote(BaseModel):
    """A document in the shape of Nextcloud's semantic search."""

    id: str
    doc_type: str
    title: str
    category: str
    excerpt: str
    score: float
    chunk_index: int
    total_chunks: int


class SemanticResults(BaseModel):
    """Result of `nc_semantic_search`."""

    success: bool
    results: list[FoundNote]
    query: str
    total_found: int
    search_method: str


class SemanticAnswer(BaseModel):
    """Result of `nc_semantic_search_answer`."""

    success: bool
    query: str
    generated_answer: str = Field(description="Cites its sources as [1], [2], by their position.")
    sources: list[FoundNote] = Field(
        description="The documents that the answer was written from, best first."
    )
    total_found: int = Field(description="The number of sources; 0 if they contain no answer.")
    search_method: str = Field(description="The search mode and the writer: hybrid+sampling.")
    model_used: str
    stop_reason: str
    citations: list[str] = Field(description="Ids of the documents that the answer cites.")
    warnings: list[str]


class SyncStatus(BaseModel):
    """Result of `nc_get_vector_sync_status`."""

    indexed_documents: int
    indexed_chunks: int
    pending_count: int
    status: Literal["idle", "syncing", "disabled"]
    enabled: bool
