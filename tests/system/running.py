"""Commands, servers and small services for the tests of this folder.

with serving("purple", "--dataset", "notes", folder=tmp_path) as url: ...
"""

import json
import os
import re
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
from tests import forked
from tests.json_server import Answer, JsonRequest, JsonServer

OURS = re.compile(
    r"ASSAY_(?!CACHE)|RAG_EVAL_|OPENAI_|ANTHROPIC_|OLLAMA_|NEXTCLOUD_|QDRANT_|MCP_PORT"
)


def environment(**variables: str) -> dict[str, str]:
    """The variables of this process without settings of Assay, and `variables`."""
    return {key: text for key, text in os.environ.items() if not OURS.match(key)} | variables


def run(
    folder: Path, *arguments: str, timeout: float = 110, **variables: str
) -> "subprocess.CompletedProcess[str]":
    settings = environment(**variables)
    return forked.run(forked.ASSAY, *arguments, cwd=folder, env=settings, timeout=timeout)


@contextmanager
def serving(*arguments: str, folder: Path, **variables: str) -> Iterator[str]:
    """The address that `assay serve ARGUMENTS` prints, until the block ends."""
    command = (forked.ASSAY, "serve", *arguments, "--port", "0")
    settings = environment(**variables)
    with (
        (folder / "server.log").open("w") as log,
        forked.started(*command, cwd=folder, env=settings, stderr=log) as process,
    ):
        yield process.stdout.readline().strip()


def evaluate(green: str, agent: str, **config: Any) -> dict[str, Any]:
    """The last event of the evaluation that a REST request to the evaluator at `green` starts."""
    body = {"participants": {"retrieval_agent": agent}, "config": config}
    with httpx.Client(trust_env=False, timeout=100) as http:
        where = green + http.post(f"{green}/tasks", json=body).headers["location"]
        events = http.get(f"{where}/events").text
    last: dict[str, Any] = json.loads(events.rpartition("data: ")[2])
    return last


class Corpus:
    """A search of a few lines over a BEIR folder: the documents that share most words."""

    def __init__(self, folder: Path) -> None:
        rows = map(json.loads, (folder / "corpus.jsonl").read_text().splitlines())
        self.texts = {row["_id"]: f"{row['title']}. {row['text']}" for row in rows}
        rows = map(json.loads, (folder / "queries.jsonl").read_text().splitlines())
        self.queries = {row["_id"]: row["text"] for row in rows}
        rows = map(json.loads, (folder / "answers.jsonl").read_text().splitlines())
        self.references = {self.queries[row["query_id"]]: row["answer"] for row in rows}
        self._words = {doc_id: words(text) for doc_id, text in self.texts.items()}

    def best(self, query: str, count: int) -> list[str]:
        asked = words(query)
        ranked = sorted(self._words, key=lambda doc_id: (-len(asked & self._words[doc_id]), doc_id))
        return ranked[:count]


def words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.lower()))


class Service(JsonServer):
    """Answers each POST with what `reply` makes of its path and body; there is nothing to GET."""

    def __init__(self, reply: Callable[[str, dict[str, Any]], Any]) -> None:
        self._reply = reply
        super().__init__()

    def answer(self, request: JsonRequest) -> Answer:
        if request.method == "GET":
            return 404, {}, {}
        return 200, {}, self._reply(request.path, request.body)


class A2AAgent(JsonServer):
    """An agent on A2A 0.3 that answers with the data that `found` makes of a query and top_k."""

    version = "1.0"

    def __init__(self, found: Callable[[str, int], Any]) -> None:
        self._found = found
        super().__init__()

    def answer(self, request: JsonRequest) -> Answer:
        if request.method == "GET":
            if not request.path.endswith((".json", "/")):
                return 404, {}, {}
            card: dict[str, Any] = {"name": "Same", "description": "", "version": self.version}
            card |= {"defaultInputModes": ["text"], "defaultOutputModes": ["text"]}
            card |= {"url": self.url, "protocolVersion": "0.3.0", "capabilities": {}, "skills": []}
            return 200, {}, card
        (part,) = request.body["params"]["message"]["parts"]
        asked = json.loads(part["text"]) if "text" in part else part["data"]
        data = self._found(asked["query"], int(asked["top_k"]))
        artifact = {"artifactId": "a", "parts": [{"kind": "data", "data": data}]}
        task = {"kind": "task", "id": "t", "contextId": "c", "status": {"state": "completed"}}
        result = {**task, "artifacts": [artifact]}
        return 200, {}, {"jsonrpc": "2.0", "id": request.body["id"], "result": result}


def chat_completion(text: str, **more: Any) -> dict[str, Any]:
    message = {"role": "assistant", "content": text}
    choices = [{"index": 0, "message": message, "finish_reason": "stop"}]
    usage = {"prompt_tokens": 12, "completion_tokens": 3, "total_tokens": 15}
    shape = {"id": "c1", "object": "chat.completion", "model": "scripted"}
    return {**shape, "choices": choices, "usage": usage, **more}
