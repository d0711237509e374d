"""Events are read as the standard has them, and what is not an event is noticed; `tests/fuzz` cuts
their bytes anywhere.
"""

import pytest

from assay.net.sse import Event, EventReader, EventTooLarge


@pytest.mark.parametrize("end", ["\n", "\r", "\r\n"])
def test_every_line_end_of_the_standard_is_understood(end: str) -> None:
    text = end.join(["event: a", "data: é", "data: 2", "", "event: b", "data: 3", "", ""])
    reader = EventReader()
    assert reader.feed(text.encode()) == [Event("a", "é\n2"), Event("b", "3")]
    assert (reader.close(), reader.problems) == (True, [])


def test_an_event_is_complete_at_the_cr_that_may_be_half_of_a_crlf() -> None:
    reader = EventReader()
    assert reader.feed(b"event: a\r\ndata: 1\r\n\r") == [Event("a", "1")]
    assert reader.feed(b"\nevent: b\r\ndata: 2\r\n\r\n") == [Event("b", "2")]


@pytest.mark.parametrize(
    ("stream", "events", "problems"),
    [
        (b": heartbeat\n\n:\nevent:a\ndata:  1\n\n", [Event("a", " 1")], []),
        (b"event: a\n\n", [], ["an event has no data: line"]),
        (b"data: 1\n\n", [Event("message", "1")], ["an event has no event: line"]),
        (b"event: a\ndata: \xff\n\n", [Event("a", "\ufffd")], ["a line is not valid UTF-8"]),
        (b'{"a": 1}\n\n', [], ["a line is neither event:, data:, id:, retry: nor a comment"]),
        (b"event: b\ndata: 2", [], ["the stream ended inside an event"]),
        (b"event: b\ndata: 2\n", [], ["the stream ended inside an event"]),
        (b"dat", [], ["the stream ended inside an event"]),
    ],
)
def test_breaches_are_noted(stream: bytes, events: list[Event], problems: list[str]) -> None:
    reader = EventReader()
    assert reader.feed(stream) == events
    reader.close()
    assert reader.problems == problems


@pytest.mark.parametrize("size", [1, 1000])
@pytest.mark.parametrize(
    "stream", [b"event: a\n" + b"data: 12345678\n" * 10, b"data: " + b"x" * 100]
)
def test_an_event_without_an_end_is_not_collected_for_ever(stream: bytes, size: int) -> None:
    reader = EventReader(max_event_bytes=100)
    chunks = [stream[start : start + size] for start in range(0, len(stream), size)]
    with pytest.raises(EventTooLarge):
        list(map(reader.feed, chunks))
