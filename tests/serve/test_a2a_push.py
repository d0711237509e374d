"""Push notifications: what a client registers is delivered, within the server's outbound policy."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from a2a.server.context import ServerCallContext
from a2a.types.a2a_pb2 import Task, TaskPushNotificationConfig, TaskState
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from tests.serve.serving import NEW, call, request_0_3, request_1_0, serving
from tests.serve.test_green_rest import both

from assay.data import Dataset
from assay.net.outbound import UNRESTRICTED, OutboundPolicy
from assay.net.retry import RetryPolicy
from assay.serve.a2a import push
from assay.serve.a2a.push import PushSender, WebhookStore
from assay.serve.a2a.tasks import BoundedTaskStore
from assay.serve.green.agent import green_app

PUBLIC_ONLY = OutboundPolicy(public_only=True)


class Receiver:
    """A webhook that records what is posted to it, and answers with `statuses` in turn."""

    def __init__(self, *statuses: int) -> None:
        self.statuses = list(statuses)
        self.received: list[tuple[dict[str, str], Any]] = []
        self.ended = asyncio.Event()

    async def post(self, request: Request) -> Response:
        body = await request.json()
        self.received.append((dict(request.headers), body))
        status = self.statuses.pop(0) if self.statuses else 200
        state = body.get("statusUpdate", body).get("status", {}).get("state", "")
        if status == 200 and state in ("TASK_STATE_COMPLETED", "completed"):
            self.ended.set()
        return Response(status_code=status)


@asynccontextmanager
async def receiving(receiver: Receiver) -> AsyncIterator[str]:
    async with serving(Starlette(routes=[Route("/hook", receiver.post, methods=["POST"])])) as url:
        yield f"{url}/hook"


async def no_wait(_seconds: float) -> None: ...


async def test_the_events_of_a_task_reach_its_webhook_with_its_credentials(
    http: httpx.AsyncClient, tiny: Dataset, out: Path
) -> None:
    receiver = Receiver()
    async with receiving(receiver) as hook, both(tiny, out) as (url, order):
        assert (await http.get(url)).json()["capabilities"]["pushNotifications"] is True
        body = request_1_0(order)
        webhook = {
            "url": hook,
            "token": "known-to-both",
            "authentication": {"scheme": "Bearer", "credentials": "sesame"},
        }
        body["params"]["configuration"] = {
            "taskPushNotificationConfig": webhook,
            "returnImmediately": True,
        }
        task = (await http.post(url, json=body, headers=NEW)).json()["result"]["task"]
        async with asyncio.timeout(30):
            await receiver.ended.wait()
    headers = receiver.received[-1][0]
    assert headers["x-a2a-notification-token"] == "known-to-both"
    assert headers["authorization"] == "Bearer sesame"
    bodies = [body for _, body in receiver.received]
    assert {next(iter(body)) for body in bodies} <= {"task", "statusUpdate", "artifactUpdate"}
    (artifact,) = [body["artifactUpdate"] for body in bodies if "artifactUpdate" in body]
    assert artifact["taskId"] == task["id"]
    assert bodies[-1]["statusUpdate"]["status"]["state"] == "TASK_STATE_COMPLETED"


async def test_a_receiver_of_0_3_gets_the_task_as_that_version_has_it(
    http: httpx.AsyncClient, tiny: Dataset, out: Path
) -> None:
    receiver = Receiver()
    async with receiving(receiver) as hook, both(tiny, out) as (url, order):
        body = request_0_3(order)
        body["params"]["configuration"] = {"pushNotificationConfig": {"url": hook}}
        answer = (await http.post(url, json=body)).json()["result"]
        async with asyncio.timeout(30):
            await receiver.ended.wait()
    last = receiver.received[-1][1]
    assert (last["kind"], last["id"]) == ("task", answer["id"])
    assert last["artifacts"][0]["parts"][1]["kind"] == "data"


async def test_a_webhook_is_set_read_listed_and_deleted(
    http: httpx.AsyncClient, tiny: Dataset, out: Path
) -> None:
    async with both(tiny, out) as (url, order):
        sent = await http.post(url, json=request_1_0(order), headers=NEW)
        task = sent.json()["result"]["task"]["id"]
        webhook = {"taskId": task, "id": "mine", "url": "http://127.0.0.1:1/hook"}
        stored = await call(http, url, "CreateTaskPushNotificationConfig", **webhook)
        assert stored["result"] == webhook
        got = await call(http, url, "GetTaskPushNotificationConfig", taskId=task, id="mine")
        assert got["result"] == webhook
        listed = await call(http, url, "ListTaskPushNotificationConfigs", taskId=task)
        assert listed["result"]["configs"] == [webhook]
        await call(http, url, "DeleteTaskPushNotificationConfig", taskId=task, id="mine")
        left = await call(http, url, "ListTaskPushNotificationConfigs", taskId=task)
        assert left["result"].get("configs", []) == []
        strange = await call(
            http, url, "CreateTaskPushNotificationConfig", taskId="x", url=webhook["url"]
        )
        assert strange["error"]["code"] == -32001


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("http://127.0.0.1:9/hook", "private or special address"),
        ("http://169.254.169.254/latest/meta-data", "private or special address"),
        ("http://localhost/hook", "private or special address"),
        ("ftp://example.com/hook", "not an http(s) URL"),
        ("http://example.com/" + "x" * 3000, "not an http(s) URL"),
    ],
)
async def test_an_address_that_may_not_be_called_is_refused(
    http: httpx.AsyncClient, tiny: Dataset, out: Path, address: str, message: str
) -> None:
    async def load(_progress: object) -> Dataset:
        return tiny

    app = green_app(load, source="tiny", out=out, policy=PUBLIC_ONLY)
    async with serving(app) as url:
        body = request_1_0({"participants": {"retrieval_agent": "http://example.com"}})
        body["params"]["configuration"] = {"taskPushNotificationConfig": {"url": address}}
        answer = (await http.post(url, json=body, headers=NEW)).json()
    assert answer["error"]["code"] == -32602
    assert message in answer["error"]["message"]
    assert not out.exists()


@pytest.mark.parametrize(
    "webhook",
    [
        {"token": "a\r\nX-Injected: 1"},
        {"token": "x" * 5000},
        {"authentication": {"scheme": "Bearer", "credentials": "a\nb"}},
        {"authentication": {"scheme": "B\r\nearer", "credentials": "b"}},
        {"authentication": {"scheme": "Bearer", "credentials": "\N{SNOWMAN}"}},
    ],
    ids=["line break", "long token", "credentials", "scheme", "not ASCII"],
)
async def test_what_cannot_be_a_header_or_is_too_long_is_refused(
    http: httpx.AsyncClient, tiny: Dataset, out: Path, webhook: dict[str, Any]
) -> None:
    async with both(tiny, out) as (url, order):
        sent = await http.post(url, json=request_1_0(order), headers=NEW)
        task = sent.json()["result"]["task"]["id"]
        hook = {"taskId": task, "url": "http://127.0.0.1:1/hook", **webhook}
        answer = await call(http, url, "CreateTaskPushNotificationConfig", **hook)
        listed = await call(http, url, "ListTaskPushNotificationConfigs", taskId=task)
    assert answer["error"]["code"] == -32602
    assert "printable ASCII" in answer["error"]["message"]
    assert listed["result"].get("configs", []) == []


@pytest.mark.parametrize(("policy", "delivered"), [(PUBLIC_ONLY, 0), (UNRESTRICTED, 1)])
async def test_a_name_that_turns_out_to_be_private_is_not_called(
    monkeypatch: pytest.MonkeyPatch, policy: OutboundPolicy, delivered: int
) -> None:
    """What a name stands for is known only when it is called."""
    plain = socket.getaddrinfo

    def resolve(host: Any, *arguments: Any, **options: Any) -> Any:
        private = host in ("hook.example", b"hook.example")
        return plain("127.0.0.1" if private else host, *arguments, **options)

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    receiver = Receiver()
    async with (
        receiving(receiver) as hook,
        sending(policy, hook.replace("127.0.0.1", "hook.example")) as sender,
    ):
        await sender.send_notification("t", Task(id="t"))
    assert len(receiver.received) == delivered


@asynccontextmanager
async def sending(policy: OutboundPolicy, *hooks: str) -> AsyncIterator[PushSender]:
    webhooks = WebhookStore(policy)
    for number, hook in enumerate(hooks):
        config = TaskPushNotificationConfig(id=str(number), url=hook)
        await webhooks.set_info("t", config, ServerCallContext())
    retries = RetryPolicy(attempts=3, sleep=no_wait)
    sender = PushSender(webhooks, BoundedTaskStore(1, listable=False), retries=retries)
    yield sender
    await sender.close()


async def test_a_delivery_is_tried_again_where_that_can_help() -> None:
    busy, gone = Receiver(503, 500), Receiver(410)
    async with (
        receiving(busy) as first,
        receiving(gone) as second,
        sending(UNRESTRICTED, first, second) as sender,
    ):
        await sender.send_notification("t", Task(id="t"))
    assert len(busy.received) == 3
    assert len(gone.received) == 1


async def test_a_slow_webhook_delays_nothing_and_loses_the_oldest() -> None:
    go_on = asyncio.Event()
    seen: list[str] = []

    async def slow(request: Request) -> Response:
        await go_on.wait()
        seen.append((await request.json())["task"]["contextId"])
        return Response()

    app = Starlette(routes=[Route("/hook", slow, methods=["POST"])])
    async with serving(app) as url, sending(UNRESTRICTED, f"{url}/hook") as sender:
        for number in range(100):
            await sender.send_notification("t", Task(id="t", context_id=str(number)))
            await asyncio.sleep(0)
        go_on.set()
    assert len(seen) <= push.MAX_PENDING + 1
    assert seen[-1] == "99"
    assert seen == sorted(seen, key=int)


async def test_the_number_of_webhooks_of_a_task_is_bounded() -> None:
    webhooks = WebhookStore(UNRESTRICTED)
    context = ServerCallContext()
    for number in range(push.MAX_WEBHOOKS):
        config = TaskPushNotificationConfig(id=str(number), url="http://127.0.0.1:1/hook")
        await webhooks.set_info("t", config, context)
    again = TaskPushNotificationConfig(id="0", url="http://127.0.0.1:2/hook")
    await webhooks.set_info("t", again, context)
    one_more = TaskPushNotificationConfig(id="more", url="http://127.0.0.1:1/hook")
    with pytest.raises(Exception, match="as many webhooks"):
        await webhooks.set_info("t", one_more, context)


async def test_the_webhooks_of_a_dropped_task_are_forgotten() -> None:
    webhooks = WebhookStore(UNRESTRICTED)
    context = ServerCallContext()
    store = BoundedTaskStore(1, listable=False, webhooks=webhooks)
    for number in range(2):
        config = TaskPushNotificationConfig(url="http://127.0.0.1:1/hook")
        await webhooks.set_info(f"t{number}", config, context)
        task = Task(id=f"t{number}")
        task.status.state = TaskState.TASK_STATE_COMPLETED
        await store.save(task, context)
    assert await webhooks.get_info("t0", context) == []
    assert len(await webhooks.get_info("t1", context)) == 1
