"""Run folders that somebody else has written: secrets in their settings, markup in every text,
comparisons that are none. Pages show them without harm, or say what is wrong."""

import csv
import io
import json
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient
from tests.ui.conftest import open_pages

CANARY = "hunter2canary9f8e7d6c5b4a"
EVIL = "<script>alert(1)</script><img src=x onerror=alert(1)>\u202e\x1b[2J\"'{{7*7}}"
PAGES = (
    *("/runs/{name}", "/runs/{name}/report.html", "/runs/{name}?tab=queries", "/compare?{both}"),
    *("/runs/{name}?tab=settings", "/runs/{name}?tab=failures", "/compare?{both}&tab=documents"),
    *("/compare?{both}&tab=settings", "/compare?{both}&tab=metrics", "/compare.html?{both}"),
    *("/", "/?view=board", "/?view=groups", "/evaluate?run={name}"),
)

Change = Callable[[dict[str, Any]], None]


@pytest.fixture
def copies(runs: Path, tmp_path: Path) -> list[Path]:
    source = next(path for path in sorted(runs.iterdir()) if "first" in path.name)
    made = [tmp_path / "runs" / f"20261101-00000{n}-copy-{n}" for n in range(2)]
    for copy in made:
        shutil.copytree(source, copy)
    return made


@pytest.fixture
def client(copies: list[Path]) -> Iterator[TestClient]:
    with open_pages(copies[0].parent) as client:
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
    for page in (*pages_of(copies), "/trends"):
        answer = client.get(page)
        assert answer.status_code == 200, page
        for harm in ("<script>alert", "<img src=x", "\u202e", "\x1b"):
            assert harm not in answer.text, f"{page}: {harm!r}"


def test_no_text_reaches_a_private_run_by_another(client: TestClient, copies: list[Path]) -> None:
    """The data set is in memory since somebody looked at the other run, and the page has it."""
    shown = "Title 3"
    pages = [f"/runs/{copy.name}?tab=queries&query=q3" for copy in copies]
    both = "&".join(f"run={copy.name}" for copy in copies)
    assert shown in client.get(pages[1]).text
    header = json.loads((copies[1] / "run.json").read_text())
    header["config"]["private"] = True
    (copies[1] / "run.json").write_text(json.dumps(header))
    assert shown in client.get(pages[0]).text
    assert shown not in client.get(pages[1]).text
    answer = client.post("/chosen", content=f"do=grade&{both}")
    assert answer.status_code == 422
    assert "private" in answer.text


def hostile_dates(document: dict[str, Any]) -> None:
    document["started"] = "9999-12-31T23:59:59-23:59"


def hostile_gates(document: dict[str, Any]) -> None:
    """Seconds per page where the time grows with the square of a length."""
    document["git"] = {"branch": "b" * 60_000, "commit": "c" * 60_000}
    gates = ("ndcg@5>=1e999", f"ndcg@5>={'9' * 400}", f"a{' ' * 60_000}b")
    document["gates"] = [{"gate": gate, "value": 1.0, "passed": True} for gate in gates]


@pytest.mark.parametrize("by", [hostile_dates, hostile_gates])
def test_absurd_runs_have_a_trend(client: TestClient, copies: list[Path], by: Change) -> None:
    change(copies, by)
    for page in ("/trends", "/?view=board"):
        answer = client.get(page)
        assert answer.status_code == 200, page
        assert not re.search(r'"-?(?:inf|nan)', answer.text), page


def test_a_formula_in_a_run_is_text_in_a_table(client: TestClient, copies: list[Path]) -> None:

    def put_everywhere(document: dict[str, Any]) -> None:
        formula = "=HYPERLINK(A1)"
        document |= {"label": formula, "git": {"branch": formula, "commit": formula}}
        document["target"] |= {"name": formula}
        document["config"]["target"] = formula

    change(copies, put_everywhere)
    form = {"do": "export", "run": copies[0].name}
    rows = list(csv.reader(io.StringIO(client.post("/chosen", data=form).text)))
    assert any(cell.startswith("'=") for cell in rows[1])
    assert not any(cell.startswith("=") for row in rows for cell in row)
