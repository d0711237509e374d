"""Every misbehavior of the catalogue, met in every protocol and by the commands that call agents.

Each is met in a process whose memory is limited, ends in bounded time, and is classified the same
way in every protocol. A new protocol joins with one line in `driver.PROTOCOLS`.
"""

from collections.abc import Callable

import pytest
from tests.hostile.catalogue import (
    ANSWER,
    CATALOGUE,
    ERROR,
    INVALID,
    PROTOCOL,
    TIMEOUT,
    Misbehavior,
)
from tests.hostile.conftest import Outcomes, drive
from tests.hostile.driver import PROTOCOLS
from tests.hostile.server import FROM_START

from assay.targets.target_kinds import TARGET_KINDS, Target

# The first test of a way meets the whole catalogue.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

SECONDS = 30.0
"""For one misbehavior on a busy machine; what never ends is left after one second."""
ADDED_MB = 350
"""The most memory that a client takes for the catalogue, beyond its own."""
WAYS = tuple(PROTOCOLS)
QUOTING = ("rest", "openai", "openai-stream")
STREAMS = ("a2a-stream", "http-stream")

READ_BY_THE_SDK = {"mcp": ANSWER}
EXCEPTIONS = {
    # A stream is complete with its last event, whatever its length says.
    "length-too-long": dict.fromkeys(STREAMS, ANSWER),
    # The standard of event streams replaces bytes that are not UTF-8.
    "not-utf-8": dict.fromkeys(STREAMS, ANSWER),
    # The parser of the MCP SDK reads more than JSON.
    "nan": READ_BY_THE_SDK,
    "huge-scores": READ_BY_THE_SDK,
}


def expected(case: Misbehavior, way: str) -> str:
    protocol = "a2a" if way == "url" else way  # which is recognized by its card
    if case.group == "stream" and protocol == "http":
        return PROTOCOL  # a sync run is JSON: a stream is the wrong content type
    if protocol == "rest":  # a list of numbers is a list of ids there
        return ANSWER if case.name == "not-an-object" else expected_of_json(case)
    if protocol.startswith("openai"):
        return expected_of_chat(case, streamed=protocol.endswith("stream"))
    return EXCEPTIONS.get(case.name, {}).get(protocol, case.expected)


def expected_of_json(case: Misbehavior) -> str:
    """Plain JSON over HTTP has no envelope and no streams: a complete response whose content is
    wrong is an invalid answer."""
    if case.name == "stays-open":
        return TIMEOUT
    if case.group == "stream":
        return INVALID if case.expected in (ANSWER, PROTOCOL) else case.expected
    complete = case.group not in ("framing", "encoding", "size", "redirect")
    if complete or case.name in ("length-too-short", "deep-json"):
        return INVALID if case.expected == PROTOCOL and case.group != "transport" else case.expected
    return case.expected


def expected_of_chat(case: Misbehavior, *, streamed: bool) -> str:
    """A completion is plain JSON, or events that all clients must read in the same way. Sources
    stand beside the message: a list that cannot be read is none, and the message an answer."""
    if case.name == "loop":
        return ERROR  # it leads to the A2A endpoint, which refuses the request
    if case.group == "ids" and case.expected == INVALID:
        return ANSWER
    if case.group == "stream":
        return case.expected
    if not streamed or case.name in ("no-content", "login-page"):  # which are no streams
        return expected_of_json(case)
    if case.name == "length-too-short":
        return ANSWER  # what is cut off is behind the answer
    return EXCEPTIONS.get(case.name, {}).get("a2a-stream", case.expected)


@pytest.mark.parametrize("way", WAYS)
def test_every_misbehavior_is_classified(outcomes: Callable[[str], Outcomes], way: str) -> None:
    found = outcomes(way)
    results = {case.name: found[case.name]["result"] for case in CATALOGUE}
    assert results == {case.name: expected(case, way) for case in CATALOGUE}
    assert found["number-ids"]["ids"] == ["10", "14"]
    assert found["gzip"]["ids"] == ["MED-10", "MED-14"]
    slow = [case.name for case in CATALOGUE if float(str(found[case.name]["seconds"])) >= SECONDS]
    assert slow == []
    if way not in QUOTING:  # which quote what a service says about a request
        quoted = [case.name for case in CATALOGUE if "secret" in str(found[case.name]["detail"])]
        assert quoted == []


@pytest.mark.parametrize("way", [*WAYS, "check"])
def test_memory_is_bounded(outcomes: Callable[[str], Outcomes], way: str) -> None:
    added = outcomes(way)["memory"]["added_mb"]
    assert isinstance(added, int)
    assert added < ADDED_MB


OPENING = ("no-answer", "endless-body", "gzip-bomb", "utf-16", "not-http", "loop")


@pytest.mark.parametrize("way", [*WAYS, "check"])
def test_a_target_that_misbehaves_from_the_start_is_refused(hostile_url: str, way: str) -> None:
    found = drive(way, f"{hostile_url}/{FROM_START}", *OPENING)
    results = {found[name]["result"] for name in OPENING}
    allowed = {"no target", "broken"} if way == "check" else {"no target"}
    if way.startswith("http"):  # /health only has to be a complete response
        allowed |= {"protocol", "invalid answer"}
    if way in QUOTING:  # which have nothing to open
        allowed = {"connection", "protocol", "invalid answer"}
    assert results <= allowed, found


def test_every_network_protocol_is_in_the_suite() -> None:
    address = "http://agent.test"
    kinds = {
        name
        for name, kind in TARGET_KINDS.items()
        if name != "nextcloud"
        and kind.reaches(Target(name, f"{address}=T", ""))
        and not kind.searches_dataset
    }
    written = {target.partition(":")[0] for target in PROTOCOLS.values()}
    assert kinds - {"url"} <= written
    assert PROTOCOLS["url"] == "{url}"
