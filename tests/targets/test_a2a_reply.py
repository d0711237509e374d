"""What A2A agents send: cards of both generations, and where an answer may stand in a reply."""

import json
from typing import Any

import pytest

from assay.errors import AgentFailure, FailureKind, TargetError
from assay.targets.a2a import A2AReply, read_card, read_reply, rebase
from assay.targets.answer_reader import AnswerReader
from assay.targets.protocol import AgentAnswer


def old(**changes: Any) -> dict[str, Any]:
    card = {"name": "old", "version": "7", "url": "http://a/", "protocolVersion": "0.3.0"}
    return {**card, **changes}


def new(*interfaces: tuple[str, str, str]) -> dict[str, Any]:
    names = ("protocolBinding", "protocolVersion", "url")
    listed = [dict(zip(names, each, strict=True)) for each in interfaces]
    return {"name": "new", "supportedInterfaces": listed}


def test_of_both_generations_the_newer_list_is_read() -> None:
    rest = {"transport": "HTTP+JSON", "url": "http://a/rest"}
    card = read_card(old(additionalInterfaces=[rest]))
    assert [(each.version, each.url) for each in card.interfaces] == [("0.3", "http://a/")]
    assert card.name == "old"
    both = {**old(), **new(("JSONRPC", "0.3", "http://a/"), ("JSONRPC", "1.0", "http://a/"))}
    assert [each.version for each in read_card(both).interfaces] == ["0.3", "1.0"]


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ([], "not an agent card"),
        (old(url=7), "neither 'supportedInterfaces' nor 'url'"),
        (new(("GRPC", "1.0", "a:50051")), "offers only GRPC, which Assay does not speak"),
    ],
)
def test_what_is_no_card_is_told(document: object, message: str) -> None:
    with pytest.raises((ValueError, TargetError), match=message):
        read_card(document)


@pytest.mark.parametrize(
    ("url", "base", "expected"),
    [
        ("http://0.0.0.0:9009", "https://agent", "https://agent/"),
        ("http://x:1/a2a/v1", "http://agent:9", "http://agent:9/a2a/v1"),
        ("http://x:1/purple/rpc", "http://gate/purple", "http://gate/purple/rpc"),
        ("http://x:1/purplest", "http://gate/purple", "http://gate/purple/purplest"),
    ],
)
def test_a_wrong_address_keeps_its_path_only(url: str, base: str, expected: str) -> None:
    assert rebase(url, base) == expected


GOOD = {"doc_ids": ["d1", "d2"]}
TEXT = json.dumps(GOOD)


def find_answer(sources: Any) -> AgentAnswer:
    return read_reply(sources, AnswerReader({}))


def text(*texts: str) -> list[dict[str, Any]]:
    return [{"text": each} for each in texts]


@pytest.mark.parametrize(
    "parts",
    [
        [{"data": GOOD}],
        text(TEXT),
        text(f"```json\n{TEXT}\n```"),
        text(f"The set {{d1}} was found, so {TEXT} it is."),
        text("I found something.", TEXT),
        text(TEXT[:9], TEXT[9:]),
        [{"text": "a summary"}, {"url": "http://x"}, {"data": GOOD}],
    ],
)
def test_an_answer_is_found(parts: list[dict[str, Any]]) -> None:
    assert find_answer([parts]).doc_ids == ("d1", "d2")


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ([], "no JSON object with 'doc_ids'$"),
        (text("I found nothing."), "no JSON object .* use a2a:URL#text"),
        ([{"data": {"ids": ["d1"]}}], "no JSON object with 'doc_ids'"),
        ([{"data": {"doc_ids": "d1"}}], "'doc_ids' is a str, not a list of document ids"),
        ([{"data": {"doc_ids": [1.5]}}], "'doc_ids', position 0: a document id is a float"),
        (text('so: {"doc_ids": ["\\ud800"]}'), "position 0: a document id is not valid Unicode"),
    ],
)
def test_another_shape_is_an_invalid_answer(parts: list[dict[str, Any]], message: str) -> None:
    with pytest.raises(AgentFailure, match=message) as caught:
        find_answer([parts])
    assert caught.value.kind is FailureKind.INVALID_ANSWER
    assert not caught.value.retryable


@pytest.mark.parametrize("hard", ["{" * 200_000, '{"a":' * 100_000, '{"a":"' * 100_000])
def test_a_text_full_of_braces_is_given_up_on_soon(hard: str) -> None:
    with pytest.raises(AgentFailure):
        find_answer([text(hard)])


def task(state: str, **more: Any) -> dict[str, Any]:
    return {"kind": "task", "id": "t", "status": {"state": state}, **more}


@pytest.mark.parametrize(
    ("name", "state"),
    [("TASK_STATE_AUTH_REQUIRED", "auth-required"), ("input-required", "input-required")],
)
def test_a_task_that_did_not_complete_is_an_agent_error(name: str, state: str) -> None:
    reply = A2AReply()
    reply.feed(task(name, artifacts=[{"artifactId": "a", "parts": [{"data": GOOD}]}]))
    assert reply.finished
    with pytest.raises(AgentFailure, match=f"the task ended '{state}'") as caught:
        find_answer(reply.sources())
    assert caught.value.kind is FailureKind.AGENT_ERROR


def test_what_was_asked_is_never_taken_for_the_answer() -> None:
    reply = A2AReply()
    reply.feed(task("completed", history=[{"role": "user", "parts": text(TEXT)}]))
    with pytest.raises(AgentFailure, match="no JSON object"):
        find_answer(reply.sources())


@pytest.mark.parametrize(
    "result",
    [
        *(None, [], "done", {}, {"kind": "task"}, task("dancing")),
        {"task": {"status": {"state": 3}}},
        {"artifactUpdate": {"artifact": "a"}},
    ],
)
def test_what_is_no_result_breaks_the_protocol(result: object) -> None:
    with pytest.raises(AgentFailure) as caught:
        A2AReply().feed(result)
    assert caught.value.kind is FailureKind.PROTOCOL
