"""The MCP server's tools as plain REST, for agents that do not speak MCP."""

import orjson
from pydantic import ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from assay.errors import AssayError
from assay.serve.guards import ADMIN_TOKEN_VARIABLE
from assay.serve.mcp.library import Library
from assay.serve.mcp.server import problems_of
from assay.serve.mcp.shapes import SearchRequest
from assay.serve.readiness import health_routes

RESET = "/stats/reset"


def rest_routes(library: Library, *, may_reset: bool) -> list[BaseRoute]:
    """`may_reset`: the operator's token is asked for, so that no agent under test gets there."""

    async def search(request: Request) -> Response:
        try:
            wanted = SearchRequest.model_validate(orjson.loads(await request.body()))
        except orjson.JSONDecodeError:
            return _refusal(400, "the body is not JSON")
        except ValidationError as error:
            return _refusal(422, problems_of(error))
        try:
            found = await library.found_documents(wanted.query, wanted.top_k)
        except AssayError as error:
            return _refusal(503, str(error))
        return _json(found.model_dump_json())

    async def health_check(_request: Request) -> Response:
        health = library.health()
        return _json(health.model_dump_json(), 200 if health.ready else 503)

    async def stats(_request: Request) -> Response:
        return JSONResponse({"search_call_count": library.search_calls})

    async def reset(_request: Request) -> Response:
        if not may_reset:
            message = (
                f"set {ADMIN_TOKEN_VARIABLE} on the server to allow resets, and send that token: "
                "with the one for searching, an agent under test could erase its own count"
            )
            return _refusal(403, message)
        library.search_calls = 0
        return JSONResponse({"search_call_count": 0})

    return [
        Route("/search_nfcorpus", search, methods=["POST"]),
        Route("/health_check", health_check, methods=["GET", "POST"]),
        Route("/stats", stats, methods=["GET"]),
        Route(RESET, reset, methods=["POST"]),
        *health_routes("mcp", library.loading),
    ]


async def refused(_request: Request, error: Exception) -> Response:
    """No such path, or not that method, in the shape of every other error."""
    assert isinstance(error, HTTPException)
    answer = _refusal(error.status_code, error.detail.lower())
    answer.headers.update(error.headers or {})
    return answer


def _json(body: str, status: int = 200) -> Response:
    return Response(body, status, media_type="application/json")


def _refusal(status: int, message: str) -> Response:
    return JSONResponse({"error": message}, status)
