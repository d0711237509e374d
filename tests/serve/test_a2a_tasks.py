"""The task store forgets what is old or too much, and nothing that still runs."""

from a2a.helpers import new_task, new_text_message
from a2a.server.context import ServerCallContext
from a2a.types.a2a_pb2 import ListTasksRequest, Task, TaskState

from assay.serve.a2a import MAX_HISTORY, BoundedTaskStore

CONTEXT = ServerCallContext()
DONE, WORKING = TaskState.TASK_STATE_COMPLETED, TaskState.TASK_STATE_WORKING


def task(number: int, state: TaskState = DONE) -> Task:
    return new_task(f"t{number}", "c", state)


async def kept(store: BoundedTaskStore, count: int) -> list[int]:
    return [n for n in range(count) if await store.get(f"t{n}", CONTEXT) is not None]


async def test_the_oldest_finished_tasks_are_forgotten_first() -> None:
    store = BoundedTaskStore(3, listable=False)
    for number in range(5):
        await store.save(task(number), CONTEXT)
    assert await kept(store, 5) == [2, 3, 4]


async def test_running_tasks_are_never_forgotten() -> None:
    store = BoundedTaskStore(1, listable=False)
    await store.save(task(0, WORKING), CONTEXT)
    for number in range(1, 4):
        await store.save(task(number), CONTEXT)
    assert await kept(store, 4) == [0, 3]
    await store.save(task(0), CONTEXT)
    assert await kept(store, 4) == [0]


async def test_nothing_of_a_request_but_its_caller_is_kept_with_a_task() -> None:
    store = BoundedTaskStore(10, listable=False)
    context = ServerCallContext(state={"headers": {"x-large": "x" * 10_000}})
    await store.save(task(0), context)
    (owner,) = store._finished.values()
    assert owner.state == {}


async def test_the_list_without_a_token_is_empty() -> None:
    store = BoundedTaskStore(10, listable=False)
    await store.save(task(0), CONTEXT)
    page = await store.list(ListTasksRequest(), CONTEXT)
    assert (list(page.tasks), page.total_size, page.next_page_token) == ([], 0, "")


async def test_the_history_of_a_task_is_bounded_while_it_runs() -> None:
    """As the SDK's task manager does: the same object is appended to and saved again."""
    store = BoundedTaskStore(10, listable=False)
    running = task(0, WORKING)
    for number in range(3 * MAX_HISTORY):
        running.history.append(new_text_message(f"{number} queries"))
        await store.save(running, CONTEXT)
    saved = await store.get("t0", CONTEXT)
    assert saved is not None
    assert len(running.history) == len(saved.history) == MAX_HISTORY
    assert saved.history[-1].parts[0].text == f"{3 * MAX_HISTORY - 1} queries"
