"""An A2A agent that misbehaves on purpose, as the path of its address says: `/error_500`.

What a single response can do wrong is in `tests/hostile`.
"""

from contextlib import AbstractContextManager
from typing import Any

from tests.json_server import Answer, JsonRequest, JsonServer

RESPONSES: dict[str, Answer] = {
    "error_500": (500, {}, b"Internal Server Error: query text in a stack trace"),
    "garbage": (200, {}, b'{"jsonrpc": "2.0", "result": {"task": '),
}
RESULTS: dict[str, Any] = {
    "wrong_shape": {"documents": ["d1", "d2"]},
    "duplicates": {"doc_ids": ["d1"] * 5},
    "too_many": {"doc_ids": [f"d{place}" for place in range(502)]},
}


class BadAgent(JsonServer):
    def answer(self, request: JsonRequest) -> Answer:
        mode, _, rest = request.path.strip("/").partition("/")
        if request.method == "GET":
            url = f"{self.url}/{mode}"
            interface = {"protocolBinding": "JSONRPC", "protocolVersion": "1.0", "url": url}
            card = {"name": mode, "supportedInterfaces": [interface]}
            return 200 if rest == ".well-known/agent-card.json" else 404, {}, card
        if mode in RESPONSES:
            return RESPONSES[mode]
        task: dict[str, Any] = {"id": "t", "status": {"state": "TASK_STATE_COMPLETED"}}
        task["artifacts"] = [{"artifactId": "a", "parts": [{"data": RESULTS[mode]}]}]
        return 200, {}, {"jsonrpc": "2.0", "id": request.body["id"], "result": {"task": task}}


def bad_agent() -> AbstractContextManager[BadAgent]:
    return BadAgent().running()
