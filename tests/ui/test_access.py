"""Who may use the pages, and what a page of another site can get done."""

import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from tests.ui.conftest import open_pages, running
from tests.ui.test_pages import names

from assay.serve.ui.app import COOKIE, changing_routes, local_path, page_routes, session_of

TOKEN = "a long secret"
PAGES = ("/", "/?view=board", "/trends", "/grade", "/evaluate")


@pytest.fixture(scope="module")
def guarded(folder: Path, runs: Path) -> Iterator[httpx.Client]:
    with running(folder, "--runs", str(runs), ASSAY_TOKEN=TOKEN) as client:
        yield client


@pytest.mark.parametrize("path", PAGES)
def test_every_page_forbids_inline_scripts_and_styles(server: httpx.Client, path: str) -> None:
    answer = server.get(path)
    policy = answer.headers["content-security-policy"]
    assert "script-src 'self';" in policy
    assert "style-src 'self';" in policy
    assert "unsafe" not in policy
    assert not re.search(r"<script(?! src=)|<style| style=| on\w+=\"", answer.text)
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["x-frame-options"] == "DENY"


@pytest.mark.parametrize("host", ["evil.example:9000", "", "127.0.0.1.evil.example"])
def test_a_name_pointed_at_this_machine_gets_nothing(server: httpx.Client, host: str) -> None:
    answer = server.get("/", headers={"host": host})
    assert answer.status_code == 421
    assert "Runs" not in answer.text


@pytest.mark.parametrize("path", ["/evaluate", "/evaluations/x/cancel", "/grade/x/grade"])
def test_no_other_site_can_change_anything(server: httpx.Client, path: str) -> None:
    for origin in ("http://evil.example", "null", ""):
        answer = server.post(path, data={"target": "builtin:bm25"}, headers={"origin": origin})
        assert answer.status_code == 403


@pytest.mark.parametrize("path", [*PAGES, "/runs/x/report.html"])
def test_without_the_token_a_page_leads_to_the_login(guarded: httpx.Client, path: str) -> None:
    answer = guarded.get(path)
    assert answer.status_code == 303
    assert answer.headers["location"].startswith("/login?next=")
    assert "first" not in answer.text


def test_the_token_opens_the_pages_and_the_cookie_does_not_tell_it(guarded: httpx.Client) -> None:
    login = {"next": "/trends"}
    wrong = guarded.post("/login", data={**login, "token": "wrong"})
    assert wrong.status_code == 401
    assert not wrong.cookies
    right = guarded.post("/login", data={**login, "token": TOKEN})
    assert right.status_code == 303
    assert right.headers["location"] == "/trends"
    cookie = right.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=lax" in cookie
    assert TOKEN not in cookie
    assert guarded.get("/trends").status_code == 200
    guarded.cookies.clear()
    assert guarded.get("/trends", headers={"cookie": "assay_ui=wrong"}).status_code == 303
    assert guarded.get("/", headers={"authorization": f"Bearer {TOKEN}"}).status_code == 200


def test_the_login_leads_to_this_server_only() -> None:
    assert local_path("/runs/x?page=2") == "/runs/x?page=2"
    for elsewhere in ("https://evil.example", "//evil.example", "/\\evil.example", ""):
        assert local_path(elsewhere) == "/"


def test_read_only_pages_change_nothing(runs: Path) -> None:
    posts = [route.path for route in changing_routes() if "POST" in (route.methods or ())]
    assert len(posts) > 2
    looking = [route for route in page_routes() if "POST" in (route.methods or ())]
    assert [route.path for route in looking] == ["/chosen"]
    with open_pages(runs, read_only=True) as client:
        for path in posts:
            answer = client.post(re.sub(r"\{\w+(:\w+)?\}", "x", path), data={"run": "x"})
            assert answer.status_code == 403, path
            assert "these pages are read-only" in answer.text, path
        assert client.get("/evaluate").status_code == 403
        run = names(runs, "first")[0]
        for path in (f"/runs/{run}", "/?view=board", "/trends", f"/runs/{run}?tab=queries"):
            page = client.get(path)
            assert page.status_code == 200, path
            assert 'method="post"' not in page.text, path
            assert not re.search("/evaluate", page.text), path
        chosen = {"run": [run, names(runs, "third")[0]]}
        assert client.post("/chosen", data={**chosen, "do": "compare"}).status_code == 303
        assert client.post("/chosen", data={**chosen, "do": "grade"}).status_code == 403
    assert len(list(runs.iterdir())) == 4


def test_tokens_cannot_be_guessed_without_end(runs: Path) -> None:
    with open_pages(runs, token=TOKEN) as client:
        for _ in range(20):
            assert client.get("/", headers={"authorization": "Bearer wrong"}).status_code == 303
        late = client.get("/", headers={"authorization": f"Bearer {TOKEN}"})
        assert (late.status_code, late.headers["retry-after"]) == (429, "60")
        assert client.post("/login", data={"token": TOKEN}).status_code == 429
        session = {"cookie": f"{COOKIE}={session_of(TOKEN)}"}
        assert client.get("/", headers=session).status_code == 200
