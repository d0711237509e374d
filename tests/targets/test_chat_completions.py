"""`openai:` targets: answers, citations and ids from chat completions, streamed or not."""

import json
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from tests.targets.every_kind import answering, ask
from tests.targets.search_services import app as services
from tests.targets.search_services import best

from assay.data import Dataset, Document, load_dataset
from assay.errors import AgentFailure, FailureKind, UsageError
from assay.targets import AgentAnswer, open_target
from assay.targets.target_kinds import OpenContext, RequestSettings

DATA = Dataset("tiny", {f"doc-{n}": Document(f"doc-{n}", "", "") for n in range(9)}, {}, {})


def completing(message: dict[str, Any], **beside: Any) -> Starlette:
    return answering(JSONResponse({"choices": [{"message": message}], **beside}))


ANNOTATIONS = [
    {"type": "url_citation", "url_citation": {"url": "https://x/a/doc-4.html"}},
    {"type": "file_citation", "file_id": "file-9", "filename": "doc-7.txt"},
]
CONTEXT = {"citations": [{"title": "T", "filepath": "x"}]}


async def answer_of(app: Starlette, *mapping: str) -> AgentAnswer:
    return await ask(app, "openai:{url}/v1", *mapping, data=DATA)


@pytest.mark.parametrize("request_body", ["", '{"stream": true}'])
@pytest.mark.parametrize("end", ["/v1", "/v1/", "/v1/chat/completions", "/v1#my-rag"])
async def test_answer_citations_and_sources_are_read(request_body: str, end: str) -> None:
    found = tuple(doc_id for doc_id, _ in best("coffee", 5))
    notes = load_dataset("notes")
    answer = await ask(services, f"openai:{{url}}{end}", data=notes, body=request_body)
    assert answer.doc_ids == found
    assert (answer.answer, answer.citations) == (f"It is so [{found[0]}].", found[:1])


@pytest.mark.parametrize(
    ("message", "beside", "doc_ids", "citations"),
    [
        ({"content": "Yes [doc-2], [doc-1; doc-3]."}, {}, "2 1 3", "2 1 3"),
        ({"content": "Yes [2]."}, {"sources": ["doc-5", "doc-6"]}, "5 6", "6"),
        ({"content": "Yes.", "annotations": ANNOTATIONS}, {}, "4 7", "4 7"),
        ({"content": "Yes.", "context": CONTEXT}, {"documents": [{"id": "doc-8"}]}, "8", ""),
        ({"content": [{"type": "text", "text": "Yes [doc-1]."}]}, {}, "1", "1"),
        ({"content": "See [Tea](https://x/doc-4.html#a)."}, {}, "4", "4"),
    ],
)
async def test_citations_and_ids_are_found_where_services_put_them(
    message: dict[str, Any], beside: dict[str, Any], doc_ids: str, citations: str
) -> None:
    answer = await answer_of(completing(message, **beside))
    assert answer.citations == tuple(f"doc-{number}" for number in citations.split())
    assert answer.doc_ids == tuple(f"doc-{number}" for number in doc_ids.split())


async def test_a_mapping_wins() -> None:
    app = completing({"content": "Yes [doc-1].", "extra": {"used": ["doc-2"]}}, refs=[{"n": 5}])
    answer = await answer_of(app, "ids=refs[].n", "citations=choices[0].message.extra.used")
    assert (answer.doc_ids, answer.citations, answer.answer) == (("5",), ("doc-2",), "Yes [doc-1].")


async def test_what_a_request_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENT_TOKEN", "token-1")
    monkeypatch.setenv("KEY_1", "key-1")
    seen: list[Any] = []

    def answer(body: dict[str, Any], request: Request) -> Response:
        seen.append((body, request.headers["authorization"], request.headers["api-key"]))
        return JSONResponse({"choices": [{"message": {"content": "Yes."}}]})

    extra = json.dumps({"temperature": 0, "k": "{top_k}"})
    headers = ("api-key: $KEY_1",)
    await ask(answering(answer), "openai:{url}/v1#m/1", body=extra, headers=headers)
    messages = [{"role": "user", "content": "coffee"}]
    body = {"model": "m/1", "messages": messages, "temperature": 0, "k": 5}
    assert seen == [(body, "Bearer token-1", "key-1")]


@pytest.mark.parametrize(
    ("content", "kind", "words"),
    [
        ('{"error": {"message": "quota"}}', FailureKind.AGENT_ERROR, "quota"),
        ('{"ids": ["a"]}', FailureKind.INVALID_ANSWER, "{'ids': ['a']}"),
        ('data: {"choices": [{"delta": {"content": "Y"}}]}\n\n', FailureKind.PROTOCOL, "ended"),
        ("data: nonsense\n\n", FailureKind.PROTOCOL, "not JSON"),
        ('data: {"error": {"message": "overloaded"}}\n\n', FailureKind.AGENT_ERROR, "overloaded"),
    ],
)
async def test_what_is_no_completion_is_said(content: str, kind: FailureKind, words: str) -> None:
    media_type = "text/event-stream" if content.startswith("data:") else "application/json"
    with pytest.raises(AgentFailure) as caught:
        await answer_of(answering(Response(content, media_type=media_type)))
    assert caught.value.kind is kind
    assert words in f"{caught.value} {caught.value.said}"


def test_additions_to_the_request_are_an_object() -> None:
    with pytest.raises(UsageError, match="must be a JSON object"):
        open_target("openai:http://h/v1", OpenContext(DATA, request=RequestSettings(body="[1]")))
