"""An A2A agent that searches twice: `python examples/multi_search_agent.py 9010`.

It asks the tool that the evaluator names in `search_url`, reads the best document, asks again with
the rarest words of its title, and returns what both searches found:

    assay eval a2a:http://localhost:9010 --search builtin:bm25 --dataset notes
"""

import json
import sys

import httpx
import uvicorn
from a2a.helpers import new_data_message
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes
from a2a.server.tasks import InMemoryTaskStore
from a2a.types import AgentCard, AgentInterface
from starlette.applications import Starlette


async def search(http: httpx.AsyncClient, url: str, query: str) -> list[dict[str, str]]:
    answer = await http.post(url, json={"query": query, "top_k": 5})
    return list(answer.raise_for_status().json()["results"])


class TwoSearches(AgentExecutor):
    async def execute(self, context: RequestContext, queue: EventQueue) -> None:
        asked = json.loads(context.get_user_input())
        question, url = asked["query"], asked["search_url"]
        async with httpx.AsyncClient(timeout=30) as http:
            first = await search(http, url, question)
            title = first[0]["title"] if first else ""
            second = await search(http, url, f"{question} {title}") if title else []
        # Ids that both searches found come first: two searches that agree are worth more.
        both = [hit["doc_id"] for hit in first if hit in second]
        found = dict.fromkeys([*both, *(hit["doc_id"] for hit in [*first, *second])])
        await queue.enqueue_event(new_data_message({"doc_ids": [*found][: int(asked["top_k"])]}))

    async def cancel(self, context: RequestContext, queue: EventQueue) -> None: ...


port = int(sys.argv[1]) if len(sys.argv) > 1 else 9010
url = f"http://localhost:{port}/"
interface = AgentInterface(protocol_binding="JSONRPC", protocol_version="1.0", url=url)
card = AgentCard(name="Two searches", version="1.0", supported_interfaces=[interface])
handler = DefaultRequestHandler(TwoSearches(), InMemoryTaskStore(), card)
routes = [*create_agent_card_routes(card), *create_jsonrpc_routes(handler, rpc_url="/")]
uvicorn.run(Starlette(routes=routes), host="127.0.0.1", port=port, log_level="warning")
