"""The task store forgets what is old or too much, and nothing that still runs."""

from a2a.helpers import new_task, new_text_message
from a2a.server.context import ServerCallContext
from a2a.types.a2a_pb2 import ListTasksRequest, Task, TaskState

from assay.serve.a2a.tasks import MAX_HISTORY, BoundedTaskStore

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


async def test_finished_tasks_are_forgotten_after_a_while() -> None:
    now = 0.0
    store = BoundedTaskStore(10, listable=False, lifetime=60, clock=lambda: now)
    await store.save(task(0), CONTEXT)
    now = 50.0
    await store.save(task(1), CONTEXT)
    now = 61.0
    assert await kept(store, 2) == [1]


async def test_memory_does_not_grow_with_the_number_of_tasks() -> None:
    store = BoundedTaskStore(10, listable=True)
    for number in range(2_000):
        await store.save(task(number, WORKING), CONTEXT)
        await store.save(task(number), CONTEXT)
    assert (await store.list(ListTasksRequest(page_size=100), CONTEXT)).total_size == 10


async def test_large_tasks_are_forgotten_sooner_than_small_ones() -> None:
    store = BoundedTaskStore(100, listable=False, max_bytes=1_000)
    for number in range(5):
        await store.save(new_task(f"t{number}", "c" * 400, DONE), CONTEXT)
    assert await kept(store, 5) == [3, 4]
    await store.save(task(5), CONTEXT)
    assert await kept(store, 6) == [3, 4, 5]


async def test_a_task_that_is_saved_again_counts_once() -> None:
    store = BoundedTaskStore(100, listable=False, max_bytes=1_000)
    for _ in range(5):
        await store.save(new_task("t0", "c" * 400, DONE), CONTEXT)
    await store.save(task(1), CONTEXT)
    assert await kept(store, 2) == [0, 1]


async def test_nothing_of_a_request_but_its_caller_is_kept_with_a_task() -> None:
    store = BoundedTaskStore(10, listable=False)
    context = ServerCallContext(state={"headers": {"x-large": "x" * 10_000}})
    await store.save(task(0), context)
    (finished,) = store._finished.values()
    assert finished.owner.state == {}


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
