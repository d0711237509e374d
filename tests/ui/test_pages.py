"""Every page has an address, holds what it should, and fails in words."""

import re
from html import unescape
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.report.page_reading import assert_harmless, read_page
from tests.ui.conftest import running


def names(runs: Path, part: str) -> list[str]:
    return sorted(path.name for path in runs.iterdir() if part in path.name)


@pytest.fixture(scope="module")
def first(runs: Path) -> str:
    return names(runs, "first")[0]


@pytest.fixture(scope="module")
def third(runs: Path) -> str:
    return names(runs, "third")[0]


def test_the_list_shows_every_run_with_its_score(server: httpx.Client, runs: Path) -> None:
    page = read_page(server.get("/").text)
    for path in runs.iterdir():
        assert any(a.get("href") == f"/runs/{path.name}" for a in page.tags("a"))
    assert "4 runs" in page.text
    assert "2 runs" in page.text  # the trend of `second`


def test_filters_stay_in_the_address(server: httpx.Client) -> None:
    page = read_page(server.get("/", params={"text": "second"}).text)
    assert "1 to 2 of 2 runs" in page.text
    assert "No run matches" in server.get("/", params={"track": "none"}).text


def test_pages_of_a_list_keep_its_filters(server: httpx.Client, first: str) -> None:
    page = server.get(f"/runs/{first}/queries", params={"order": "best", "page": 2})
    assert f'rel="prev" href="/runs/{first}/queries?order=best&amp;page=1"' in page.text
    assert "26 to 30 of" in page.text
    assert 'rel="next"' not in page.text


def test_a_page_past_the_end_is_the_last(server: httpx.Client, first: str) -> None:
    page = server.get(f"/runs/{first}/queries", params={"page": 99})
    assert "26 to 30 of" in page.text


@pytest.mark.parametrize("page", ["0", "-1", "x", "99999999999"])
def test_a_page_number_that_makes_no_sense_is_forgiven(server: httpx.Client, page: str) -> None:
    assert server.get("/", params={"page": page}).status_code == 200


def test_a_run_s_page_is_its_report(server: httpx.Client, first: str) -> None:
    page = read_page(server.get(f"/runs/{first}").text)
    for heading in ("All metrics", "Latency", "Worst queries", "How to repeat this run"):
        assert heading in page.text
    assert "Title 0 <script>" in page.text  # the data set was found: grades and texts are there


def test_the_report_can_be_taken_along(server: httpx.Client, first: str, runs: Path) -> None:
    html = server.get(f"/runs/{first}/report.html")
    assert html.headers["content-disposition"] == f'attachment; filename="{first}.html"'
    assert html.text.startswith("<!doctype html>")
    json = server.get(f"/runs/{first}/report.json")
    assert json.content == (runs / first / "report.json").read_bytes()


def test_every_query_has_a_page(server: httpx.Client, third: str) -> None:
    listed = server.get(f"/runs/{third}/queries", params={"order": "best"})
    assert re.search(r"1 to 25 of\s+30 queries", listed.text)
    assert re.search(r"<strong>1\.000</strong>", listed.text)
    page = read_page(server.get(f"/runs/{third}/queries/q0").text)
    assert "Retrieved" in page.text
    assert "Ideal" in page.text
    failed = server.get(f"/runs/{third}/queries", params={"only": "failed"}).text
    assert "q29" in failed
    assert "q28" not in failed


def test_two_runs_are_compared_in_words(server: httpx.Client, first: str, third: str) -> None:
    page = read_page(server.get("/compare", params={"run": [first, third]}).text)
    assert re.search(r"third is significantly worse in nDCG@5 \(-0\.\d{4}\)", page.text)


def test_one_run_alone_asks_for_another(server: httpx.Client, first: str) -> None:
    answer = server.get("/compare", params={"run": first})
    assert answer.status_code == 200
    assert f'<option value="{first}" selected>' in answer.text


def test_runs_on_other_data_are_not_compared(server: httpx.Client, first: str, runs: Path) -> None:
    from assay import evaluate

    other = evaluate("builtin:bm25", "notes", out=runs, num_queries=5).folder
    try:
        answer = server.get("/compare", params={"run": [first, other.name]})
        assert answer.status_code == 422
        assert "no query in common" in answer.text
    finally:
        for file in other.path.iterdir():
            file.unlink()
        other.path.rmdir()


