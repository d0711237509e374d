"""Every page has an address, holds what it should, and fails in words."""

import json
import re
import shutil
from html import unescape
from pathlib import Path

import httpx
import pytest
from starlette.testclient import TestClient
from tests.report.page_reading import assert_harmless, read_page
from tests.ui.conftest import SCRIPT, open_pages

from assay.metrics.answer_values import JudgeCall
from assay.run.folder import JudgeLog, RunFolder
from assay.serve.ui.context import PER_PAGE


def names(runs: Path, part: str) -> list[str]:
    return sorted(path.name for path in runs.iterdir() if part in path.name)


@pytest.fixture(scope="module")
def first(runs: Path) -> str:
    return names(runs, "first")[0]


@pytest.fixture(scope="module")
def third(runs: Path) -> str:
    return names(runs, "third")[0]


# --- the list of runs ----------------------------------------------------------------------------


def listed(client: httpx.Client | TestClient, **asked: str) -> list[str]:
    page = read_page(client.get("/", params=asked).text)
    return [box["value"] for box in page.tags("input") if box.get("name") == "run"]


def test_the_list_has_the_newest_run_first_and_changes(server: httpx.Client, runs: Path) -> None:
    assert listed(server) == sorted((path.name for path in runs.iterdir()), reverse=True)
    text = read_page(server.get("/").text).text
    assert "1 to 4 of 4 runs" in text
    assert "all 4" in text
    assert re.search(r"gate failed [1-4]", text)
    older, newer = names(runs, "second")
    assert f"/compare?run={older}&amp;run={newer}" in server.get("/").text


@pytest.mark.parametrize(
    ("search", "found"),
    [("target:second", 2), ("gate:failed", 1), ("since:1d", 4), ('label:"no such"', 0)],
)
def test_one_search_box_finds_runs(server: httpx.Client, search: str, found: int) -> None:
    assert len(listed(server, q=search)) == found
    assert "is not a time" in server.get("/", params={"q": "since:soon"}).text


def test_the_list_is_sorted_by_every_column_and_shows_those_that_are_chosen(
    server: httpx.Client, runs: Path
) -> None:
    by_name = sorted(path.name for path in runs.iterdir())
    assert listed(server, sort="when") == by_name
    assert listed(server, sort="-mean", metric="ndcg@5")[0] in names(runs, "first")
    for column in ("label", "target", "dataset", "branch", "change", "failed", "p95", "verdict"):
        assert len(listed(server, sort=column)) == 4, column
    page = server.get("/", params={"sort": "-mean", "col": ["mean", "p50", "nonsense"]}).text
    assert 'aria-sort="descending"' in page
    assert "sort=mean" in page  # the same heading turns it around
    assert len(read_page(page).tags("th")) == 3
    assert server.get("/", params={"sort": "; DROP", "only": "x", "page": "x"}).status_code == 200


def test_the_board_ranks_targets_and_groups_have_a_line(server: httpx.Client) -> None:
    text = read_page(server.get("/", params={"view": "board"}).text).text
    order = re.findall(r"(\d)(?:–\d)? \S*:(first|second|third)", text)
    assert [name for _, name in order] == ["first", "second", "third"]
    assert order[0][0] == "1"
    groups = read_page(server.get("/", params={"view": "groups"}).text)
    assert groups.text.count("compare · trend") == 1  # of `second`, which has two runs
    assert any("2 runs: from" in svg.get("aria-label", "") for svg in groups.tags("svg"))


def test_chosen_runs_are_compared_exported_or_refused(
    server: httpx.Client, first: str, third: str, runs: Path
) -> None:
    def act(what: str, *chosen: str) -> httpx.Response:
        return server.post("/chosen", data={"do": what, "run": list(chosen)})

    assert act("compare", first, third).headers["location"] == f"/compare?run={first}&run={third}"
    older, newer = names(runs, "second")
    assert act("compare", newer).headers["location"] == f"/compare?run={older}&run={newer}"
    table = act("export", first, third)
    assert [line.split(",")[0] for line in table.text.splitlines()] == ["run", first, third]
    assert act("compare").status_code == 422
    assert act("compare", "../x").status_code == 404


# --- a run ---------------------------------------------------------------------------------------


def test_queries_are_sorted_filtered_and_opened(server: httpx.Client, third: str) -> None:
    def shown(**asked: str) -> str:
        asked = {"tab": "queries", **asked}
        return server.get(f"/runs/{third}", params=asked).text

    def ids(page: str) -> list[str]:
        return re.findall(r'data-panel href="[^"]*query=(q\d+)', page)

    assert len(ids(shown())) == 30
    assert set(ids(shown(sort="-score"))[:2]) == {"q0", "q1"}
    assert ids(shown(slice="outcome:failed: agent error")) == ["q29"]
    assert "No query matches" in shown(slice="tag:unheard of")
    assert ids(shown(q="query 7 ")) == ["q7"]
    panel = read_page(shown(query="q29")).text
    assert f"refused {SCRIPT}" in panel
    assert "The same query in other runs" in panel
    assert "The raw call" in panel
    assert "Title 0 <script>" in read_page(shown(query="q0")).text
    assert server.get(f"/runs/{third}?tab=queries&query=nope").status_code == 404


def test_a_script_gets_the_panel_alone(server: httpx.Client, third: str, first: str) -> None:
    for address in (f"/runs/{third}?tab=queries&query=q3", f"/compare?run={first}&run={third}"):
        part = server.get(address, headers={"fragment": "panel"}).text
        assert part.startswith('<section id="panel"'), address
        assert part.strip() in server.get(address).text


