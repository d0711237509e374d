"""The application of both A2A agents: card, JSON-RPC at `/`, REST, health, behind the guards.

The card is one document that 0.3 and 1.0 clients both understand, at three addresses. Unless an
address is configured, it names the one by which it was requested: a wildcard or a container's own
name would be of no use to the client that reads it.
"""

import hashlib
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from importlib.metadata import version
from pathlib import PurePath
from typing import Any
from urllib.parse import urlsplit

import orjson
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.request_handlers.response_helpers import agent_card_to_dict
from a2a.server.routes import create_jsonrpc_routes, create_rest_routes
from a2a.types import a2a_pb2 as pb
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.types import ASGIApp

from assay.data.load import KNOWN
from assay.serve.a2a.tasks import BoundedTaskStore, SingleMessageHandler, TaskExecutor
from assay.serve.guards import OPEN_PATHS, guarded
from assay.serve.listening import END_WORK
from assay.serve.readiness import Loading, health_routes

PATHS = ("/.well-known/agent-card.json", "/.well-known/agent.json", "/")
REST_PREFIX = "/a2a/rest"
_CACHE_CONTROL = "public, max-age=60"

# Host names and addresses only: the header ends up in a document.
_HOST = re.compile(r"[A-Za-z0-9._-]+(:\d{1,5})?|\[[0-9A-Fa-f:.]+\](:\d{1,5})?")
STREAM_GRACE_S = 4.0
"""How long streams have to send their last event when the server stops."""


@dataclass(frozen=True, slots=True)
class Skill:
    """One thing that an agent does, as its card names it."""

    id: str
    name: str
    description: str
    tags: tuple[str, ...]
    example: str


@dataclass(frozen=True, slots=True)
class AgentProfile:
    """What an agent's card says about it."""

    name: str
    description: str
    skills: tuple[Skill, ...]

    def serving(self, dataset: str) -> "AgentProfile":
        """The profile of an agent that serves `dataset`, a name or the path of its files.

        The agent's name and the ids of its skills stay, by which launchers find it.
        """
        # Not the folders in which its files are, which are our own.
        name = dataset if dataset in KNOWN else PurePath(dataset).name
        skills = tuple(replace(skill, tags=(*skill.tags, name)) for skill in self.skills)
        return replace(self, description=f"{self.description} Data set: {name}.", skills=skills)

    def with_skill(self, skill: Skill) -> "AgentProfile":
        """The profile of an agent that does this as well."""
        return replace(self, skills=(*self.skills, skill))


def build_card(profile: AgentProfile, base_url: str, *, needs_token: bool) -> pb.AgentCard:
    """The card of the agent at `base_url`; `needs_token` declares the bearer token."""
    card = pb.AgentCard(
        name=profile.name,
        description=profile.description,
        version=version("agent-assay"),
        supported_interfaces=_interfaces(base_url.rstrip("/")),
        capabilities=pb.AgentCapabilities(streaming=True),
        default_input_modes=["text/plain", "application/json"],
        default_output_modes=["text/plain", "application/json"],
        skills=[
            pb.AgentSkill(
                id=skill.id,
                name=skill.name,
                description=skill.description,
                tags=list(skill.tags),
                examples=[skill.example],
            )
            for skill in profile.skills
        ],
    )
    if needs_token:
        scheme = pb.HTTPAuthSecurityScheme(scheme="bearer")
        card.security_schemes["bearer"].http_auth_security_scheme.CopyFrom(scheme)
        card.security_requirements.append(
            pb.SecurityRequirement(schemes={"bearer": pb.StringList()})
        )
    return card


def card_routes(card_at: Callable[[str], pb.AgentCard], card_url: str | None) -> list[BaseRoute]:
    """Routes that serve the card at all `PATHS`, with an ETag for clients that ask again.

    card_at: makes the card of the agent at an address.
    card_url: the address that the card names; None names the one by which it was requested.
    """

    @lru_cache(maxsize=64)
    def document(base_url: str) -> tuple[bytes, str]:
        body = orjson.dumps(agent_card_to_dict(card_at(base_url)))
        return body, f'"{hashlib.sha256(body).hexdigest()[:32]}"'

    async def show(request: Request) -> Response:
        body, tag = document(card_url or _requested_url(request))
        headers = {"ETag": tag, "Cache-Control": _CACHE_CONTROL}
        if _has_tag(request.headers.get("if-none-match", ""), tag):
            return Response(status_code=304, headers=headers)
        return Response(body, headers=headers, media_type="application/json")

    return [Route(path, show, methods=["GET"]) for path in PATHS]


