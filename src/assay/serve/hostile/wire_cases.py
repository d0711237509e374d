"""Misbehaviors that need no look at the answer: the wire, statuses, sizes, redirects."""

import gzip
import zlib

from assay.serve.hostile import wire
from assay.serve.hostile.misbehavior import (
    ANSWER,
    CONNECTION,
    ERROR,
    INVALID,
    PROTOCOL,
    TIMEOUT,
    Misbehavior,
    content_case,
    wire_case,
)
from assay.serve.hostile.protocols import PLACEHOLDER

_OK = "HTTP/1.1 200 OK"
_TYPE = "Content-Type: {kind}"
_LENGTH = "Content-Length: {length}"
_METADATA = "http://169.254.169.254/latest/meta-data/"

WIRE_CASES: tuple[Misbehavior, ...] = (
    wire_case("transport", "no-answer", CONNECTION, wire.no_answer, "closes without a byte"),
    wire_case("transport", "reset", CONNECTION, wire.reset, "resets the connection"),
    wire_case(
        "transport", "reset-in-body", CONNECTION, wire.reset_in_body, "resets within the body"
    ),
    wire_case(
        "transport", "half-close", CONNECTION, wire.half_close, "sends FIN, and stays connected"
    ),
    wire_case(
        "transport",
        "half-close-in-headers",
        CONNECTION,
        wire.half_close_in_headers,
        "sends FIN within the headers",
    ),
    wire_case(
        "transport",
        "half-close-in-body",
        PROTOCOL,
        wire.half_close_in_body,
        "sends FIN within the body",
    ),
    wire_case("timing", "silence", TIMEOUT, wire.silence, "never answers"),
    wire_case("timing", "silence-in-body", TIMEOUT, wire.silence_in_body, "stops within the body"),
    wire_case("timing", "slow-headers", TIMEOUT, wire.slow_headers, "sends a header every second"),
    wire_case("timing", "slow-body", TIMEOUT, wire.slow_body, "sends a byte every second"),
    wire_case(
        "timing", "endless-continue", TIMEOUT, wire.endless_continue, "sends 100s without end"
    ),
    # --- framing
    wire_case(
        "framing",
        "not-http",
        PROTOCOL,
        wire.raw(b"220 mail ready\r\n\r\n"),
        "greets as SMTP",
    ),
    wire_case("framing", "tls", PROTOCOL, wire.raw(b"\x15\x03\x01\x00\x02\x02\x46"), "speaks TLS"),
    wire_case("framing", "http-0.9", PROTOCOL, wire.bare_body, "sends a body without a head"),
    wire_case(
        "framing",
        "bad-status-line",
        PROTOCOL,
        wire.raw_head("HTTP/1.1 fine", _TYPE, _LENGTH),
        "sends a status that is not a number",
    ),
    wire_case(
        "framing",
        "http-3.7",
        PROTOCOL,
        wire.raw_head("HTTP/3.7x 200 OK", _TYPE, _LENGTH),
        "claims a version that does not exist",
    ),
    wire_case(
        "framing", "length-too-short", PROTOCOL, wire.wrong_length(-9), "cuts by Content-Length"
    ),
    wire_case(
        "framing", "length-too-long", PROTOCOL, wire.wrong_length(9), "sends less than declared"
    ),
    wire_case(
        "framing",
        "two-lengths",
        PROTOCOL,
        wire.raw_head(_OK, _TYPE, _LENGTH, "Content-Length: 7"),
        "declares two lengths",
    ),
    wire_case(
        "framing",
        "negative-length",
        PROTOCOL,
        wire.raw_head(_OK, _TYPE, "Content-Length: -1"),
        "declares a negative length",
    ),
    wire_case(
        "framing",
        "length-and-chunks",
        PROTOCOL,
        wire.raw_head(_OK, _TYPE, _LENGTH, "Transfer-Encoding: chunked"),
        "claims chunks and sends none",
    ),
    wire_case(
        "framing",
        "unknown-transfer",
        PROTOCOL,
        wire.raw_head(_OK, _TYPE, "Transfer-Encoding: gzip, banana"),
        "invents a transfer encoding",
    ),
    wire_case(
        "framing",
        "header-without-colon",
        PROTOCOL,
        wire.raw_head(_OK, _TYPE, "this is no header", _LENGTH),
        "sends a header without a colon",
    ),
    wire_case(
        "framing",
        "null-in-header",
        PROTOCOL,
        wire.raw_head(_OK, _TYPE, "X-Null: a\x00b", _LENGTH),
        "sends a NUL in a header",
    ),
    wire_case(
        "framing", "chunk-garbage", PROTOCOL, wire.chunked(b"zz\r\n{}"), "sends a bad chunk size"
    ),
    wire_case("framing", "chunk-cut", PROTOCOL, wire.chunked(b"+"), "ends between two chunks"),
    wire_case(
        "framing",
        "chunk-size-lie",
        PROTOCOL,
        wire.chunked(b"ffffffff\r\n{}"),
        "declares a chunk of 4 GB and ends",
    ),
    wire_case(
        "framing", "chunk-no-last", PROTOCOL, wire.chunked(b"*"), "leaves out the last chunk"
    ),
    wire_case(
        "framing", "trailing-data", ANSWER, wire.trailing(b"x" * 5000), "sends more afterwards"
    ),
    wire_case(
        "framing",
        "second-response",
        ANSWER,
        wire.trailing(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"),
        "answers twice",
    ),
    # --- statuses
    wire_case("status", "error-500", ERROR, wire.status("500 Oops"), "fails with a stack trace"),
    wire_case("status", "error-999", ERROR, wire.status("999 Odd"), "invents a status"),
    wire_case("status", "error-503", CONNECTION, wire.status("503 Away"), "is away"),
    wire_case(
        "status",
        "busy-for-years",
        ERROR,
        wire.status("429 Busy", "Retry-After: 99999999999"),
        "asks to be called in 3000 years",
    ),
    wire_case("status", "unauthorized", ERROR, wire.status("401 No"), "asks for credentials"),
    wire_case(
        "status", "no-content", PROTOCOL, wire.status("204 Nothing", body=b""), "has no content"
    ),
    wire_case("status", "login-page", PROTOCOL, wire.html, "answers 200 with a page to log in"),
    # --- encodings
    wire_case(
        "encoding", "gzip", ANSWER, wire.encoded("gzip", gzip.compress), "was not asked to compress"
    ),
    wire_case("encoding", "deflate", ANSWER, wire.encoded("deflate", zlib.compress), "deflates"),
    wire_case("encoding", "gzip-bomb", INVALID, wire.bomb("gzip"), "unpacks to 200 MB"),
    wire_case("encoding", "deflate-bomb", INVALID, wire.bomb("deflate", "zlib"), "deflates 200 MB"),
    wire_case(
        "encoding",
        "gzip-twice",
        PROTOCOL,
        wire.encoded("gzip, gzip", wire.double_gzip),
        "compresses twice",
    ),
    wire_case("encoding", "brotli", PROTOCOL, wire.encoded("br", bytes), "claims brotli"),
    wire_case(
        "encoding", "unknown", PROTOCOL, wire.encoded("banana", bytes), "invents an encoding"
    ),
    wire_case(
        "encoding", "false-gzip", PROTOCOL, wire.encoded("gzip", bytes), "claims gzip falsely"
    ),
    wire_case(
        "encoding",
        "cut-gzip",
        PROTOCOL,
        wire.encoded("gzip", lambda b: gzip.compress(b)[:-20]),
        "cuts its gzip",
    ),
    # --- sizes
    wire_case("size", "endless-body", INVALID, wire.endless_body, "sends a body without end"),
    wire_case("size", "endless-chunks", INVALID, wire.endless_chunks, "sends chunks without end"),
    wire_case(
        "size", "tiny-chunks", TIMEOUT, wire.tiny_chunks, "sends chunks of one byte without end"
    ),
    wire_case(
        "size", "endless-headers", PROTOCOL, wire.endless_headers, "sends headers without end"
    ),
    wire_case(
        "size", "huge-header", PROTOCOL, wire.headers(1, 1_000_000), "sends a header of 1 MB"
    ),
    wire_case("size", "many-headers", PROTOCOL, wire.headers(50_000, 20), "sends 50,000 headers"),
    wire_case(
        "size",
        "huge-length",
        INVALID,
        wire.raw_head(_OK, _TYPE, "Content-Length: 1000000000000000"),
        "declares a petabyte",
    ),
    content_case("size", "huge-string", INVALID, "sends a title of 9 MB", title="x" * 9_000_000),
    content_case(
        "size",
        "deep-json",
        PROTOCOL,
        "nests 100,000 arrays",
        raw="[" * 100_000 + "]" * 100_000,
        title=PLACEHOLDER,
    ),
    content_case(
        "size", "many-ids", INVALID, "sends 70,000 ids", ids=[f"{n:012}" for n in range(70_000)]
    ),
    # --- redirects
    wire_case(
        "redirect",
        "other-host",
        PROTOCOL,
        wire.redirect("http://other.invalid/"),
        "sends elsewhere",
    ),
    wire_case(
        "redirect", "metadata", PROTOCOL, wire.redirect(_METADATA), "sends to the cloud's metadata"
    ),
    wire_case(
        "redirect", "loopback", PROTOCOL, wire.redirect("http://127.0.0.1:1/"), "sends to loopback"
    ),
    wire_case("redirect", "file", PROTOCOL, wire.redirect("file:///etc/passwd"), "sends to a file"),
    wire_case(
        "redirect", "https", PROTOCOL, wire.redirect("https://127.0.0.1:1/"), "changes the scheme"
    ),
    wire_case("redirect", "nowhere", PROTOCOL, wire.redirect(""), "names no address"),
    wire_case(
        "redirect", "bad-address", PROTOCOL, wire.redirect("http://[x/"), "names a broken address"
    ),
    *(
        wire_case("redirect", name, PROTOCOL, wire.redirect(place), what)
        for name, place, what in (
            ("impossible-host", "http://xn--0/", "names a host that cannot be decoded"),
            ("endless-host", f"http://{'a' * 300}.example/", "names a host of 300 letters"),
            ("empty-label", "http://a..example/", "names a host with an empty label"),
            ("no-host", "http:///x", "names no host"),
            ("impossible-port", "http://127.0.0.1:99999/", "names a port above 65535"),
            ("zone", "http://[fe80::1%25eth0]/", "names an address within a network card"),
            ("control-characters", "http://a\x1b[2Jb/\x0b", "has control characters"),
        )
    ),
    wire_case(
        "redirect", "see-other", PROTOCOL, wire.redirect("{url}", "303 Other"), "turns POST to GET"
    ),
    wire_case("redirect", "loop", PROTOCOL, wire.redirect_loop, "redirects to itself"),
)
