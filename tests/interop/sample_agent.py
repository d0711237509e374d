"""The example agent of the purple agent specification: python sample_agent.py PORT MCP_URL

Written for both generations of a2a-sdk; which one is installed decides. The specification leaves
its `MCPClient` to the reader: here it is a session over HTTP at the address as it is given.
"""

# mypy: ignore-errors
# Half of its imports exist in one generation only.

import json
import sys

import httpx
import uvicorn
from a2a.server.agent_execution import AgentExecutor
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from pydantic import BaseModel

try:
    from a2a.server.apps import A2AStarletteApplication
    from a2a.types import AgentCapabilities, AgentCard, DataPart, Part
    from a2a.utils import new_task

    OLD = True
except ImportError:
    from a2a.helpers import new_data_part
    from a2a.helpers import new_task_from_user_message as new_task
    from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes
    from a2a.types.a2a_pb2 import AgentCapabilities, AgentCard, AgentInterface
    from starlette.applications import Starlette

    OLD = False

HEADERS = {"Accept": "application/json, text/event-stream"}


class QueryRequest(BaseModel):
    query: str
    top_k: int = 5


class RetrievalResponse(BaseModel):
    doc_ids: list[str]


class MCPClient:
    def __init__(self, url):
        self.url = url

    async def call_tool(self, name, arguments):
        async with httpx.AsyncClient(headers=HEADERS, timeout=60) as http:
            hello = {
                "protocolVersion": "2025-06-18",
                "capabilities": {},
                "clientInfo": {"name": "sample", "version": "1"},
            }
            answer, session = await self.post(http, "initialize", hello)
            http.headers["Mcp-Session-Id"] = session
            http.headers["MCP-Protocol-Version"] = answer["protocolVersion"]
            await http.post(
                self.url, json={"jsonrpc": "2.0", "method": "notifications/initialized"}
            )
            call = {"name": name, "arguments": arguments}
            result, _ = await self.post(http, "tools/call", call)
        return result["structuredContent"]

    async def post(self, http, method, params):
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        answer = await http.post(self.url, json=body)
        answer.raise_for_status()
        text = answer.text
        if "text/event-stream" in answer.headers["content-type"]:
            events = [line for line in text.splitlines() if line.startswith("data: {")]
            text = events[-1].removeprefix("data: ")
        return json.loads(text)["result"], answer.headers.get("mcp-session-id", "")


class PurpleAgent(AgentExecutor):
    def __init__(self, mcp_url):
        self.mcp_client = MCPClient(mcp_url)

    async def execute(self, context, event_queue):
        request = QueryRequest.model_validate_json(context.get_user_input())
        task = context.current_task or new_task(context.message)
        await event_queue.enqueue_event(task)
        updater = TaskUpdater(event_queue, task.id, task.context_id)
        mcp_response = await self.mcp_client.call_tool(
            "search_nfcorpus", {"query": request.query, "top_k": request.top_k}
        )
        doc_ids = [result["doc_id"] for result in mcp_response["results"]]
        data = RetrievalResponse(doc_ids=doc_ids).model_dump()
        part = Part(root=DataPart(data=data)) if OLD else new_data_part(data)
        await updater.add_artifact([part], name="retrieval_results")
        await updater.complete()

    async def cancel(self, context, event_queue): ...


def app(url, agent):
    facts = {
        "name": "sample",
        "description": "the example of the specification",
        "version": "1",
        "capabilities": AgentCapabilities(streaming=True),
        "default_input_modes": ["text"],
        "default_output_modes": ["text"],
        "skills": [],
    }
    if OLD:
        card = AgentCard(url=url, **facts)
        handler = DefaultRequestHandler(agent_executor=agent, task_store=InMemoryTaskStore())
        return A2AStarletteApplication(agent_card=card, http_handler=handler).build()
    rpc = AgentInterface(protocol_binding="JSONRPC", protocol_version="1.0", url=url)
    card = AgentCard(supported_interfaces=[rpc], **facts)
    handler = DefaultRequestHandler(agent, InMemoryTaskStore(), card)
    routes = [*create_agent_card_routes(card), *create_jsonrpc_routes(handler, rpc_url="/")]
    return Starlette(routes=routes)


if __name__ == "__main__":
    port, mcp_url = int(sys.argv[1]), sys.argv[2]
    application = app(f"http://127.0.0.1:{port}/", PurpleAgent(mcp_url))
    uvicorn.run(application, host="127.0.0.1", port=port, log_level="critical")
