"""A real HTTP server that speaks as the three services do, their errors included."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import pytest
from tests.json_server import Answer, JsonRequest, JsonServer

WAITS = -1
"""In place of a status: take the request and say nothing until the server stops."""


def _reply(path: str, text: str) -> dict[str, Any]:
    if path == "/api/chat":
        return {
            "message": {"role": "assistant", "content": text},
            "done": True,
            "done_reason": "stop",
            "prompt_eval_count": 12,
            "eval_count": 3,
        }
    if path == "/v1/messages":
        return {
            "content": [{"type": "text", "text": text}],
            "stop_reason": "end_turn",
            "usage": {"input_tokens": 12, "output_tokens": 3},
        }
    return {
        "choices": [{"message": {"content": text}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 12, "completion_tokens": 3},
    }


class ModelServer(JsonServer):
    """`faults` are answered first, one for each request; after them `text`, in each's shape.

    `reply`, where it is set, makes the text from the prompt. `patch` is laid over a good reply.
    `most_at_once` counts requests in the house together.
    """

    def __init__(self) -> None:
        self.requests: list[tuple[str, dict[str, Any], dict[str, str]]] = []
        self.faults: list[Answer] = []
        self.text = "TRUE"
        self.reply: Callable[[str], str] | None = None
        self.patch: dict[str, Any] = {}
        self.most_at_once = 0
        self._inside = 0
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self.gate: threading.Barrier | None = None
        super().__init__()

    def answer(self, request: JsonRequest) -> Answer | None:
        """The text as the service of that path sends it, unless there is a fault to send."""
        with self._lock:
            self.requests.append((request.path, request.body, request.headers))
            self._inside += 1
            self.most_at_once = max(self.most_at_once, self._inside)
            fault = self.faults.pop(0) if self.faults else None
        if self.gate is not None:
            self.gate.wait(10)
        with self._lock:  # before the reply: after it the client may be back already
            self._inside -= 1
        prompt = request.body["messages"][0]["content"]
        text = self.reply(prompt) if self.reply else self.text
        good = {**_reply(request.path, text), **self.patch}
        status, extra, content = fault or (200, {}, good)
        if status == WAITS:
            self._closing.wait(30)
            return None
        return status, extra, content

    @property
    def last_body(self) -> dict[str, Any]:
        return self.requests[-1][1]

    @contextmanager
    def running(self) -> Iterator[Self]:
        with super().running():
            try:
                yield self
            finally:
                self._closing.set()


@contextmanager
def openai_model(
    monkeypatch: pytest.MonkeyPatch, folder: Path, reply: Callable[[str], str]
) -> Iterator[ModelServer]:
    """The server that `openai:` asks; what is written goes to `folder`, the working folder."""
    monkeypatch.chdir(folder)
    monkeypatch.setenv("ASSAY_CACHE", str(folder / "cache"))
    monkeypatch.delenv("RAG_EVAL_PROVIDER", raising=False)
    with ModelServer().running() as running:
        monkeypatch.setenv("RAG_EVAL_OPENAI_BASE_URL", running.url)
        running.reply = reply
        yield running
