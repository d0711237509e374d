"""Run folders that somebody else has written: secrets in their settings, markup in every text,
comparisons that are none. Pages show them without harm, or say what is wrong."""

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from assay.serve.ui.app import ui_app

CANARY = "hunter2canary9f8e7d6c5b4a"
EVIL = "<script>alert(1)</script><img src=x onerror=alert(1)>\u202e\x1b[2J\"'{{7*7}}"
PAGES = (
    *("/runs/{name}", "/runs/{name}/report.html", "/runs/{name}/queries", "/compare?{both}"),
    *("/", "/compare", "/leaderboard", "/evaluations/new?run={name}"),
)

Change = Callable[[dict[str, Any]], None]


@pytest.fixture
def copies(runs: Path, tmp_path: Path) -> list[Path]:
    """Two runs of a folder of their own."""
    source = next(path for path in sorted(runs.iterdir()) if "first" in path.name)
    made = [tmp_path / "runs" / f"20261101-00000{n}-copy-{n}" for n in range(2)]
    for copy in made:
        shutil.copytree(source, copy)
    return made


@pytest.fixture
def client(copies: list[Path]) -> Iterator[TestClient]:
    application = ui_app(copies[0].parent)
    with TestClient(application, "http://127.0.0.1", raise_server_exceptions=False) as client:
        yield client


def change(copies: list[Path], by: Change) -> None:
    for copy in copies:
        for name in ("run.json", "report.json"):
            document = json.loads((copy / name).read_text())
            by(document)
            (copy / name).write_text(json.dumps(document))


def pages_of(copies: list[Path]) -> list[str]:
    first, second = (copy.name for copy in copies)
    both = f"run={first}&run={second}"
    return [page.format(name=first, both=both) for page in PAGES]


def test_no_page_shows_a_secret_that_a_run_holds(client: TestClient, copies: list[Path]) -> None:
    def store_secrets(document: dict[str, Any]) -> None:
        target = f"rest:http://u:{CANARY}@h/{CANARY}/s?q={{query}}&api_key={CANARY}"
        document["config"] |= {
            "target": target,
            "baseline": target,
            "request": json.dumps({"api_key": CANARY, "q": "{query}"}),
            "headers": [f"Authorization: Bearer {CANARY}"],
        }
        document["target"] |= {"name": target, "details": f"asked at {target}"}

    change(copies, store_secrets)
    for page in pages_of(copies):
        answer = client.get(page)
        assert answer.status_code == 200, page
        assert CANARY not in answer.text, page


def test_no_text_of_a_run_acts_on_a_page(client: TestClient, copies: list[Path]) -> None:
    def put_everywhere(document: dict[str, Any]) -> None:
        document |= {"label": EVIL, "note": EVIL, "tags": {EVIL: EVIL}}
        document["target"] |= dict.fromkeys(("name", "details", "agent", "protocol"), EVIL)
        document["dataset"]["name"] = document["config"]["target"] = EVIL
        for row in document.get("per_query_results", []):
            row["retrieved_docs"] = [EVIL] * len(row["retrieved_docs"])

    change(copies, put_everywhere)
    for page in pages_of(copies):
        answer = client.get(page)
        assert answer.status_code == 200, page
        for harm in ("<script>alert", "<img src=x", "\u202e", "\x1b"):
            assert harm not in answer.text, f"{page}: {harm!r}"


@pytest.mark.parametrize(
    "content",
    [b"", b"null", b"[]", b"{}", b'{"a": ' + b"[" * 100_000, b'{"a": NaN}', b"\xff\xfe"],
    ids=["empty", "null", "list", "object", "deep", "NaN", "bytes"],
)
def test_a_comparison_that_is_none_is_told_in_words(
    client: TestClient, copies: list[Path], content: bytes
) -> None:
    (copies[0] / "comparison.json").write_bytes(content)
    for page in pages_of(copies)[:4]:
        answer = client.get(page)
        assert answer.status_code in (200, 409, 422), page
        assert "Traceback" not in answer.text
    assert "comparison.json" in client.get(pages_of(copies)[3]).text
    assert client.get("/").status_code == 200


@pytest.mark.parametrize(
    "name", ["../runs", "..", ".", "%00", "x" * 5000, "{name}%2f..%2f{name}", "%2e%2e%2f"]
)
def test_a_name_that_is_no_run_of_the_folder_is_not_found(
    client: TestClient, copies: list[Path], name: str
) -> None:
    first = copies[0].name
    answer = client.get(f"/compare?run={first}&run={name.format(name=first)}")
    assert answer.status_code == 404
