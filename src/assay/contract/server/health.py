"""`GET /health` and `GET /health/ready`: what every server of Assay says about itself."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from starlette.responses import JSONResponse


@dataclass(frozen=True, slots=True)
class Readiness:
    """`details` are shown to everyone: counts and names, no internal addresses."""

    ready: bool
    details: Mapping[str, object] = field(default_factory=dict)


async def always_ready() -> Readiness:
    """The readiness of an agent that has nothing to load."""
    return Readiness(True)


def health_response(service: str) -> JSONResponse:
    """To `GET /health`: the process is there."""
    return JSONResponse({"status": "ok", "service": service})


def ready_response(service: str, readiness: Readiness) -> JSONResponse:
    """To `GET /health/ready`: 200 where requests are answered, else 503; no detail hides that."""
    state = {"status": "ready" if readiness.ready else "degraded", "service": service}
    body = {**state, **readiness.details, **state}
    return JSONResponse(body, status_code=200 if readiness.ready else 503)
