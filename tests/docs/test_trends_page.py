"""docs/runs.md: its runs are made as it says, and its addresses are pages."""

import re
from pathlib import Path

import pytest
from starlette.testclient import TestClient
from tests.docs.page_commands import run_page, section

from assay.report import svg, trend_plots
from assay.serve.ui.app import ui_app
from assay.serve.ui.leaderboard import _DRAWN, _FACTS

TEXT = section("runs.md", "Trends, leaderboard and charts")


def test_the_runs_of_the_page_are_a_trend_with_labels_cost_and_a_changed_setting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run_page(TEXT, tmp_path)
    (trend,) = re.findall(r"`(/trends\?target=\S+)` then", TEXT)
    (board,) = re.findall(r"`(/leaderboard\?\S+)` ranks", TEXT)
    with TestClient(ui_app(tmp_path / "runs"), base_url="http://localhost") as client:
        page = client.get(trend).text
        assert "k1 0.9" in page
        assert "gate 0.5" in page
        assert "--bm25 k1=0.9" in page
        for ending in ("html", "csv", "json"):
            answer = client.get(trend.replace("/trends?", f"/trends.{ending}?"))
            assert answer.status_code == 200, ending
            assert "cost_usd" in answer.text or ending == "html"
        assert client.get(f"{board}&metric=recall@5").status_code == 200
        for ending in ("csv", "md", "tex", "json"):
            assert "builtin:bm25" in client.get(board.replace("?", f".{ending}?", 1)).text


def test_the_page_names_every_column_of_the_leaderboard() -> None:
    assert [name for name in (*_DRAWN, *_FACTS) if f"`{name}`" not in TEXT] == []


def test_the_page_says_how_many_points_are_drawn_and_listed() -> None:
    for number in (svg.TABLE_ROWS, svg.REACHED, trend_plots._DOTS):
        assert re.search(rf"\b{number} (rows|points)", TEXT), number
