"""Addresses as they are printed and taken apart: no key and no password leaves through them."""

import json

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from tests import forked
from tests.contract.running import running

from assay.errors import TargetError
from assay.net.client import open_client
from assay.net.outbound import UNRESTRICTED
from assay.targets.a2a import find_card
from assay.targets.health_check import probe


async def test_a_card_behind_a_gateway_that_wants_a_key_is_found() -> None:
    async def card(request: Request) -> Response:
        if request.query_params.get("key") != "secret":
            return JSONResponse({}, 404)
        return JSONResponse({"name": "agent", "url": str(request.base_url)})

    routes = [Route("/.well-known/agent-card.json", card)]
    async with running(Starlette(routes=routes)) as url, open_client(UNRESTRICTED) as http:
        found = await find_card(http, f"{url}?key=secret")
        assert found.name == "agent"
        assert (await probe(f"{url}?key=secret")).startswith("a2a:")
        with pytest.raises(TargetError) as raised:
            await find_card(http, f"{url}/elsewhere?key=wrong-secret")
    assert "secret" not in str(raised.value)


async def test_what_was_probed_is_told_without_a_key() -> None:
    asked: list[str] = []

    async def nothing(request: Request) -> Response:
        asked.append(str(request.url))
        return JSONResponse({}, 404)

    routes = [Route("/{path:path}", nothing, methods=["GET", "POST"])]
    async with running(Starlette(routes=routes)) as url:
        with pytest.raises(TargetError) as raised:
            await probe(f"{url}?key=secret")
    assert "secret" not in str(raised.value)
    assert any(each.endswith("/mcp?key=secret") for each in asked)
    assert not any("secret/" in each for each in asked)


@pytest.mark.parametrize(("prefix", "code"), [("", 3), ("a2a:", 2)])
@pytest.mark.parametrize("form", [["--json"], []])
def test_the_doctor_prints_no_password(prefix: str, code: int, form: list[str]) -> None:
    url = f"{prefix}http://user:secret@127.0.0.1:1/?key=secret"
    done = forked.run(forked.ASSAY, "doctor", url, *form)
    assert done.returncode == code, done.stderr
    assert "secret" not in done.stdout + done.stderr
    if form and not prefix:
        assert json.loads(done.stdout)["reached"] is False
