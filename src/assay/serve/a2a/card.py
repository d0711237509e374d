"""The agent card: one document that 0.3 and 1.0 clients both understand, at three addresses.

Unless an address is configured, the card names the one by which it was requested: a wildcard or a
container's own name would be of no use to the client that reads it.
"""

import hashlib
import re
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib.metadata import version
from pathlib import PurePath

import orjson
from a2a.server.request_handlers.response_helpers import agent_card_to_dict
from a2a.types import a2a_pb2 as pb
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from assay.data.load import KNOWN

PATHS = ("/.well-known/agent-card.json", "/.well-known/agent.json", "/")
REST_PREFIX = "/a2a/rest"
_CACHE_CONTROL = "public, max-age=60"

# Host names and addresses only: the header ends up in a document.
_HOST = re.compile(r"[A-Za-z0-9._-]+(:\d{1,5})?|\[[0-9A-Fa-f:.]+\](:\d{1,5})?")


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
        name = dataset_label(dataset)
        skills = tuple(replace(each, tags=(*each.tags, name)) for each in self.skills)
        return replace(self, description=f"{self.description} Data set: {name}.", skills=skills)

    def with_skill(self, skill: Skill) -> "AgentProfile":
        """The profile of an agent that does this as well."""
        return replace(self, skills=(*self.skills, skill))


def dataset_label(dataset: str) -> str:
    """The name of a data set without the folders in which its files are, which are our own."""
    return PurePath(dataset).name if dataset not in KNOWN else dataset


def build_card(
    profile: AgentProfile, base_url: str, *, needs_token: bool, push_notifications: bool = False
) -> pb.AgentCard:
    """The card of the agent at `base_url`; `needs_token` declares the bearer token."""
    card = pb.AgentCard(
        name=profile.name,
        description=profile.description,
        version=version("agent-assay"),
        supported_interfaces=_interfaces(base_url.rstrip("/")),
        capabilities=pb.AgentCapabilities(streaming=True, push_notifications=push_notifications),
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


def card_routes(
    profile: AgentProfile,
    card_url: str | None,
    *,
    needs_token: bool,
    push_notifications: bool = False,
) -> list[BaseRoute]:
    """Routes that serve the card at all `PATHS`, with an ETag for clients that ask again."""

    @lru_cache(maxsize=64)
    def document(base_url: str) -> tuple[bytes, str]:
        card = build_card(
            profile, base_url, needs_token=needs_token, push_notifications=push_notifications
        )
        body = orjson.dumps(agent_card_to_dict(card))
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
    given = {each.strip().removeprefix("W/") for each in header.split(",")}
    return tag in given or "*" in given


def _requested_url(request: Request) -> str:
    host = request.headers.get("host", "")
    return f"{request.url.scheme}://{host if _HOST.fullmatch(host) else 'localhost'}"
