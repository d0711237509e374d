"""Events survive any way of cutting their bytes, and what is not an event is noticed."""

import pytest

from assay.net.sse import Event, EventReader, EventTooLarge


def read(*chunks: bytes) -> tuple[list[Event], EventReader]:
    reader = EventReader()
    events = [event for chunk in chunks for event in reader.feed(chunk)]
    reader.close()
    return events, reader


@pytest.mark.parametrize("end", ["\n", "\r", "\r\n"])
def test_every_line_end_of_the_standard_is_understood(end: str) -> None:
    text = end.join(["event: a", "data: 1", "data: 2", "", "event: b", "data: 3", "", ""])
    events, reader = read(text.encode())
    assert events == [Event("a", "1\n2"), Event("b", "3")]
    assert reader.problems == []


def test_an_event_is_complete_at_the_cr_that_may_be_half_of_a_crlf() -> None:
    reader = EventReader()
    assert reader.feed(b"event: a\r\ndata: 1\r\n\r") == [Event("a", "1")]
    assert reader.feed(b"\nevent: b\r\ndata: 2\r\n\r\n") == [Event("b", "2")]


def test_a_character_split_between_chunks_is_whole_again() -> None:
    encoded = "event: a\ndata: \u00e9\U0001f600\n\n".encode()
    events, reader = read(*(encoded[i : i + 1] for i in range(len(encoded))))
    assert events == [Event("a", "\u00e9\U0001f600")]
    assert reader.problems == []


def test_comments_are_no_events_and_one_space_after_the_colon_is_dropped() -> None:
    events, reader = read(b": heartbeat\n\n", b":\n", b"event:a\ndata:  1\n\n")
    assert events == [Event("a", " 1")]
    assert reader.problems == []


def test_an_unfinished_event_is_no_event_and_is_told() -> None:
    for tail in (b"event: b\ndata: 2", b"event: b\ndata: 2\n", b"dat"):
        reader = EventReader()
        assert reader.feed(b"event: a\ndata: 1\n\n" + tail) == [Event("a", "1")]
        assert reader.close() is False
        assert reader.problems == ["the stream ended inside an event"]


@pytest.mark.parametrize(
    ("stream", "problem"),
    [
        (b"event: a\n\n", "an event has no data: line"),
        (b"data: 1\n\n", "an event has no event: line"),
        (b"event: a\ndata: \xff\n\n", "a line is not valid UTF-8"),
        (b'{"a": 1}\n\n', "a line is neither event:, data:, id:, retry: nor a comment"),
    ],
)
def test_a_breach_of_the_framing_is_told_without_its_text(stream: bytes, problem: str) -> None:
    assert read(stream)[1].problems == [problem]


@pytest.mark.parametrize("size", [1, 1000])
@pytest.mark.parametrize(
    "stream", [b"event: a\n" + b"data: 12345678\n" * 10, b"data: " + b"x" * 100]
)
def test_an_event_without_an_end_is_not_collected_for_ever(stream: bytes, size: int) -> None:
    reader = EventReader(max_event_bytes=100)
    chunks = [stream[start : start + size] for start in range(0, len(stream), size)]
    with pytest.raises(EventTooLarge):
        list(map(reader.feed, chunks))
