"""An A2A agent that misbehaves on purpose: the path of its address says how.

    http://127.0.0.1:PORT/error_500      a card, and an agent whose answers are errors

What a single response can do wrong is in `tests/hostile`. The data set is `tiny_dataset`: query
"query 7" has documents d7 (grade 2) and d8 (grade 1).
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.json_server import Answer, JsonRequest, JsonServer


class BadAgent(JsonServer):
    """Serves every mode."""

    def answer(self, request: JsonRequest) -> Answer:
        mode, _, rest = request.path.strip("/").partition("/")
        if request.method == "GET":
            if rest != ".well-known/agent-card.json":
                return 404, {}, b""
            url = f"{self.url}/{mode}"
            interface = {"protocolBinding": "JSONRPC", "protocolVersion": "1.0", "url": url}
            return 200, {}, {"name": mode, "supportedInterfaces": [interface]}
        question = json.loads(request.body["params"]["message"]["parts"][0]["text"])
        return self._mode(mode, request.body["id"], int(question["query"].split()[1]))

    def _mode(self, mode: str, call_id: object, number: int) -> Answer:
        right = [f"d{number}", f"d{number + 1}"]
        if mode == "error_500":
            return 500, {}, b"Internal Server Error: query text in a stack trace"
        if mode == "garbage":
            return 200, {}, b'{"jsonrpc": "2.0", "result": {"task": '
        answers: dict[str, Any] = {
            "wrong_shape": {"documents": right},
            "duplicates": {"doc_ids": right[:1] * 5},
            "too_many": {"doc_ids": right + [f"d{place}" for place in range(1000, 1500)]},
        }
        data = answers.get(mode, {"doc_ids": right})
        task: dict[str, Any] = {"id": "t", "status": {"state": "TASK_STATE_COMPLETED"}}
        task["artifacts"] = [{"artifactId": "a", "parts": [{"data": data}]}]
        return 200, {}, {"jsonrpc": "2.0", "id": call_id, "result": {"task": task}}


@contextmanager
def bad_agent() -> Iterator[BadAgent]:
    """One that runs in threads, so that nothing it does holds up its caller."""
    with BadAgent().running() as agent:
        yield agent
