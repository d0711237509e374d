"""Events survive any way of cutting their bytes, and what is not an event is noticed."""

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.net.sse import Event, EventReader, EventTooLarge, format_event

NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\r\n"), min_size=1)
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.text(st.characters(codec="utf-8")),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(codec="utf-8")), inner),
    max_leaves=8,
)


def read(*chunks: bytes) -> tuple[list[Event], EventReader]:
    reader = EventReader()
    events = [event for chunk in chunks for event in reader.feed(chunk)]
    reader.close()
    return events, reader


@given(NAMES, st.dictionaries(st.text(st.characters(codec="utf-8")), JSON))
def test_what_is_written_is_read_back(name: str, data: dict[str, Any]) -> None:
    events, reader = read(format_event(name, data).encode())
    assert [event.name for event in events] == [name]
    assert orjson.loads(events[0].data) == {**data, "type": name}
    assert reader.problems == []


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


def test_a_byte_order_mark_is_dropped_only_at_the_start() -> None:
    events, _ = read(b"\xef\xbb\xbfevent: a\ndata: \xef\xbb\xbf1\n\n")
    assert events == [Event("a", "\ufeff1")]


def test_comments_are_no_events() -> None:
    events, reader = read(b": heartbeat\n\n", b":\n", b"event: a\ndata: 1\n\n")
    assert events == [Event("a", "1")]
    assert reader.problems == []


def test_ids_are_read_as_the_standard_has_them_and_retry_is_no_problem() -> None:
    events, reader = read(
        b"id: 7\nretry: 250\nevent: a\ndata: 1\n\n"
        b"id: x\0y\nretry: soon\nevent: b\ndata: 2\n\n"
        b"id\nevent: c\ndata: 3\n\n"
    )
    assert [event.id for event in events] == ["7", "7", ""]
    assert reader.problems == []


def test_one_space_after_the_colon_is_dropped_and_no_more() -> None:
    assert read(b"event:a\ndata:  1\n\n")[0] == [Event("a", " 1")]


def test_an_unfinished_event_is_no_event_and_is_told() -> None:
    for tail in (b"event: b\ndata: 2", b"event: b\ndata: 2\n", b"dat"):
        reader = EventReader()
        assert reader.feed(b"event: a\ndata: 1\n\n" + tail) == [Event("a", "1")]
        assert reader.close() is False
        assert reader.problems == ["the stream ended inside an event"]


def test_a_stream_that_ends_between_events_is_clean() -> None:
    reader = EventReader()
    reader.feed(b"event: a\ndata: 1\n\n: bye\n")
    assert reader.close() is True


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


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_an_event_without_an_end_is_not_collected_for_ever(size: int) -> None:
    reader = EventReader(max_event_bytes=100)
    stream = b"event: a\n" + b"data: 12345678\n" * 10
    chunks = [stream[start : start + size] for start in range(0, len(stream), size)]
    with pytest.raises(EventTooLarge):
        list(map(reader.feed, chunks))


def test_a_line_without_an_end_is_not_collected_for_ever() -> None:
    with pytest.raises(EventTooLarge):
        EventReader(max_event_bytes=100).feed(b"data: " + b"x" * 100)


def test_many_small_events_are_not_one_large_one() -> None:
    reader = EventReader(max_event_bytes=100)
    assert len(reader.feed(b"event: a\ndata: 1\n\n" * 1000)) == 1000


def test_the_name_of_an_event_cannot_smuggle_in_lines() -> None:
    with pytest.raises(ValueError, match="newline"):
        format_event("a\ndata: forged", {})


def test_an_event_is_written_with_plain_line_feeds() -> None:
    assert (
        format_event("final", {"ok": True}) == 'event: final\ndata: {"ok":true,"type":"final"}\n\n'
    )
