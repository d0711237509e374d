"""Push notifications: what happens to a task, posted to the addresses that its client registered.

A webhook is an address that a client names, so it is called under the server's outbound policy, and
neither delays a task nor fails it: each has a worker of its own that posts in order, tries again a
few times, and drops the oldest of what a slow receiver does not take.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Mapping

import httpx
import orjson
from a2a.compat.v0_3.conversions import to_compat_task
from a2a.server.context import ServerCallContext
from a2a.server.tasks import InMemoryPushNotificationConfigStore, TaskStore
from a2a.server.tasks.push_notification_sender import PushNotificationEvent, PushNotificationSender
from a2a.types.a2a_pb2 import TaskPushNotificationConfig
from a2a.utils.errors import InvalidParamsError
from a2a.utils.proto_utils import to_stream_response
from google.protobuf.json_format import MessageToDict  # type: ignore[import-untyped]

from assay.errors import AgentFailure, FailureKind, UsageError
from assay.net.client import open_client
from assay.net.http import fetch
from assay.net.outbound import OutboundPolicy, OutboundRefused
from assay.net.retry import RetryPolicy, parse_retry_after

MAX_WEBHOOKS = 8
"""How many webhooks one task may have."""

MAX_PENDING = 32
"""How many events wait for one slow webhook; older ones are dropped."""

_MAX_URL_LENGTH = 2048
_MAX_FIELD_LENGTH = 4096
_MAX_RECEIPT = 64_000
_DELIVERY_S = 10.0
_DRAIN_S = 5.0
_RETRIES = RetryPolicy(attempts=3, timeout=_DELIVERY_S, first_delay=0.5, max_retry_after=10.0)
_RETRIED = (408, 425, 500)
_OLD_METHODS = "/"

PUSH_URL = "pushNotificationConfig.url: not an http(s) URL such as https://host/path"
PUSH_REFUSED = (
    "pushNotificationConfig.url: a private or special address, which this server may not call; "
    "its operator can allow it with --allow-hosts or ASSAY_ALLOWED_HOSTS"
)
PUSH_LIMIT = "pushNotificationConfig: this task has as many webhooks as one may have"
PUSH_FIELDS = (
    "pushNotificationConfig: token, scheme and credentials have to be printable ASCII of at most "
    "4096 characters each"
)

_logger = logging.getLogger(__name__)


class WebhookStore(InMemoryPushNotificationConfigStore):
    """The webhooks of each task, at most `MAX_WEBHOOKS`, and the protocol each receiver speaks."""

    def __init__(self, policy: OutboundPolicy) -> None:
        super().__init__()
        self.policy = policy
        self._old: set[tuple[str, str]] = set()

    async def set_info(
        self,
        task_id: str,
        notification_config: TaskPushNotificationConfig,
        context: ServerCallContext,
    ) -> TaskPushNotificationConfig:
        """Register a webhook, or raise `InvalidParamsError` with the reason."""
        check_webhook(notification_config, self.policy)
        known = {each.id for each in await self.get_info(task_id, context)}
        if len(known | {notification_config.id or task_id}) > MAX_WEBHOOKS:
            raise InvalidParamsError(message=PUSH_LIMIT)
        stored = await super().set_info(task_id, notification_config, context)
        if _OLD_METHODS in str(context.state.get("method", "")):
            self._old.add((task_id, stored.id))
        else:
            self._old.discard((task_id, stored.id))
        return stored

    async def delete_info(
        self, task_id: str, context: ServerCallContext, config_id: str | None = None
    ) -> None:
        """Forget one webhook of a task, or all of them."""
        await super().delete_info(task_id, context, config_id)
        self._old = {
            key for key in self._old if key[0] != task_id or config_id not in (None, key[1])
        }

    def speaks_0_3(self, config: TaskPushNotificationConfig) -> bool:
        """Whether the webhook was registered by a client of protocol 0.3."""
        return (config.task_id, config.id) in self._old


def check_webhook(config: TaskPushNotificationConfig, policy: OutboundPolicy) -> None:
    """Refuse what cannot be sent as a header or is too large to keep, and an address that cannot
    or may not be called; names are judged when connecting."""
    url, login = config.url, config.authentication
    for text in (config.token, login.scheme, login.credentials):
        if len(text) > _MAX_FIELD_LENGTH or not (text.isascii() and text.isprintable()):
            raise InvalidParamsError(message=PUSH_FIELDS)
    try:
        if len(url) > _MAX_URL_LENGTH:
            raise UsageError("too long")
        policy.check_url(url)
    except UsageError:
        raise InvalidParamsError(message=PUSH_URL) from None
    except OutboundRefused:
        raise InvalidParamsError(message=PUSH_REFUSED) from None


class PushSender(PushNotificationSender):
    """Posts the events of tasks to their webhooks.

    tasks: where receivers of 0.3 get the whole task from, which is what that version sends.
    """

    def __init__(
        self,
        webhooks: WebhookStore,
        tasks: TaskStore,
        *,
        retries: RetryPolicy = _RETRIES,
    ) -> None:
        self._webhooks = webhooks
        self._tasks = tasks
        self._retries = retries
        self._http: httpx.AsyncClient | None = None
        self._pending: dict[tuple[str, str], deque[tuple[TaskPushNotificationConfig, bytes]]] = {}
        self._workers: dict[tuple[str, str], asyncio.Task[None]] = {}

    async def send_notification(self, task_id: str, event: PushNotificationEvent) -> None:
        """Queue the event for each webhook of the task, and return at once."""
        for config in await self._webhooks.get_info_for_dispatch(task_id):
            key = (task_id, config.id)
            payload = await self._payload(event, config)
            waiting = self._pending.setdefault(key, deque(maxlen=MAX_PENDING))
            waiting.append((config, payload))
            if key not in self._workers:
                worker = asyncio.create_task(self._deliver(key))
                self._workers[key] = worker

    async def close(self) -> None:
        """Give what is queued a few seconds to be delivered."""
        if self._workers:
            await asyncio.wait(self._workers.values(), timeout=_DRAIN_S)
        for worker in list(self._workers.values()):
            worker.cancel()
        await asyncio.gather(*self._workers.values(), return_exceptions=True)
        if self._http is not None:
            await self._http.aclose()

    async def _payload(
        self, event: PushNotificationEvent, config: TaskPushNotificationConfig
    ) -> bytes:
        """The event as a StreamResponse of 1.0, or the task as 0.3 has it."""
        if self._webhooks.speaks_0_3(config):
            task = await self._tasks.get(config.task_id, ServerCallContext())
            if task is not None:
                document = to_compat_task(task)
                return document.model_dump_json(by_alias=True, exclude_none=True).encode()
        return orjson.dumps(MessageToDict(to_stream_response(event)))

    async def _deliver(self, key: tuple[str, str]) -> None:
        waiting = self._pending[key]
        try:
            while waiting:
                await self._post(*waiting.popleft())
        finally:
            del self._pending[key]
            del self._workers[key]

    async def _post(self, config: TaskPushNotificationConfig, payload: bytes) -> None:
        """Post one event. What fails is logged with its kind: an address or a reply is not ours."""
        if self._http is None:
            self._http = open_client(self._webhooks.policy, max_bytes=_MAX_RECEIPT)
        http = self._http

        async def attempt() -> None:
            reply = await fetch(
                http,
                "POST",
                config.url,
                content=payload,
                headers=_headers(config),
                timeout=_DELIVERY_S,
                limit=_MAX_RECEIPT,
            )
            if reply.status >= 300:
                after = parse_retry_after(reply.headers.get("retry-after"))
                raise AgentFailure(
                    FailureKind.AGENT_ERROR,
                    f"HTTP {reply.status}",
                    status=reply.status,
                    retry_after=after,
                )

        try:
            await self._retries.run(attempt, should_retry=_may_pass)
        except Exception as error:
            kind = error.kind if isinstance(error, AgentFailure) else type(error).__name__
            fields = {"task_id": config.task_id, "failure": str(kind)}
            _logger.warning("push notification failed", extra={"fields": fields})


def _may_pass(error: Exception) -> bool:
    return isinstance(error, AgentFailure) and (error.retryable or error.status in _RETRIED)


def _headers(config: TaskPushNotificationConfig) -> Mapping[str, str]:
    headers = {"Content-Type": "application/json"}
    if config.token:
        headers["X-A2A-Notification-Token"] = config.token
    if config.authentication.scheme and config.authentication.credentials:
        sent = f"{config.authentication.scheme} {config.authentication.credentials}"
        headers["Authorization"] = sent
    return headers
