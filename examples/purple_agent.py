"""A participant: `python examples/purple_agent.py` serves your search over A2A on port 9010."""

import json
import sys

import uvicorn
from a2a.helpers import new_data_message
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes
from a2a.server.tasks import InMemoryTaskStore
from a2a.types import AgentCard, AgentInterface
from starlette.applications import Starlette


class MySearch(AgentExecutor):
    async def execute(self, context: RequestContext, queue: EventQueue) -> None:
        asked = json.loads(context.get_user_input())  # {"query": "...", "top_k": 5}
        found = ["MED-10", "MED-14"]  # your search: ids of the corpus, best first
        await queue.enqueue_event(new_data_message({"doc_ids": found[: int(asked["top_k"])]}))

    async def cancel(self, context: RequestContext, queue: EventQueue) -> None: ...


port = int(sys.argv[1]) if len(sys.argv) > 1 else 9010
url = f"http://localhost:{port}/"
interface = AgentInterface(protocol_binding="JSONRPC", protocol_version="1.0", url=url)
card = AgentCard(name="My search", version="1.0", supported_interfaces=[interface])
handler = DefaultRequestHandler(MySearch(), InMemoryTaskStore(), card)
routes = [*create_agent_card_routes(card), *create_jsonrpc_routes(handler, rpc_url="/")]
uvicorn.run(Starlette(routes=routes), host="127.0.0.1", port=port)
