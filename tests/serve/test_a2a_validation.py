"""What is no well-formed request is refused as such, with nothing of it in the answer."""

import json
from typing import Any

import httpx
import pytest
from tests.serve.serving import NEW, request_0_3, request_1_0, serving

from assay.progress import Progress
from assay.serve.purple import Find, purple_app

SECRET = "patient-jane-roe"
REST = "/a2a/rest/message:send"


async def _load(_progress: Progress) -> Find:
    async def find(query: str, top_k: int) -> list[str]:
        return ["d1"]

    return find


def _text(body: Any) -> bytes:
    return json.dumps(body).encode()


def _with_id(written: str) -> bytes:
    return _text(request_1_0({"query": "x"})).replace(b'"id": 1', f'"id": {written}'.encode())


def _message(body: dict[str, Any], **fields: str) -> bytes:
    body["params"]["message"] |= fields
    return _text(body)


NOT_JSON = [
    b"\xff\xfe" + _text(request_1_0("{}")),
    _message(request_1_0("{}"), messageId="\ud800"),
    _message(request_0_3("{}"), messageId="\ud800"),
    _text(request_1_0({"query": SECRET, "top_k": float("nan")}, as_data=True)),
    _text(request_0_3({"query": SECRET, "top_k": float("inf")}, as_data=True)),
    _with_id("1" + "0" * 400),
    b"[" * 100_000,
    b"",
]


@pytest.mark.parametrize("body", NOT_JSON)
async def test_what_is_not_json_is_a_parse_error(http: httpx.AsyncClient, body: bytes) -> None:
    async with serving(purple_app(_load)) as url:
        rpc = await http.post(url, content=body, headers=NEW)
        rest = await http.post(url + REST, content=body or b"{", headers=NEW)
    assert (rpc.status_code, rpc.json()["error"]["code"]) == (200, -32700)
    assert (rest.status_code, rest.json()["error"]["code"]) == (400, 400)
    assert "Roe" not in rpc.text + rest.text


async def test_ids_of_every_kind_that_json_rpc_allows_come_back(http: httpx.AsyncClient) -> None:
    async with serving(purple_app(_load)) as url:
        for written in ("7", '"seven"', "null", "-9223372036854775808"):
            answer = await http.post(url, content=_with_id(written), headers=NEW)
            assert answer.json()["id"] == json.loads(written)
            assert "result" in answer.json()


@pytest.mark.parametrize("version", ["1.0", "1.0.0", "2.0"])
async def test_a_method_of_the_old_version_under_a_newer_one_is_no_internal_error(
    http: httpx.AsyncClient, version: str
) -> None:
    async with serving(purple_app(_load)) as url:
        for method in ("message/send", "message/stream"):
            body = request_0_3({"query": "x"}, method)
            answer = await http.post(url, json=body, headers={"A2A-Version": version})
            assert answer.json()["error"]["code"] == -32600
            assert answer.json()["error"]["message"].startswith("A2A-Version: ")


@pytest.mark.parametrize("version", [{}, {"A2A-Version": "0.3"}, {"A2A-Version": "0.3.26"}])
async def test_the_old_version_may_be_named_or_not(
    http: httpx.AsyncClient, version: dict[str, str]
) -> None:
    async with serving(purple_app(_load)) as url:
        answer = await http.post(url, json=request_0_3({"query": "x"}), headers=version)
    assert answer.json()["result"]["status"]["state"] == "completed"
