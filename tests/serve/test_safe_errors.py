"""What the SDK quotes from a request in its errors does not leave the server."""

from typing import Any

import httpx
import pytest
from tests.serve.serving import NEW, request_0_3, request_1_0, serving

from assay.progress import Progress
from assay.serve.purple.agent import Find, purple_app

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
    async with serving(purple_app(_load)) as url:
        answer = await http.post(url + path, json=body, headers=NEW)
    assert answer.json()["error"]["code"] == code
    assert SECRET not in answer.text


async def test_a_missing_field_is_still_named(http: httpx.AsyncClient) -> None:
    body = request_1_0("{}")
    del body["params"]["message"]["messageId"]
    async with serving(purple_app(_load)) as url:
        error = (await http.post(url, json=body, headers=NEW)).json()["error"]
    assert error["data"][0]["fieldViolations"][0]["field"] == "message.message_id"