def test_the_leaderboard_ranks_targets(server: httpx.Client) -> None:
    page = read_page(server.get("/leaderboard").text)
    order = re.findall(r"(?<![\d.])(\d)(?:= shared)? \S*:(first|second|third)", page.text)
    assert [name for _, name in order] == ["first", "second", "third"]
    assert order[0][0] == "1"


@pytest.mark.parametrize(
    "path",
    [
        "/runs/nope",
        "/runs/..",
        "/runs/%2e%2e%2f%2e%2e%2fetc",
        "/runs/nope/events",
        "/runs/nope/queries",
        "/compare?run=nope&run=nope2",
        "/evaluations/nope",
        "/leaderboard?dataset=nope",
        "/no/such/page",
        "/static/../conftest.py",
    ],
)
def test_what_is_not_there_is_said_in_words(server: httpx.Client, path: str) -> None:
    answer = server.get(path, follow_redirects=True)
    assert answer.status_code == 404 or answer.url.path == "/"
    assert "Traceback" not in answer.text


def test_a_damaged_run_is_said_to_be_so(folder: Path, tmp_path: Path) -> None:
    damaged = tmp_path / "runs" / "20260101-000000-x"
    damaged.mkdir(parents=True)
    (damaged / "run.json").write_text("{")
    with running(folder, "--runs", str(tmp_path / "runs")) as client:
        assert "damaged" in client.get("/").text
        answer = client.get(f"/runs/{damaged.name}")
        assert answer.status_code == 409
        assert "damaged" in answer.text


def test_an_empty_folder_says_what_to_do(folder: Path, tmp_path: Path) -> None:
    with running(folder, "--runs", str(tmp_path / "none")) as client:
        assert "There is no run" in client.get("/").text
        assert "no complete runs yet" in client.get("/leaderboard").text
        assert client.get("/compare").status_code == 200


def test_a_slice_of_queries_has_an_address(server: httpx.Client, first: str) -> None:
    def listed(name: str) -> str:
        return server.get(f"/runs/{first}/queries", params={"slice": name}).text

    assert "of 30 queries" in listed("Form of the query: phrase")
    assert "No query matches" in listed("Words in the query: 1")
    assert "No query matches" in listed("Tag of the query: unheard of")


def test_runs_can_be_sorted_and_filtered(server: httpx.Client, runs: Path) -> None:
    def listed(**asked: str) -> list[str]:
        links = [a.get("href", "") for a in read_page(server.get("/", params=asked).text).tags("a")]
        names = [link.removeprefix("/runs/") for link in links if link.startswith("/runs/")]
        return [name for name in names if (runs / name).exists()][-4:]

    by_name = sorted(path.name for path in runs.iterdir())
    assert listed(sort="started") == by_name
    assert listed(sort="-started") == by_name[::-1]
    page = server.get("/", params={"sort": "-mean"}).text
    assert 'aria-sort="descending"' in page
    assert "sort=mean" in page  # the same heading turns it around
    assert "No run matches" in server.get("/", params={"since": "2999-01-01"}).text
    assert server.get("/", params={"sort": "; DROP TABLE runs", "only": "x"}).status_code == 200


def test_what_is_shown_can_be_taken_along_as_one_file(
    server: httpx.Client, first: str, third: str
) -> None:
    """With the filters of the page that it was taken from."""
    both = {"run": [first, third]}
    pages: list[tuple[str, dict[str, Any], str]] = [
        ("/compare", both, "is significantly worse"),
        (f"/runs/{third}/queries", {"only": "failed", "order": "worst"}, "1 query, nDCG@5 0.0000"),
    ]
    for path, filters, words in pages:
        shown = server.get(path, params=filters)
        link = re.search(rf'href="({path}\.html\?[^"]*)"', shown.text)
        assert link, path
        answer = server.get(unescape(link[1]))
        assert answer.status_code == 200
        assert answer.headers["content-disposition"].startswith("attachment; filename=")
        page = read_page(answer.text)
        assert_harmless(page)
        assert words in page.text, page.text[:500]
    assert server.get("/compare.html", params={"run": first}).status_code == 422
    assert server.get("/compare.html", params={"run": "../x"}).status_code == 404
