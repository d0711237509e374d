"""The purple agent as its callers meet it: right answers, right refusals, nothing said too much."""

import asyncio
from typing import Annotated, Any

import httpx
import pytest
from mcp.server.mcpserver import MCPServer
from pydantic import Field
from tests.serve.serving import finds, send, serving, words

from assay.progress import Progress, silent
from assay.serve.a2a import INTERNAL_ERROR
from assay.serve.purple import Find, mcp_search, purple_app

ASKED = {"query": "bone health", "top_k": 3}


async def _five(_query: str) -> list[str]:
    return ["d1", "d2", "d1", "d3", "d4", "d5"]


def doc_ids(task: Any) -> list[str]:
    (artifact,) = task["artifacts"]
    assert artifact["name"] == "retrieval_results"
    (part,) = artifact["parts"]
    assert list(part["data"]) == ["doc_ids"]
    found: list[str] = part["data"]["doc_ids"]
    return found


@pytest.mark.parametrize("as_data", [False, True], ids=["text part", "data part"])
@pytest.mark.parametrize(("top_k", "count"), [(3, 3), (2.0, 2), (None, 5)])
async def test_answers_are_ranked_distinct_and_at_most_top_k(
    http: httpx.AsyncClient, as_data: bool, top_k: float | None, count: int
) -> None:
    """Data parts turn 2 into 2.0 on their way through protobuf."""
    asked = {"query": "bone health"} | ({} if top_k is None else {"top_k": top_k})
    async with serving(purple_app(finds(_five))) as url:
        task = await send(http, url, asked, as_data=as_data)
    assert task["status"]["state"] == "TASK_STATE_COMPLETED"
    assert doc_ids(task) == ["d1", "d2", "d3", "d4", "d5"][:count]


@pytest.mark.parametrize(
    ("content", "field"),
    [
        ({"top_k": 5}, "query"),
        ({"query": "   "}, "query"),
        ({"query": "x", "top_k": True}, "top_k"),
        ({"query": "x", "top_k": 1001}, "top_k"),
        ("x", "message"),
        (["x"], "request"),
    ],
)
async def test_the_wrong_field_is_named(http: httpx.AsyncClient, content: Any, field: str) -> None:
    async with serving(purple_app(finds(_five))) as url:
        task = await send(http, url, content)
    assert task["status"]["state"] == "TASK_STATE_FAILED"
    assert words(task).startswith(f"{field}: ")


async def test_an_exception(http: httpx.AsyncClient, caplog: pytest.LogCaptureFixture) -> None:
    async def broken(query: str) -> list[str]:
        raise RuntimeError(f"cannot search for {query}")

    async with serving(purple_app(finds(broken))) as url:
        task = await send(http, url, ASKED)
    assert (task["status"]["state"], words(task)) == ("TASK_STATE_FAILED", INTERNAL_ERROR)
    assert f"exception=RuntimeError raised_at={__name__}:" in caplog.text


async def test_requests_wait_for_the_index_card_and_health_do_not(http: httpx.AsyncClient) -> None:
    loaded = asyncio.Event()

    async def load(progress: Progress) -> Find:
        progress("indexing", 10, 40)
        await loaded.wait()
        return await finds(_five)(silent)

    async with serving(purple_app(load)) as url:
        assert (await http.get(f"{url}/.well-known/agent-card.json")).status_code == 200
        assert (await http.get(f"{url}/health")).json() == {"status": "ok", "service": "purple"}
        waiting = await http.get(f"{url}/health/ready")
        assert waiting.status_code == 503
        assert waiting.json()["stage"] == {"what": "indexing", "done": 10, "total": 40}
        asking = asyncio.create_task(send(http, url, ASKED))
        await asyncio.sleep(0.05)
        assert not asking.done()
        loaded.set()
        assert doc_ids(await asking) == ["d1", "d2", "d3"]
        assert (await http.get(f"{url}/health/ready")).status_code == 200


async def test_a_burst_is_searched_a_few_at_once(http: httpx.AsyncClient) -> None:
    running = most = 0

    async def slow(_query: str) -> list[str]:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.01)
        running -= 1
        return ["d1"]

    async with serving(purple_app(finds(slow), in_flight=3)) as url:
        tasks = await asyncio.gather(*(send(http, url, ASKED) for _ in range(12)))
    assert [doc_ids(task) for task in tasks] == [["d1"]] * 12
    assert most == 3


# --- search through somebody else's MCP server ----------------------------------------------------


async def test_a_tool_is_asked_for_what_it_gives(http: httpx.AsyncClient) -> None:
    asked: list[int] = []
    server = MCPServer("search")

    @server.tool()
    def search_nfcorpus(query: str, top_k: Annotated[int, Field(ge=1, le=20)]) -> dict[str, Any]:
        if query == "broken":
            raise ValueError("on purpose")
        asked.append(top_k)
        return {"results": [{"doc_id": f"MED-{i}"} for i in (3, 1, 3, 2)]}

    async with serving(server.streamable_http_app()) as there:
        load, stop = mcp_search(there)
        async with serving(purple_app(load, on_stop=stop)) as url:
            calls = (send(http, url, {"query": "x", "top_k": top_k}) for top_k in (3, 20, 1000))
            answers = await asyncio.gather(*calls)
            failed = await send(http, url, {"query": "broken"})
    assert [doc_ids(task) for task in answers] == [["MED-3", "MED-1", "MED-2"]] * 3
    assert sorted(asked) == [3, 20, 20]
    assert failed["status"]["state"] == "TASK_STATE_FAILED"
    assert words(failed) == "the tool answered with an error"
