"""One table of targets: how a target is read, and what everything else learns from its kind."""

from dataclasses import replace
from importlib import import_module

import pytest

from assay.data import Dataset
from assay.errors import UsageError
from assay.net.outbound import OutboundPolicy
from assay.serve.ui.evaluate import require_permitted
from assay.targets.target_kinds import (
    TARGET_KINDS,
    OpenContext,
    Target,
    check_permitted,
    open_target,
    parse_target,
)

NOTHING = Dataset(name="none", documents={}, queries={}, judgments={})
EXPOSED = OutboundPolicy.for_server("0.0.0.0", "allowed.example")


@pytest.mark.parametrize(
    ("text", "kind", "address", "fragment"),
    [
        ("builtin:bm25", "builtin", "bm25", ""),
        ("python:a.b:C.f", "python", "a.b:C.f", ""),
        ("purple:hybrid", "purple", "hybrid", ""),
        ("a2a:http://h:9010#stream", "a2a", "http://h:9010", "stream"),
        ("a2a:HTTP://X/http://allowed.example/", "a2a", "http://X/http://allowed.example/", ""),
        ("mcp:http://h/mcp#find", "mcp", "http://h/mcp", "find"),
        ("mcp-stdio:uvx server --x #find", "mcp-stdio", "uvx server --x ", "find"),
        ("nextcloud:https://cloud#answer", "nextcloud", "https://cloud", "answer"),
        ("http:http://h:8000=RAG_RETRIEVE", "http", "http://h:8000=RAG_RETRIEVE", ""),
        ("http://h:8000=RAG_RETRIEVE#stream", "http", "http://h:8000=RAG_RETRIEVE", "stream"),
        ("http:agent-rag=RAG_ANSWER", "http", "agent-rag=RAG_ANSWER", ""),
        ("HTTPS://h", "url", "https://h", ""),
        ("http://h/s?q={query}&k={top_k}", "rest", "http://h/s?q={query}&k={top_k}", ""),
    ],
)
def test_a_target_is_read_once(text: str, kind: str, address: str, fragment: str) -> None:
    target = parse_target(text)
    assert target == Target(kind, address, fragment, text)
    assert replace(parse_target(str(target)), text=text) == target


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("nonsense", "has one of these forms: builtin:bm25|"),
        ("a2aa:http://user:secret@h/?api_key=secret", "mean 'a2a:http://***@h/?api_key=***'"),
    ],
)
def test_what_is_no_target_is_refused_with_a_hint(text: str, hint: str) -> None:
    with pytest.raises(UsageError) as raised:
        parse_target(text)
    assert hint in str(raised.value)


@pytest.mark.parametrize(
    "text",
    [
        "builtin:bm25#ollama:m@127.0.0.1:8000",
        "builtin:bm25#openai:m@http://127.0.0.1:8000/http://allowed.example/",
        "builtin:bm25# gguf:/etc/passwd",
        "a2a:HTTP://127.0.0.1:8000/http://allowed.example/",
        "a2a:http://allowed.example@127.0.0.1:8000/",
        "a2a:allowed.example",
        "mcp:http://127.0.0.1/#http://allowed.example",
        "nextcloud:http://127.0.0.1",
        "http://allowed.example@evil.example",
        "python:os:system",
        "mcp-stdio:server http://allowed.example",
        "purple:hybrid",
        "http:rag=RAG_RETRIEVE",
    ],
)
def test_strangers_may_not_have_this_evaluated(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENT_ENDPOINTS_JSON", '{"rag": "http://10.0.0.1:8000"}')
    with pytest.raises(UsageError):
        check_permitted(parse_target(text), EXPOSED)
    with pytest.raises(UsageError):
        open_target(text, OpenContext(NOTHING, answers=True, policy=EXPOSED))
    with pytest.raises(UsageError):
        require_permitted(text, EXPOSED)


@pytest.mark.parametrize(
    "text",
    [
        "builtin:bm25",
        "builtin:bm25#anthropic",
        "builtin:bm25#openai:m@http://allowed.example/v1",
        "a2a:HTTP://ALLOWED.example",
        "http://allowed.example",
    ],
)
def test_strangers_may_have_this_evaluated(text: str) -> None:
    check_permitted(parse_target(text), EXPOSED)


def test_every_kind_of_the_table_has_an_agent_and_examples() -> None:
    for kind in TARGET_KINDS.values():
        module, _, name = kind.agent.partition(":")
        assert callable(getattr(import_module(module), name)), kind.name
        assert {parse_target(example).kind for example in kind.examples} == {kind.name}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a2a:purple", "is not an http(s) URL"),
        ("a2a:http://purple#fast", "only '#stream'"),
        ("mcp:ftp://x", "is not an http(s) URL"),
        ("mcp-stdio:'unclosed", "cannot parse the command"),
        ("http:http://h:8000", "names no task; write http:URL=TASK"),
        ("http://localhost:1=POLICY_REVIEW", "POLICY_REVIEW returns no documents"),
        ("http:other=RAG_RETRIEVE", "unknown agent 'other'"),
        ("builtin:bm26", "Did you mean 'builtin:bm25'?"),
        ("rest:http://h/s?api_key=abc&q={query}", "looks like a secret"),
        ("rest:http://u:p@h/s", "must not contain a user name or password"),
    ],
)
def test_a_target_that_cannot_be_called_is_refused(text: str, words: str) -> None:
    with pytest.raises(UsageError) as caught:
        open_target(text, OpenContext(NOTHING))
    assert words in str(caught.value)


@pytest.mark.parametrize("text", ["rest:http://h/s", "openai:http://h/v1", "a2a:http://h"])
def test_arguments_of_a_tool_are_refused_for_other_targets(text: str) -> None:
    with pytest.raises(UsageError, match=r"query=.* names an argument of an MCP tool"):
        open_target(text, OpenContext(NOTHING, mapping={"query": "q"}))
