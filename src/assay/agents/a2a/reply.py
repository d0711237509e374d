"""What came back for one question, put together from whatever form it came in.

A task or a message at once, or a stream of updates; 0.3 marks each with `kind`, 1.0 and both
HTTP+JSON forms wrap each in an object named after it. The reader takes all of them, so that an
agent which mixes them up is still understood.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from assay.agents.a2a.answer import find_answer
from assay.agents.protocol import AgentAnswer
from assay.errors import AgentFailure, FailureKind

Parts = list[Mapping[str, Any]]

_WRAPPERS = {
    "task": "task",
    "message": "message",
    "msg": "message",
    "statusUpdate": "status-update",
    "artifactUpdate": "artifact-update",
}
_REFUSALS = ("failed", "rejected", "canceled", "auth-required", "input-required")
_UNDERWAY = ("submitted", "working")
_CODE = re.compile(r"[A-Z][A-Z0-9_]{2,39}(?![A-Za-z0-9_])")
_MOST_ARTIFACTS = 1000


class Reply:
    """Feed it each result; `finished` tells when there is nothing to wait for."""

    def __init__(self) -> None:
        self.task_id: str | None = None
        self.state = ""
        self._message: Parts | None = None
        self._status: Parts = []
        self._artifacts: dict[str, Parts] = {}

    @property
    def finished(self) -> bool:
        if self._message is not None:
            return True
        return self.state == "completed" or self.state in _REFUSALS

    def feed(self, result: object) -> None:
        kind, value = _unwrap(result)
        if kind == "message":
            self._message = _parts(value)
        elif kind == "task":
            self._take_task(value)
        elif kind == "status-update":
            self._take_status(value.get("status"))
        else:
            self._take_artifact(value.get("artifact"), append=value.get("append") is True)
        if kind != "message" and isinstance(task_id := value.get("taskId", value.get("id")), str):
            self.task_id = task_id

    def answer(self) -> AgentAnswer:
        if self.state in _REFUSALS and self._message is None:
            code = _code_in(self._status)
            message = f"the task ended {self.state!r}" + (f" ({code})" if code else "")
            raise AgentFailure(FailureKind.AGENT_ERROR, message)
        sources = [*self._artifacts.values()]
        if self._message is not None:
            sources.append(self._message)
        return find_answer([*sources, self._status])

    def _take_task(self, task: Mapping[str, Any]) -> None:
        artifacts = task.get("artifacts")
        for artifact in artifacts if isinstance(artifacts, list) else ():
            self._take_artifact(artifact, append=False)
        self._take_status(task.get("status"))

    def _take_status(self, status: object) -> None:
        if not isinstance(status, Mapping) or not isinstance(status.get("state"), str):
            raise bad_reply("a task without a state")
        self.state = _normal_state(status["state"])
        if self.state not in (*_UNDERWAY, *_REFUSALS, "completed"):
            raise bad_reply("a task in no state that the protocol knows")
        message = status.get("message")
        self._status = _parts(message) if isinstance(message, Mapping) else []

    def _take_artifact(self, artifact: object, *, append: bool) -> None:
        if not isinstance(artifact, Mapping):
            raise bad_reply("an artifact that is no object")
        key = str(artifact.get("artifactId", ""))
        parts = _parts(artifact)
        if append and key in self._artifacts:
            self._artifacts[key] += parts
        elif len(self._artifacts) < _MOST_ARTIFACTS:
            self._artifacts[key] = parts


def bad_reply(what: str) -> AgentFailure:
    return AgentFailure(FailureKind.PROTOCOL, f"the agent sent {what}")


def _unwrap(result: object) -> tuple[str, Mapping[str, Any]]:
    if not isinstance(result, Mapping):
        raise bad_reply("a result that is no object")
    kind = result.get("kind")
    if isinstance(kind, str) and kind in _WRAPPERS.values():
        return kind, result
    for name, wrapped in _WRAPPERS.items():
        if isinstance(result.get(name), Mapping):
            return wrapped, result[name]
    if "messageId" in result:  # agents of 0.2 leave the kind out
        return "message", result
    if "status" in result:
        return "task", result
    raise bad_reply("a result that is neither task nor message")


def _parts(holder: Mapping[str, Any]) -> Parts:
    parts = holder.get("parts", holder.get("content"))
    return [part for part in parts if isinstance(part, Mapping)] if isinstance(parts, list) else []


def _normal_state(state: str) -> str:
    plain = state.lower().removeprefix("task_state_").replace("_", "-")
    return "canceled" if plain == "cancelled" else plain


def _code_in(parts: Parts) -> str:
    """A leading code such as INDEX_MISSING; the words after it may hold anything and are left."""
    return next((found.group() for text in _texts(parts) if (found := _CODE.match(text))), "")


def _texts(parts: Parts) -> Iterator[str]:
    for part in parts:
        if isinstance(part.get("text"), str):
            yield part["text"].lstrip()