def test_pages_of_a_long_list_keep_its_filters(runs: Path, first: str, tmp_path: Path) -> None:
    for place in range(120):
        shutil.copytree(runs / first, tmp_path / f"20260101-0000{place:03}-copy")
    with open_pages(tmp_path) as client:
        page = client.get("/", params={"q": "copy"}).text
        assert "1 to 50 of 120 runs" in read_page(page).text
        assert len(page) < 150_000
        assert 'rel="next" href="/?q=copy&amp;page=2"' in page
        assert len(listed(client, q="copy", page="99")) == 20
        shown = client.get("/", params={"page": "2"}).text
        assert shown.count('class="plot whisker"') == PER_PAGE
        assert len(client.get("/compare", params={"run": listed(client)[:20]}).text) < 150_000
        too_many = client.get("/compare", params={"run": listed(client)[:21]})
        assert too_many.status_code == 422
        assert "choose 2 to 20 runs to compare, got 21" in too_many.text


# --- answers -------------------------------------------------------------------------------------


def test_a_wrong_answer_is_opened_with_contexts_prompt_and_verdict(
    answer_server: httpx.Client, answer_runs: Path
) -> None:
    liar = names(answer_runs, "liar")[0]
    folder = RunFolder(answer_runs / liar)
    call = json.loads(folder.calls_file.read_text().splitlines()[0])
    query_id = call["query_id"]
    prompt = f"Compare {SCRIPT}"
    judged = JudgeCall(
        query_id=query_id, kind="correctness", prompt=prompt, reply="No.", verdict=None
    )
    JudgeLog(folder.path).add(judged)
    call["contexts"] = [{"id": "c1", "doc_id": "note-001", "text": f"shown to the model {SCRIPT}"}]
    with folder.calls_file.open("a") as calls:
        calls.write(json.dumps(call) + "\n")
    address = f"/runs/{liar}?tab=answers"
    html = answer_server.get(f"{address}&query={query_id}").text
    text = read_page(html).text
    for words in ("correctness: not a verdict", prompt, "No.", "shown to the model"):
        assert words in text
    assert f"no{SCRIPT} (does not exist)" in text
    assert not re.search(r"<script(?! src=)|<img", html)
    wrong = read_page(answer_server.get(address).text)
    assert any(row.get("aria-current") for row in wrong.tags("tr"))  # the first is open


# --- comparisons ---------------------------------------------------------------------------------


def test_the_file_of_a_comparison_is_its_page(server: httpx.Client, first: str, third: str) -> None:
    shown = server.get("/compare", params={"run": [first, third]})
    link = re.search(r'href="(/compare\.html\?[^"]*)"', shown.text)
    assert link
    answer = server.get(unescape(link[1]))
    assert answer.headers["content-disposition"] == 'attachment; filename="comparison.html"'
    page = read_page(answer.text)
    assert_harmless(page)
    assert "got worse than" in page.text
    for wrong, status in ({"run": first}, 422), ({"run": [first, "../x"]}, 404):
        assert server.get("/compare.html", params=wrong).status_code == status


# --- trends --------------------------------------------------------------------------------------


def test_the_trend_of_the_largest_set_is_shown_and_others_can_be_chosen(
    history_server: httpx.Client, history: Path
) -> None:
    page = history_server.get("/trends").text
    runs = names(history, "search")
    assert len(runs) == 30
    links = [a.get("href") for a in read_page(page).tags("a")]
    assert all(f"/runs/{name}" in links for name in runs)
    text = read_page(page).text
    for words in ("rerank-documents", "gate 0.55", "the data changed", "Finder 1.1 → Finder 1.2"):
        assert words in text
    asked = {"target": "Finder", "branch": "main", "since": "2026-10-20", "metric": "recall@5"}
    filtered = history_server.get("/trends", params=asked).text
    assert "Recall@5 of Finder" in filtered
    assert len(set(re.findall(r'href="/runs/([^"]+)" class="point', filtered))) < 18
    assert "Median latency" in page


# --- what is not there ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    [
        *("/runs/nope", "/runs/..", "/runs/%2e%2e%2f%2e%2e%2fetc", "/runs/nope/events"),
        *("/runs/nope/report.html", "/compare?run=nope&run=nope2", "/evaluations/nope"),
        *("/no/such/page", "/static/../conftest.py"),
    ],
)
def test_what_is_not_there_is_said_in_words(server: httpx.Client, path: str) -> None:
    answer = server.get(path, follow_redirects=True)
    assert answer.status_code == 404 or answer.url.path == "/"
    assert "Traceback" not in answer.text


def test_a_damaged_run_and_an_empty_folder_say_so(tmp_path: Path) -> None:
    damaged = tmp_path / "20260101-000000-x"
    damaged.mkdir()
    (damaged / "run.json").write_text("{")
    with open_pages(tmp_path) as client:
        assert "damaged" in client.get("/").text
        answer = client.get(f"/runs/{damaged.name}")
        assert answer.status_code == 409
        assert "damaged" in answer.text
        shutil.rmtree(damaged)
        assert "There is no run" in client.get("/").text
        assert "No complete run" in client.get("/?view=board").text
        assert "no complete runs yet" in client.get("/trends").text
        assert client.get("/compare").status_code == 422
