"""Adds documents to the index of an HTTP contract agent by RAG_INGEST, and removes them afterward.

They go into a knowledge base of their own together with the data set's documents, so that no index
of the user's is touched, and are removed when the work is done, however it ends. That takes an
agent that removes documents: `remove` in the inputs, `removedChunkCount` in the outputs.
"""

import asyncio
import hashlib
import uuid
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from assay.contract.client import AgentClient, resolve_agent
from assay.contract.envelope import AgentRunRequest, ErrorCode
from assay.contract.responses import AgentCallError
from assay.data.dataset import Document
from assay.errors import TargetError, UsageError
from assay.net.redact import quote, redact_url
from assay.run.calls import with_quote

INGEST_AGENT = "agent-rag-ingest"
"""The name by which AGENT_ENDPOINTS_JSON may give the address of the agent that ingests."""

MOST_DOCUMENTS = 5000
"""Of the data set: each of them is ingested."""

_AT_ONCE = 500
_REMOVAL_SECONDS = 120.0
_OUR_PATH, _INGEST_PATH = "/rag-answer", "/rag-ingest"


def ingest_address(base: str, endpoints: Mapping[str, str]) -> str:
    """Where documents are ingested: by name, else beside the agent, else at the agent itself."""
    if INGEST_AGENT in endpoints:
        return resolve_agent(INGEST_AGENT, endpoints)
    if base.endswith(_OUR_PATH):
        return base.removesuffix(_OUR_PATH) + _INGEST_PATH
    return base


@dataclass(frozen=True)
class PlantingAgent:
    """The agent that ingests; `corpus` are the documents of the data set."""

    client: AgentClient
    url: str
    corpus: Sequence[Document]

    @property
    def knowledge_base(self) -> str:
        """The same for the same data: what a killed process left there is replaced by the next."""
        ids = "\x1f".join(each.id for each in self.corpus)
        digest = hashlib.sha256(ids.encode("utf-8", "surrogatepass")).hexdigest()
        return f"assay-planted-{digest[:12]}"

    async def refusal(self) -> str:
        """Why documents cannot be planted, in words; empty if they can. Nothing is written."""
        where = redact_url(self.url)
        if not 0 < len(self.corpus) <= MOST_DOCUMENTS:
            return (
                f"the data set has {len(self.corpus):,} documents, and from 1 to "
                f"{MOST_DOCUMENTS:,} can be ingested beside planted ones"
            )
        try:
            outputs = await self._run({"documents": [], "remove": [f"assay-{uuid.uuid4().hex}"]})
        except TargetError as error:
            return f"RAG_INGEST at {where} failed ({error}); name the agent in AGENT_ENDPOINTS_JSON"
        if not isinstance(outputs.get("removedChunkCount"), int):
            return (
                f"RAG_INGEST at {where} does not remove documents (it answers the input 'remove' "
                "without removedChunkCount), so planted ones would stay behind"
            )
        return ""

    @asynccontextmanager
    async def holding(self, documents: Sequence[Document]) -> AsyncIterator[str]:
        """The name of the knowledge base that holds these documents until the block ends."""
        if problem := await self.refusal():  # never plant what cannot be removed
            raise UsageError(problem)
        everything = [*self.corpus, *documents]
        try:
            for start in range(0, len(everything), _AT_ONCE):
                part = [_ingested(each) for each in everything[start : start + _AT_ONCE]]
                await self._run({"documents": part})
            yield self.knowledge_base
        finally:
            await self._remove([each.id for each in documents])

    async def _remove(self, ids: Sequence[str]) -> None:
        try:
            async with asyncio.timeout(_REMOVAL_SECONDS):
                for start in range(0, len(ids), _AT_ONCE):
                    part = list(ids[start : start + _AT_ONCE])
                    await self._run({"documents": [], "remove": part})
        except (TargetError, TimeoutError) as error:
            raise TargetError(
                f"planted documents could not be removed ({error or 'no answer in time'}): they "
                f"are still in the knowledge base {self.knowledge_base!r}, which nothing else uses"
            ) from error

    async def _run(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        request = AgentRunRequest(
            request_id=f"assay-{uuid.uuid4().hex}",
            task_type="RAG_INGEST",
            inputs={**inputs, "knowledgeBase": self.knowledge_base},
        )
        try:
            response = await self.client.run_sync(self.url, request)
        except AgentCallError as error:
            raise TargetError(f"{error.fault}: {error}") from None
        if not response.ok:
            code = response.error.code if response.error else ""
            known = code if code in set(ErrorCode) else "unknown code"
            message = f"the run ended with an error ({known}), see the log of the agent"
            said = quote(response.error.message) if response.error else ""
            raise TargetError(with_quote(message, said))
        return dict(response.outputs)


def _ingested(document: Document) -> dict[str, str]:
    text = document.text or document.title or document.id
    return {"docId": document.id, "title": document.title, "text": text}
