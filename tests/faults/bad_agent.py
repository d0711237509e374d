"""An A2A agent that misbehaves on purpose: the path of its address says how.

    http://127.0.0.1:PORT/error_500      a card, and an agent whose answers are errors

What a single response can do wrong is in `tests/hostile`; here is what a whole run makes of it. The
dataset is that of `tiny_dataset`: query "query 7" has documents d7 (grade 2) and d8 (grade 1).
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.json_server import Answer, JsonRequest, JsonServer

METADATA = "http://169.254.169.254/latest/meta-data/"


class BadAgent(JsonServer):
    """Serves every mode."""

    def answer(self, request: JsonRequest) -> Answer:
        if request.method == "GET":
            return self._card(*request.path.strip("/").partition("/")[::2])
        question = json.loads(request.body["params"]["message"]["parts"][0]["text"])
        number = int(question["query"].split()[1])
        # Below the path of a mode whose card was rebased stands the mode that really answers.
        mode = request.path.rstrip("/").rpartition("/")[2]
        return self._mode(mode, request.body["id"], number)

    def _card(self, mode: str, rest: str) -> Answer:
        urls = {
            "wildcard_card": self.url.replace("127.0.0.1", "0.0.0.0") + "/fine",
            "unknown_host_card": "http://no-such-host.invalid:9009/fine",
            "closed_port_card": "http://127.0.0.1:1/fine",
        }
        if mode == "redirected_card":
            return 302, {"Location": METADATA}, b""
        if rest != ".well-known/agent-card.json" or mode == "nothing":
            return 404, {}, b""
        if mode == "broken_card":
            return 200, {}, b"<html>welcome</html>"
        url = urls.get(mode, f"{self.url}/{mode}")
        interface = {"protocolBinding": "JSONRPC", "protocolVersion": "1.0", "url": url}
        return 200, {}, {"name": mode, "supportedInterfaces": [interface]}

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
