"""A text agent on a2a-sdk 0.3.26, run by that version's interpreter: python stranger03.py PORT"""

# mypy: ignore-errors
# It imports names that the 1.x library of this environment no longer has.

import sys

import uvicorn
from a2a.server.agent_execution import AgentExecutor
from a2a.server.apps import A2AStarletteApplication
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.tasks import InMemoryTaskStore
from a2a.types import AgentCapabilities, AgentCard
from a2a.utils import new_agent_text_message


class Agent(AgentExecutor):
    async def execute(self, context, event_queue):
        text = f"For {context.get_user_input()!r} see note-7 (ref: note-7) and (ref: note-2)."
        await event_queue.enqueue_event(new_agent_text_message(text))

    async def cancel(self, context, event_queue): ...


def main(port):
    card = AgentCard(
        name="old stranger",
        description="answers in words",
        url=f"http://127.0.0.1:{port}/",
        version="0.1",
        capabilities=AgentCapabilities(),
        default_input_modes=["text"],
        default_output_modes=["text"],
        skills=[],
    )
    handler = DefaultRequestHandler(Agent(), InMemoryTaskStore())
    app = A2AStarletteApplication(card, handler).build()
    uvicorn.run(app, host="127.0.0.1", port=port, log_level="error")


if __name__ == "__main__":
    main(int(sys.argv[1]))
