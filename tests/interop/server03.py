"""An agent on a2a-sdk 0.3.26, run by that version's own interpreter: python server03.py PORT

The first word of a query says how it is answered.
"""

# mypy: ignore-errors
# It imports names that the 1.x library of this environment no longer has.

import json
import sys

import uvicorn
from a2a.server.agent_execution import AgentExecutor
from a2a.server.apps import A2AStarletteApplication
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types import AgentCapabilities, AgentCard, DataPart, Part, TaskState, TextPart
from a2a.utils import new_agent_text_message, new_task


class Agent(AgentExecutor):
    async def execute(self, context, event_queue):
        asked = context.get_user_input()
        if not asked.startswith("{"):  # a question in words, which gets words
            text = f"For {asked!r} see note-7 (ref: note-7) and (ref: note-2)."
            await event_queue.enqueue_event(new_agent_text_message(text))
            return
        question = json.loads(asked)
        way, top_k = question["query"].split()[0], question["top_k"]
        answer = {"doc_ids": ["d1", "d2", "d3"][:top_k], "answer": type(top_k).__name__}
        if way == "message":
            await event_queue.enqueue_event(new_agent_text_message(json.dumps(answer)))
            return
        task = context.current_task or new_task(context.message)
        await event_queue.enqueue_event(task)
        updater = TaskUpdater(event_queue, task.id, task.context_id)
        await updater.update_status(TaskState.working, new_agent_text_message("looking"))
        if way == "raise":
            raise RuntimeError("a secret of the executor")
        if way == "reject":
            await updater.reject(new_agent_text_message("NOT_MINE: a secret"))
            return
        part = DataPart(data=answer)
        if way == "text":
            part = TextPart(text=f"Here you are:\n```json\n{json.dumps(answer)}\n```\nBye.")
        await updater.add_artifact([Part(root=part)], name="retrieval_results")
        await updater.complete()

    async def cancel(self, context, event_queue): ...


def main(port):
    card = AgentCard(
        name="old agent",
        description="answers in the old way",
        version="0.3.26",
        url=f"http://127.0.0.1:{port}/",
        capabilities=AgentCapabilities(streaming=True),
        default_input_modes=["text"],
        default_output_modes=["text"],
        skills=[],
    )
    handler = DefaultRequestHandler(agent_executor=Agent(), task_store=InMemoryTaskStore())
    app = A2AStarletteApplication(agent_card=card, http_handler=handler).build()
    uvicorn.run(app, host="127.0.0.1", port=port, log_level="critical")


if __name__ == "__main__":
    main(int(sys.argv[1]))