def _interfaces(base: str) -> list[pb.AgentInterface]:
    """JSON-RPC first, which every client speaks. Without a version an interface would mean 0.3."""
    return [
        pb.AgentInterface(protocol_binding=binding, protocol_version=number, url=url)
        for binding, url in (("JSONRPC", f"{base}/"), ("HTTP+JSON", base + REST_PREFIX))
        for number in ("1.0", "0.3")
    ]


def _has_tag(header: str, tag: str) -> bool:
    """Whether If-None-Match names the tag; weak tags match too (RFC 9110, 13.1.2)."""
    given = {one.strip().removeprefix("W/") for one in header.split(",")}
    return tag in given or "*" in given


def _requested_url(request: Request) -> str:
    host = request.headers.get("host", "")
    return f"{request.url.scheme}://{host if _HOST.fullmatch(host) else 'localhost'}"


def a2a_app(
    profile: AgentProfile,
    executor: TaskExecutor,
    loading: Loading[Any],
    *,
    service: str,
    card_url: str | None,
    token: str | None,
    kept_tasks: int,
    routes: Sequence[BaseRoute] = (),
    end_work: Callable[[], Awaitable[None]] | None = None,
    on_stop: Callable[[], Awaitable[None]] | None = None,
) -> ASGIApp:
    """An A2A agent. Card and health are open to anyone; the rest needs `token`, if one is set.

    loading: what the agent needs before it can work; starts with the server.
    card_url: the address that the card names; None names the one by which it was requested.
    kept_tasks: how many finished tasks are remembered.
    routes: further routes beside the protocol's.
    end_work: called first when the server stops, while clients can still be sent the end.
    on_stop: called when the last client has disconnected.
    """
    store = BoundedTaskStore(kept_tasks, listable=token is not None)
    card_at = partial(build_card, profile, needs_token=token is not None)
    handler = SingleMessageHandler(executor, store, card_at(card_url or "http://localhost"))

    async def stop() -> None:
        if on_stop is not None:
            await on_stop()
        await handler.aclose()

    app = Starlette(
        routes=[
            *health_routes(service, loading),
            *card_routes(card_at, card_url),
            *routes,
            *_protocol_routes(handler),
        ],
        lifespan=_lifespan(loading, end_work, stop),
        exception_handlers={HTTPException: _error},
    )
    own = urlsplit(card_url or "").hostname
    open_paths = OPEN_PATHS | set(PATHS)
    return guarded(app, token=token, open_paths=open_paths, hosts={own} if own else ())


def _lifespan(
    loading: Loading[Any],
    end_work: Callable[[], Awaitable[None]] | None,
    stop: Callable[[], Awaitable[None]],
) -> Callable[[Starlette], AbstractAsyncContextManager[dict[str, Any]]]:
    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[dict[str, Any]]:
        loading.start()
        yield {END_WORK: end_work}
        await stop()
        await loading.stop()

    return lifespan


async def _error(_request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    return JSONResponse({"error": error.detail}, error.status_code, error.headers)


def _protocol_routes(handler: DefaultRequestHandler) -> list[BaseRoute]:
    """Without the mount of `/{tenant}` among the SDK's REST routes, which would catch every other
    path of two segments; nothing here has tenants."""
    settings: dict[str, Any] = {
        "enable_v0_3_compat": True,
        "shutdown_grace_period": STREAM_GRACE_S,
    }
    rest = create_rest_routes(handler, path_prefix=REST_PREFIX, **settings)
    rpc = create_jsonrpc_routes(handler, rpc_url="/", **settings)
    return [*rpc, *(route for route in rest if not isinstance(route, Mount))]
