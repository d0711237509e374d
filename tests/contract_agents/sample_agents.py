"""The real agents over a handful of documents: real index, real server, an embedder of words."""

import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
from tests.contract.asking import STREAM, SYNC, events
from tests.search.samples import WordEmbedder
from tests.serve.serving import serving

from assay.data import Dataset, Document
from assay.progress import Progress
from assay.search import Mode
from assay.search.array_store import ArrayStore
from assay.search.index import open_retriever
from assay.serve.contract_agents.apps import TASKS, agents_app, path_of
from assay.serve.contract_agents.rag_agents import KnowledgeBases
from assay.serve.retrieval import Retrieval

DOCUMENTS = (
    Document(
        "MED-1",
        "Vitamin D and blood pressure",
        "Vitamin D was given for a year. Blood pressure did not change.",
        {"year": 2019, "url": "http://www.ncbi.nlm.nih.gov/pubmed/25329299"},
    ),
    Document(
        "MED-2",
        "Green tea",
        "Green tea lowered blood pressure by 3 mmHg in 40 adults.",
        {"year": 2021, "journal": "Tea Letters", "authors": ["A. Leaf", "B. Pot"]},
    ),
    Document("MED-3", "Statins", "Statins lower cholesterol.", {"year": 2021}),
)


def make_knowledge(
    folder: Path,
    *,
    mode: Mode = "hybrid",
    documents: Sequence[Document] = DOCUMENTS,
    load: Callable[[Progress], Awaitable[Retrieval]] | None = None,
) -> KnowledgeBases:
    """`folder` holds the knowledge bases; `load` replaces the data set."""
    dataset = Dataset("tiny", {each.id: each for each in documents}, {}, {})

    def open_base(data: Dataset) -> Retrieval:
        embedder, store = WordEmbedder(max_tokens=256), ArrayStore(folder, data.name)
        return Retrieval(data, open_retriever(data, embedder=embedder, store=store), mode)

    async def load_documents(_progress: Progress) -> Retrieval:
        return open_base(dataset)

    return KnowledgeBases(load or load_documents, lambda: folder / "knowledge", open_base)


class Agents:
    def __init__(self, http: httpx.AsyncClient, url: str) -> None:
        self.http, self.url = http, url

    async def run(self, task: str, inputs: dict[str, Any], **fields: Any) -> dict[str, Any]:
        body = _body(task, inputs, fields)
        answer = await self.http.post(f"{self.url}{path_of(task)}{SYNC}", json=body)
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    async def ready(self) -> None:
        """Runs wait for what is still being loaded."""
        await self.run("RAG_RETRIEVE", {"query": "tea"})
        document = {"docId": "d", "text": "tea"}
        await self.run("RAG_INGEST", {"documents": [document], "knowledgeBase": "any"})

    async def outputs(self, task: str, inputs: dict[str, Any], **fields: Any) -> dict[str, Any]:
        answer = await self.run(task, inputs, **fields)
        assert answer["status"] == "ok", answer
        outputs: dict[str, Any] = answer["outputs"]
        return outputs

    async def stream(self, task: str, inputs: Any, **fields: Any) -> list[dict[str, Any]]:
        body = _body(task, inputs, fields)
        url = f"{self.url}{path_of(task)}{STREAM}"
        async with self.http.stream("POST", url, json=body) as answer:
            return [event async for event in events(answer)]


def _body(task: str, inputs: dict[str, Any], fields: dict[str, Any]) -> dict[str, Any]:
    return {"request_id": uuid.uuid4().hex, "task_type": task, "inputs": inputs, **fields}


@asynccontextmanager
async def running_agents(
    knowledge: KnowledgeBases, tasks: Sequence[str] = TASKS
) -> AsyncIterator[Agents]:
    async with (
        serving(agents_app(tasks, knowledge)) as url,
        httpx.AsyncClient(timeout=30, trust_env=False) as http,
    ):
        yield Agents(http, url)
