import logging
import sys

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Mount, Route

from assay.serve.request_log import RequestLog, keep_payloads_out, set_up_logging


def test_loggers_that_are_made_later_are_silent_or_say_where_and_not_what(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Without a handler, Python has a last resort of its own.
    for number, handlers in enumerate(([logging.StreamHandler(sys.stderr)], [])):
        monkeypatch.setattr(logging.root, "handlers", handlers)
        keep_payloads_out()
        logging.getLogger(f"a2a.made.later{number}").error("Request body: %s", "secret")
    assert capfd.readouterr().err == ""
    set_up_logging()
    logging.getLogger("mcp.made.later").error("got %s", "secret")
    logging.getLogger("mcp.made.later").info("got %s", "secret")
    said = capfd.readouterr().err
    assert '"message":"at test_request_log:' in said
    assert said.count("\n") == 1
    assert "secret" not in said


@pytest.mark.parametrize("known", [None, "from-the-body", "Anfrage-ä"])
async def test_the_request_id(known: str | None, caplog: pytest.LogCaptureFixture) -> None:
    async def answer(request: Request) -> PlainTextResponse:
        request.state.request_id = known or request.state.request_id
        headers = {"X-Request-ID": "of the application"}
        return PlainTextResponse(request.state.request_id, headers=headers)

    app = RequestLog(Starlette(routes=[Mount("/below", routes=[Route("/", answer)])]))
    caplog.set_level(logging.INFO, logger="assay.serve.requests")
    transport = httpx.ASGITransport(app=app)
    async with httpx.AsyncClient(transport=transport, base_url="http://server") as client:
        response = await client.get("/below/", headers={"X-Request-ID": "given"})
    expected = known or "given"
    assert response.text == expected
    assert response.headers.get_list("x-request-id") == [expected]
    fields = caplog.records[-1].fields  # type: ignore[attr-defined]
    assert fields["request_id"] == expected
