"""Both A2A agents: the card of both generations of clients, and tasks that are dropped in time."""

import httpx
import pytest
from a2a.helpers import new_task, new_text_message
from a2a.server.context import ServerCallContext
from a2a.types.a2a_pb2 import ListTasksRequest, Task, TaskState
from tests.serve.serving import loads, serving

from assay.serve.a2a import MAX_HISTORY, BoundedTaskStore
from assay.serve.purple import purple_app


async def _never(_query: str, _top_k: int) -> list[str]:
    raise AssertionError


@pytest.mark.parametrize(
    ("host", "card_url", "named"),
    [
        ("purple-agent:9010", None, "http://purple-agent:9010/"),
        ("evil.example/@x", None, "http://localhost/"),
        ("purple-agent:9010", "http://agents.example/purple", "http://agents.example/purple/"),
        ("purple-agent:9010", "http://agents.example/purple/", "http://agents.example/purple/"),
    ],
)
async def test_the_card_names_the_configured_address_or_that_of_the_request(
    http: httpx.AsyncClient, host: str, card_url: str | None, named: str
) -> None:
    app = purple_app(loads(_never), card_url=card_url, token="sesame")
    async with serving(app) as url:
        card = (await http.get(url, headers={"Host": host})).json()
    assert (card["url"], card["protocolVersion"]) == (named, "0.3")
    assert card["preferredTransport"] == "JSONRPC"
    assert card["supportedInterfaces"] == [
        {"protocolBinding": "JSONRPC", "protocolVersion": number, "url": named}
        for number in ("1.0", "0.3")
    ]
    assert card["security"] == [{"bearer": []}]
    assert "bearer" in str(card["securitySchemes"])


CONTEXT = ServerCallContext()
DONE, WORKING = TaskState.TASK_STATE_COMPLETED, TaskState.TASK_STATE_WORKING


def task(number: int, state: TaskState = DONE) -> Task:
    return new_task(f"t{number}", "c", state)


async def kept(store: BoundedTaskStore, count: int) -> list[int]:
    return [n for n in range(count) if await store.get(f"t{n}", CONTEXT) is not None]


async def test_the_oldest_finished_tasks_are_dropped_and_running_ones_are_not() -> None:
    store = BoundedTaskStore(2)
    await store.save(task(0, WORKING), CONTEXT)
    for number in range(1, 5):
        await store.save(task(number), CONTEXT)
    assert await kept(store, 5) == [0, 3, 4]
    await store.save(task(0), CONTEXT)
    assert await kept(store, 5) == [0, 4]


async def test_nothing_of_a_request_is_kept_or_listed_with_its_task() -> None:
    store = BoundedTaskStore(10)
    context = ServerCallContext(state={"headers": {"x-large": "x" * 10_000}})
    await store.save(task(0), context)
    (owner,) = store._finished.values()
    assert owner.state == {}
    page = await store.list(ListTasksRequest(), CONTEXT)
    assert (list(page.tasks), page.total_size, page.next_page_token) == ([], 0, "")


async def test_the_history_of_a_task_is_bounded_while_it_runs() -> None:
    """As the SDK's task manager does: the same object is appended to and saved again."""
    store = BoundedTaskStore(10)
    running = task(0, WORKING)
    for number in range(3 * MAX_HISTORY):
        running.history.append(new_text_message(f"{number} queries"))
        await store.save(running, CONTEXT)
    saved = await store.get("t0", CONTEXT)
    assert saved is not None
    assert len(running.history) == len(saved.history) == MAX_HISTORY
    assert saved.history[-1].parts[0].text == f"{3 * MAX_HISTORY - 1} queries"
