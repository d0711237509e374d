"""Documents to ingest, and the request that does it."""

from typing import Any

from tests.contract_agents.sample_agents import Agents


def document(doc_id: str, text: str, **more: Any) -> dict[str, Any]:
    return {"docId": doc_id, "title": f"About {doc_id}", "text": text, **more}


def inputs(*documents: dict[str, Any], base: str = "lab", **more: Any) -> dict[str, Any]:
    return {"documents": list(documents), "knowledgeBase": base, **more}


async def found(agents: Agents, query: str, base: str = "lab") -> list[str]:
    outputs = await agents.outputs("RAG_RETRIEVE", {"query": query, "knowledgeBase": base})
    return [chunk["chunk_id"] for chunk in outputs["chunks"]]


TEA = document("tea", "Tea is steeped.", source="a book", metadata={"year": 2020, "page": None})


BEER = document("beer", "Beer is brewed.")
