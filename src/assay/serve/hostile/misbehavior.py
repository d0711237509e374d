"""One misbehavior: what the agent does, and what a good client makes of it."""

from collections.abc import Callable
from dataclasses import dataclass, field

from assay.errors import FailureKind
from assay.serve.hostile import wire
from assay.serve.hostile.protocols import Content

ANSWER = "answer"
TIMEOUT = FailureKind.TIMEOUT.value
CONNECTION = FailureKind.CONNECTION.value
PROTOCOL = FailureKind.PROTOCOL.value
INVALID = FailureKind.INVALID_ANSWER.value
ERROR = FailureKind.AGENT_ERROR.value


@dataclass(frozen=True)
class Misbehavior:
    """One way to answer badly.

    Parameters:
        name: how it is chosen, as the first part of the path or by the header `X-Hostile`.
        group: what it is about.
        description: what the agent does.
        expected: the `FailureKind` of Assay's clients, or "answer".
        act: writes the response; by default the answer is sent as it should be.
        content: what the answer says.
        raw: JSON text in the place of `PLACEHOLDER` in `content`.
        rewrite: changes the JSON before it is sent.
    """

    name: str
    group: str
    description: str
    expected: str
    act: wire.Act = wire.send_right
    content: Content = field(default_factory=Content)
    raw: str = ""
    rewrite: Callable[[bytes], bytes] | None = None


def wire_case(group: str, name: str, expected: str, act: wire.Act, description: str) -> Misbehavior:
    """A case below JSON."""
    return Misbehavior(name, group, description, expected, act)


def content_case(
    group: str, name: str, expected: str, description: str, raw: str = "", **content: object
) -> Misbehavior:
    """A case of what an answer says; `raw` stands in the content for `PLACEHOLDER`."""
    return Misbehavior(name, group, description, expected, content=Content(**content), raw=raw)


def json_case(
    name: str, expected: str, description: str, rewrite: Callable[[bytes], bytes]
) -> Misbehavior:
    """A case of JSON that is damaged after it was written."""
    return Misbehavior(name, "json", description, expected, rewrite=rewrite)


def stream_case(name: str, expected: str, act: wire.Act, description: str) -> Misbehavior:
    """A case of server-sent events."""
    return Misbehavior(name, "stream", description, expected, act)
