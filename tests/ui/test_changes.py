"""Pages on which nothing can be changed."""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.routing import Route
from starlette.testclient import TestClient
from tests.ui.test_pages import names

from assay.serve.ui.app import LOGIN, ui_app, ui_routes


@pytest.fixture
def copied(runs: Path, tmp_path: Path) -> Path:
    """Runs that a test may change."""
    return shutil.copytree(runs, tmp_path / "runs")


@pytest.fixture
def client(copied: Path) -> Iterator[TestClient]:
    with open_pages(copied) as client:
        yield client


def open_pages(runs: Path, **options: Any) -> TestClient:
    origin = "http://localhost"
    app = ui_app(runs, **options)
    return TestClient(app, origin, headers={"origin": origin}, follow_redirects=False)


def test_more_runs_than_a_comparison_holds_are_an_error(client: TestClient, copied: Path) -> None:
    for place in range(20):
        shutil.copytree(copied / names(copied, "first")[0], copied / f"20260101-000000-{place}")
    every = sorted(path.name for path in copied.iterdir())
    too_many = client.get("/compare", params={"run": every})
    assert too_many.status_code == 422
    assert "choose 2 to 20 runs to compare, got 24" in too_many.text


def test_read_only_pages_change_nothing(copied: Path) -> None:
    """Every route that takes a form is closed, whoever adds one."""
    posts = [
        route.path
        for route in ui_routes()
        if isinstance(route, Route)
        and route.path not in (LOGIN, "/chosen")
        and "POST" in (route.methods or ())
    ]
    assert len(posts) > 2
    with open_pages(copied, read_only=True) as client:
        for path in posts:
            answer = client.post(re.sub(r"\{\w+(:\w+)?\}", "x", path), data={"run": "x"})
            assert answer.status_code == 403, path
            assert "these pages are read-only" in answer.text, path
        assert client.get("/evaluate").status_code == 403
        run = names(copied, "first")[0]
        for path in (f"/runs/{run}", "/?view=board", "/trends", f"/runs/{run}?tab=queries"):
            page = client.get(path)
            assert page.status_code == 200, path
            assert 'method="post"' not in page.text, path
            assert not re.search("/evaluate", page.text), path
        token = re.search(r'form_token" value="([^"]+)"', client.get("/").text)
        assert token
        chosen = {"form_token": token[1], "run": [run, names(copied, "third")[0]]}
        assert client.post("/chosen", data={**chosen, "do": "compare"}).status_code == 303
        assert client.post("/chosen", data={**chosen, "do": "grade"}).status_code == 403
    assert len(list(copied.iterdir())) == 4
