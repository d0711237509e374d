"""What the SDK quotes from a request in its errors does not leave the server."""

from typing import Any

import httpx
import pytest
from tests.serve.serving import NEW, request_0_3, request_1_0, serving

from assay.progress import Progress
from assay.serve.purple import Find, purple_app

SECRET = "patient-jane-roe"


async def _load(_progress: Progress) -> Find:
    async def find(query: str, top_k: int) -> list[str]:
        return []

    return find


def _spoiled(body: dict[str, Any], **message: Any) -> dict[str, Any]:
    body["params"]["message"] |= message
    return body


CASES = [
    ("/", _spoiled(request_0_3("{}"), parts=[{"kind": SECRET}]), -32600),
    ("/", _spoiled(request_0_3("{}", "message/stream"), role=SECRET), -32600),
    ("/", _spoiled(request_1_0("{}"), parts=SECRET), -32602),
    ("/", _spoiled(request_1_0("{}"), parts=[{"text": {"x": SECRET}}]), -32602),
    ("/", [SECRET], -32600),
    ("/", {"jsonrpc": SECRET, "method": "SendMessage", "id": 1}, -32600),
    ("/a2a/rest/message:send", {"message": {"parts": SECRET}}, 400),
    ("/a2a/rest/v1/message:send", {"message": {"content": SECRET}}, 400),
]


@pytest.mark.parametrize(("path", "body", "code"), CASES)
async def test_a_request_that_does_not_parse_is_not_quoted(
    http: httpx.AsyncClient, path: str, body: Any, code: int
) -> None:
    old = isinstance(body, dict) and "/" in body.get("method", "")
    async with serving(purple_app(_load)) as url:
        answer = await http.post(url + path, json=body, headers={} if old else NEW)
    assert answer.json()["error"]["code"] == code
    assert SECRET not in answer.text


WITH_TASK = {"taskId": SECRET}
UNKNOWN = {"jsonrpc": "2.0", "id": 1, "params": {"id": SECRET}}
NOT_FOUND = "task not found; finished tasks are kept only for a while"


@pytest.mark.parametrize(
    ("body", "version", "code", "words"),
    [
        (_spoiled(request_1_0("{}"), **WITH_TASK), "1.0", -32001, NOT_FOUND),
        (_spoiled(request_0_3("{}"), **WITH_TASK), "0.3", -32001, NOT_FOUND),
        (UNKNOWN | {"method": "GetTask"}, "1.0", -32001, NOT_FOUND),
        (UNKNOWN | {"method": "tasks/get"}, "0.3", -32001, NOT_FOUND),
        (request_1_0("{}"), SECRET, -32009, "this agent speaks A2A 1.0 and 0.3; "),
        (UNKNOWN | {"method": SECRET}, "1.0", -32601, "method not found"),
    ],
)
async def test_an_error_has_words_of_ours_and_nothing_of_the_request(
    http: httpx.AsyncClient, body: Any, version: str, code: int, words: str
) -> None:
    async with serving(purple_app(_load)) as url:
        answer = await http.post(url, json=body, headers={"A2A-Version": version})
    assert answer.json()["error"]["code"] == code
    assert answer.json()["error"]["message"].startswith(words)
    assert SECRET not in answer.text


async def test_clients_can_still_tell_errors_apart_over_rest(http: httpx.AsyncClient) -> None:
    async with serving(purple_app(_load)) as url:
        answer = await http.get(f"{url}/a2a/rest/tasks/{SECRET}", headers=NEW)
    assert answer.status_code == 404
    assert answer.json()["error"]["details"][0]["reason"] == "TASK_NOT_FOUND"
    assert SECRET not in answer.text


async def test_a_missing_field_is_still_named(http: httpx.AsyncClient) -> None:
    body = request_1_0("{}")
    del body["params"]["message"]["messageId"]
    async with serving(purple_app(_load)) as url:
        error = (await http.post(url, json=body, headers=NEW)).json()["error"]
    reason, fields = error["data"]
    assert reason["reason"] == "INVALID_PARAMS"
    assert fields["fieldViolations"][0]["field"] == "message.message_id"
