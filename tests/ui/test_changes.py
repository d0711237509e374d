"""What changes something: deleting runs, and pages on which nothing can be changed."""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from starlette.routing import Route
from starlette.testclient import TestClient
from tests.ui.test_pages import names

from assay.errors import RunError
from assay.locks import try_lock
from assay.run.folder import RunFolder, remove_run
from assay.serve.ui.app import LOGIN, ui_app, ui_routes


@pytest.fixture
def copied(runs: Path, tmp_path: Path) -> Path:
    """Runs that a test may delete."""
    return shutil.copytree(runs, tmp_path / "runs")


@pytest.fixture
def client(copied: Path) -> Iterator[TestClient]:
    with open_pages(copied) as client:
        yield client


def open_pages(runs: Path, **options: Any) -> TestClient:
    origin = "http://localhost"
    app = ui_app(runs, **options)
    return TestClient(app, origin, headers={"origin": origin}, follow_redirects=False)


def delete(client: TestClient, *chosen: str) -> httpx2.Response:
    page = client.get("/delete", params={"run": list(chosen)})
    token = re.search(r'name="form_token" value="([^"]+)"', page.text)
    assert token, page.text
    return client.post("/delete", data={"form_token": token[1], "run": list(chosen)})


def test_runs_are_deleted_after_a_question(client: TestClient, copied: Path) -> None:
    first, *second = names(copied, "first") + names(copied, "second")
    asked = client.get("/delete", params={"run": [first, *second]})
    assert "Delete 3 runs?" in asked.text
    assert len(list(copied.iterdir())) == 4  # nothing is changed by GET
    assert delete(client, first, *second).status_code == 303
    assert [path.name for path in copied.iterdir()] == names(copied, "third")
    assert first not in client.get("/").text


def test_a_running_run_is_kept(client: TestClient, copied: Path) -> None:
    run, other = names(copied, "second")
    with (copied / run / "calls.jsonl").open("rb") as calls:
        assert try_lock(calls.fileno())
        (copied / run / "report.json").unlink()
        assert "is running" in client.get("/delete", params={"run": run}).text
        answer = delete(client, other, run)
        assert answer.status_code == 409
        assert "is running; cancel it" in answer.text
        with pytest.raises(RunError, match="is running"):
            remove_run(RunFolder(copied / run))
    assert (copied / other).exists()  # all or none


def test_a_baseline_goes_with_its_run_or_after_it(client: TestClient, copied: Path) -> None:
    (first,), (third,) = names(copied, "first"), names(copied, "third")
    folder = RunFolder(copied / third)
    folder.write_header(folder.read_header().model_copy(update={"baseline_of": first}))
    answer = delete(client, third)
    assert answer.status_code == 409
    assert f"is the baseline of run &#39;{first}&#39;" in answer.text
    assert delete(client, third, first).status_code == 303


@pytest.mark.parametrize("name", ["..", "../outside", "/etc", ".", "nope"])
def test_nothing_outside_of_the_folder_is_deleted(
    client: TestClient, copied: Path, name: str
) -> None:
    outside = copied.parent / "outside"
    outside.mkdir()
    (outside / "run.json").write_text("{}")
    assert client.get("/delete", params={"run": name}).status_code == 404
    token = re.search(r'form_token" value="([^"]+)"', client.get("/evaluate").text)
    assert token
    answer = client.post("/delete", data={"form_token": token[1], "run": name})
    assert answer.status_code == 404
    assert client.post("/delete", data={"run": names(copied, "first")}).status_code == 403
    assert (outside / "run.json").exists()
    assert len(list(copied.iterdir())) == 4


def test_a_link_is_not_followed(client: TestClient, copied: Path, tmp_path: Path) -> None:
    elsewhere = (copied / names(copied, "first")[0]).rename(tmp_path / "elsewhere")
    link = copied / "20260101-000000-link"
    link.symlink_to(elsewhere)
    with pytest.raises(RunError, match="is a link"):
        remove_run(RunFolder(link))
    assert (elsewhere / "run.json").exists()
    token = re.search(r'form_token" value="([^"]+)"', client.get("/evaluate").text)
    assert token
    other = next(each.name for each in copied.iterdir() if not each.is_symlink())
    answer = client.post("/delete", data={"form_token": token[1], "run": [other, link.name]})
    assert answer.status_code == 409
    assert (copied / other).exists()  # all or none


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
    assert len(posts) > 4
    with open_pages(copied, read_only=True) as client:
        for path in posts:
            answer = client.post(re.sub(r"\{\w+(:\w+)?\}", "x", path), data={"run": "x"})
            assert answer.status_code == 403, path
            assert "these pages are read-only" in answer.text, path
        for path in ("/evaluate", "/delete"):
            assert client.get(path).status_code == 403, path
        run = names(copied, "first")[0]
        for path in (f"/runs/{run}", "/?view=board", "/trends", f"/runs/{run}?tab=queries"):
            page = client.get(path)
            assert page.status_code == 200, path
            assert 'method="post"' not in page.text, path
            assert not re.search(r"/evaluate|/delete", page.text), path
        token = re.search(r'form_token" value="([^"]+)"', client.get("/").text)
        assert token
        chosen = {"form_token": token[1], "run": [run, names(copied, "third")[0]]}
        assert client.post("/chosen", data={**chosen, "do": "compare"}).status_code == 303
        assert client.post("/chosen", data={**chosen, "do": "grade"}).status_code == 403
    assert len(list(copied.iterdir())) == 4
