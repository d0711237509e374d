"""The page of a trend and the leaderboard: filters in the address, files, only what compares."""

import csv
import io
import re
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import httpx
import pytest
from tests.report.page_reading import read_page
from tests.ui.conftest import running

from assay import evaluate

NAME = "Finder"
"""What the card of the agent calls it: runs of one agent are one trend, whatever its address."""
TREND = {"target": NAME, "dataset": "manual", "split": "test"}


def links(page: str) -> list[str]:
    return [tag.get("href", "") for tag in read_page(page).tags("a")]


def test_a_trend_follows_the_headline_of_most_runs(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    for top_k in (5, 5, 10):
        evaluate("builtin:bm25", "notes", top_k=top_k, num_queries=10, out=runs)
    with running(tmp_path, "--runs", str(runs)) as client:
        page = client.get("/trends", params={"target": "builtin:bm25"})
    assert "nDCG@5 over time" in page.text
    assert "3 runs, the newest" in read_page(page.text).text


def test_a_trend_is_linked_from_the_list_and_from_a_run(
    history_server: httpx.Client, history: Path
) -> None:
    address = f"/trends?{urlencode(TREND)}"
    assert address in links(history_server.get("/").text)
    run = sorted(path.name for path in history.iterdir() if "search" in path.name)[0]
    assert address in links(history_server.get(f"/runs/{run}").text)
    assert address in links(history_server.get("/trends").text)


def test_the_page_has_runs_branches_commits_gates_and_what_changed(
    history_server: httpx.Client, history: Path
) -> None:
    page = history_server.get("/trends", params=TREND).text
    found = links(page)
    runs = [path.name for path in history.iterdir() if "search" in path.name]
    assert len(runs) == 30
    assert all(f"/runs/{name}" in found for name in runs)
    text = read_page(page).text
    for words in ("rerank-documents", "Where each branch stands", "gate 0.55", "hybrid"):
        assert words in text
    assert "the data changed" in text
    assert "Finder 1.1 → Finder 1.2" in text
    assert "a sample of 30 queries (seed 42) (before: all 60 queries)" in text
    for words in ("Median latency", "Cost of the run"):
        assert words in text


def test_filters_are_in_the_address_and_in_every_link_to_a_file(
    history_server: httpx.Client,
) -> None:
    asked = {**TREND, "branch": "main", "since": "2026-10-20", "metric": "recall@5", "x": "run"}
    page = history_server.get("/trends", params=asked).text
    assert "Recall@5 over time" in page
    assert "rerank-documents" not in read_page(page).text.replace("all main rerank-documents", "")
    (file,) = [each for each in links(page) if each.startswith("/trends.csv")]
    rows = list(csv.DictReader(io.StringIO(history_server.get(file).text)))
    assert {row["branch"] for row in rows} == {"main"}
    assert min(row["started"] for row in rows) >= "2026-10-20"
    assert float(rows[0]["recall@5"]) > 0


def test_the_data_are_files(history_server: httpx.Client) -> None:
    document = history_server.get("/trends.json", params=TREND).json()
    assert len(document["runs"]) == 30
    assert {row["comparable"] for row in document["runs"]} == {1, 2, 3}
    assert [each["breaks"] for each in document["changes"]] == [True, False, True]
    page = history_server.get("/trends.html", params=TREND)
    assert page.headers["content-disposition"] == 'attachment; filename="trend.html"'
    assert "<script" not in page.text
    assert "/runs/" not in page.text


@pytest.mark.parametrize(
    ("asked", "status"),
    [
        ({"target": "nobody"}, 404),
        ({**TREND, "dataset": "other"}, 404),
        ({**TREND, "metric": "no such metric"}, 422),
        ({**TREND, "branch": "gone"}, 200),
        ({**TREND, "since": "2999-01-01"}, 200),
        ({"target": NAME}, 200),
    ],
)
def test_what_is_not_there_is_said(
    history_server: httpx.Client, asked: dict[str, str], status: int
) -> None:
    answer = history_server.get("/trends", params=asked)
    assert answer.status_code == status
    assert "Traceback" not in answer.text
    if asked.get("branch") or asked.get("since"):
        assert "No run matches" in answer.text
        assert history_server.get("/trends.csv", params=asked).status_code == 404


def board(client: httpx.Client, **asked: Any) -> dict[str, Any]:
    """The first board, as JSON."""
    found: dict[str, Any] = client.get("/leaderboard.json", params=asked).json()["boards"][0]
    return found


def test_ranks_are_ranges_and_a_silent_agent_has_no_place(history_server: httpx.Client) -> None:
    found = board(history_server)
    ranks = {row["target"]: (row["rank_best"], row["rank_worst"]) for row in found["places"]}
    assert ranks == {
        NAME: (1, 2),
        "mcp:https://tools.example": (1, 2),
        "a2a:https://fast.example": (3, 3),
        "builtin:bm25": (4, 4),
    }
    assert found["answered_nothing"] == ["http:https://silent.example"]
    assert len(found["pairs"]) == 6
    page = read_page(history_server.get("/leaderboard").text).text
    assert "1–2 Finder" in re.sub(r"\s+", " ", page)
    assert "Not ranked, because no query was answered: http:https://silent.example." in page


def test_versions_and_samples_of_the_data_have_tables_of_their_own(
    history_server: httpx.Client,
) -> None:
    boards = history_server.get("/leaderboard.json").json()["boards"]
    sizes = [(each["places"][0]["queries"], len(each["places"])) for each in boards]
    assert sizes == [(60, 4), (60, 1), (30, 1), (30, 1)]
    assert len({each["title"] for each in boards}) == 4


def test_metric_and_columns_are_chosen_and_kept_in_links(history_server: httpx.Client) -> None:
    asked = {"metric": "correctness", "column": ["cost_usd", "recall@5", "agent"]}
    page = history_server.get("/leaderboard", params=asked).text
    head = page.split("</thead>")[0]
    heads = re.findall(r'<th scope="col"[^>]*>([^<]+)</th>', head)
    assert heads == ["Rank", "Target", "Correctness", "Cost of the run", "Recall@5", "Agent"]
    files = [each for each in links(page) if each.startswith("/leaderboard.")]
    assert files
    assert all("metric=correctness" in each and "column=recall%405" in each for each in files)
    link = next(
        each for each in links(page) if each.startswith("/leaderboard?") and "board=" in each
    )
    assert len(re.findall("<h2", history_server.get(link).text)) == 1


def test_correctness_is_a_column_where_answers_were_measured(history_server: httpx.Client) -> None:
    page = history_server.get("/leaderboard").text
    assert "Correctness</th>" in page
    rows = board(history_server)["places"]
    assert all(0 < row["correctness"] <= 1 for row in rows)


def test_a_board_is_a_table_for_papers(history_server: httpx.Client) -> None:
    key = board(history_server)["board"]
    asked = {"board": key, "column": ["interval", "recall@5"]}
    latex = history_server.get("/leaderboard.tex", params=asked).text
    assert r"Rank & Target & nDCG@5 & 95\% interval & Recall@5 \\" in latex
    assert latex.count(r"\begin{tabular}") == 1
    markdown = history_server.get("/leaderboard.md", params=asked).text
    assert "| 1–2 | Finder | 0.7206 |" in markdown
    rows = list(
        csv.DictReader(io.StringIO(history_server.get("/leaderboard.csv", params=asked).text))
    )
    assert [row["rank_best"] for row in rows] == ["1", "1", "3", "4"]
    assert history_server.get("/leaderboard.pdf").status_code == 404
    assert history_server.get("/leaderboard", params={"metric": "x y z"}).status_code == 422
