"""Server-sent events as the WHATWG standard has them, written and read."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson

MAX_EVENT_BYTES = 8_000_000

_LINE_END = re.compile(rb"\r\n|\r|\n")


def format_event(event: str, data: Mapping[str, Any]) -> str:
    """One event whose JSON repeats its name as `type`, for readers that drop the `event:` line."""
    if "\n" in event or "\r" in event:
        raise ValueError("the name of an event must not contain a newline")
    payload = orjson.dumps({**data, "type": event}).decode()
    return f"event: {event}\ndata: {payload}\n\n"


@dataclass(frozen=True, slots=True)
class Event:
    """`name` is "message" if the stream gave none, as the standard says."""

    name: str
    data: str


class EventTooLarge(ValueError):
    """An event that is larger than the limit."""


class EventReader:
    """Feed it bytes as they come, split anywhere; it returns the events that they complete.

    `problems` collects breaches of the framing, each as a fixed phrase.
    """

    def __init__(self, max_event_bytes: int = MAX_EVENT_BYTES) -> None:
        self.problems: list[str] = []
        self._max_bytes = max_event_bytes
        self._buffer = bytearray()
        self._scanned = 0
        self._skip_newline = False
        self._start_event()

    def feed(self, chunk: bytes) -> list[Event]:
        if not chunk:
            return []
        if self._skip_newline:
            chunk = chunk.removeprefix(b"\n")
        self._buffer += chunk
        events = [event for line in self._take_lines() if (event := self._read_line(line))]
        self._check_size(len(self._buffer))
        return events

    def close(self) -> bool:
        """Whether the stream ended between events. An unfinished event does not count."""
        if not self._buffer and not self._fields_seen:
            return True
        self._note("the stream ended inside an event")
        return False

    def _take_lines(self) -> list[bytes]:
        """The complete lines. A CR at the very end ends its line now; an LF after it is skipped."""
        lines = []
        start = 0
        for end in _LINE_END.finditer(self._buffer, self._scanned):
            lines.append(bytes(self._buffer[start : end.start()]))
            start = end.end()
        self._skip_newline = start > 0 and start == len(self._buffer) and self._buffer[-1:] == b"\r"
        del self._buffer[:start]
        # Scanned once: a line that comes byte by byte would else take time with its square.
        self._scanned = len(self._buffer)
        return lines

    def _read_line(self, line: bytes) -> Event | None:
        if not line:
            return self._dispatch()
        self._check_size(len(line))
        if line.startswith(b":"):  # a comment, such as a heartbeat
            return None
        self._size += len(line)
        try:
            text = line.decode()
        except UnicodeDecodeError:
            self._note("a line is not valid UTF-8")
            text = line.decode(errors="replace")
        name, _, value = text.partition(":")
        value = value.removeprefix(" ")
        self._fields_seen = True
        if name == "data":
            self._data.append(value)
        elif name == "event":
            self._name = value
        elif name not in ("id", "retry"):
            self._note("a line is neither event:, data:, id:, retry: nor a comment")
        return None

    def _check_size(self, more: int) -> None:
        if self._size + more > self._max_bytes:
            raise EventTooLarge(f"an event is larger than {self._max_bytes} bytes")

    def _dispatch(self) -> Event | None:
        event = None
        if self._data:
            event = Event(self._name or "message", "\n".join(self._data))
        elif self._name:
            self._note("an event has no data: line")
        if self._data and not self._name:
            self._note("an event has no event: line")
        self._start_event()
        return event

    def _start_event(self) -> None:
        self._name = ""
        self._data: list[str] = []
        self._size: int = 0
        self._fields_seen = False

    def _note(self, problem: str) -> None:
        self.problems = list(dict.fromkeys([*self.problems, problem]))
