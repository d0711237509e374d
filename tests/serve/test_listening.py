"""A client that is refused early still gets its response."""

import httpx
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send
from tests.serve.serving import serving

APP = Starlette()


async def _refuse(scope: Scope, receive: Receive, send: Send) -> None:
    """Answers without reading the body."""
    if scope["type"] == "lifespan":
        await APP(scope, receive, send)
    else:
        await PlainTextResponse("no", 403)(scope, receive, send)


async def test_a_client_may_send_the_rest_of_a_refused_body(http: httpx.AsyncClient) -> None:
    """Cut off in the middle of it, it would lose the response, and the connection after it."""
    async with serving(_refuse) as url:
        for _ in range(3):
            answer = await http.post(url, content=b"x" * 3_000_000)
            assert (answer.status_code, answer.text) == (403, "no")
