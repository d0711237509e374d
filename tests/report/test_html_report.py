"""`report.html`: what a person must find in it, and what it must never do."""

import base64
import hashlib
import re
import shlex
from pathlib import Path

import pytest
from tests.report.conftest import HANDLER, SCRIPT
from tests.report.page_reading import Page, assert_harmless, read_page

from assay import Dataset, Outcome
from assay.evaluation.report_page import report_page
from assay.evaluation.report_reading import read_rows
from assay.report.html import command_of, moment, render_run
from assay.report.html_figures import RowFigures, form_of, group_of
from assay.report.html_queries import LISTED, QueryPainter
from assay.report.numbers import figure, interval


@pytest.fixture(scope="module")
def page(hostile_run: Outcome) -> Page:
    return read_page((hostile_run.folder.path / "report.html").read_text())


def test_every_run_gets_a_page_and_it_is_well_formed(page: Page) -> None:
    assert page.tags("html") == [{"lang": "en"}]
    assert len(page.tags("h1")) == 1


def test_what_a_run_holds_is_shown_as_text_and_never_obeyed(page: Page) -> None:
    assert_harmless(page)
    assert SCRIPT in page.text
    assert HANDLER in page.text


def test_the_policy_allows_only_the_page_s_own_style(page: Page) -> None:
    policy = next(m["content"] for m in page.tags("meta") if "http-equiv" in m)
    digest = base64.b64encode(hashlib.sha256(page.style.encode()).digest()).decode()
    assert policy.startswith(f"default-src 'none'; style-src 'sha256-{digest}'")


def test_the_headline_has_its_interval_and_ceiling(page: Page, hostile_run: Outcome) -> None:
    row = hostile_run.head["statistics"]["ndcg@5"]
    assert f"nDCG@5 {figure(row['mean'])} 95% interval" in page.text
    assert interval(row["low"], row["high"]) in page.text
    assert f"ceiling {figure(row['ceiling'])}" in page.text


def test_gates_failures_and_violations_are_told(page: Page) -> None:
    assert "1 gate failed" in page.text
    assert re.search(r"ndcg@5>=0\.9 0\.\d{4} failed", page.text)
    assert re.search(r"success_rate>=0\.5 0\.8750 passed", page.text)
    assert "agent error 5 12.5%" in page.text
    assert "repeated 5 5" in page.text
    assert "unknown id 5 5" in page.text
    assert "beyond top_k 20 20" in page.text


def test_the_command_makes_the_same_run_again(hostile_run: Outcome) -> None:
    command = shlex.split(command_of(hostile_run.head["config"]))
    assert command[:3] == ["assay", "eval", hostile_run.head["config"]["target"]]
    options = dict(zip(command[3::2], command[4::2], strict=True))
    assert options["--top-k"] == "5"
    assert options["--seed"] == "42"
    assert command.count("--gate") == 2


def test_a_password_in_an_address_stays_out_of_the_page(hostile_run: Outcome) -> None:
    head = {**hostile_run.head}
    head["config"] = {**head["config"], "target": "a2a:https://me:secret@host/x"}
    html = render_run(head, read_rows(hostile_run.folder.report), name="run")
    assert "secret" not in html
    assert "a2a:https://…@host/x" in html


def test_without_the_data_there_are_ids_alone_and_the_page_says_so(hostile_run: Outcome) -> None:
    page = read_page(report_page(hostile_run.folder, None))
    assert_harmless(page)
    assert "The data set is not at hand" in page.text
    assert "Title 0" not in page.text


def test_a_page_of_many_queries_stays_small(hostile_run: Outcome, hostile_dataset: Dataset) -> None:
    rows = list(read_rows(hostile_run.folder.report))
    many = [{**row, "query_id": f"{row['query_id']}-{n}"} for n in range(500) for row in rows]
    html = render_run(hostile_run.head, many, name="run", dataset=hostile_dataset)
    assert len(html) < 200_000


def test_the_worst_and_the_best_are_answered_ones_and_those_with_most_to_find() -> None:
    rows = [_row("a", 0.0, 2), _row("b", 0.0, 9), _row("c", 1.0, 1), _row("d", 1.0, 7)]
    rows += [{**_row("e", 0.0, 50), "status": "failed", "failure": "timeout"}]
    figures = RowFigures("ndcg_at_5").read(rows + [_row(f"m{i}", 0.5, 3) for i in range(30)])
    assert [row["query_id"] for row in figures.worst[:3]] == ["b", "a", "m0"]
    assert [row["query_id"] for row in figures.best] == ["d", "c"]  # the rest are shown above


def test_groups_count_every_query_once() -> None:
    texts = ["one", "two words", "what is three", "a much longer query of nine words here"]
    rows = [_row(f"q{i}", 0.25 * i, i, texts[i]) for i in range(4)]
    figures = RowFigures("ndcg_at_5").read(rows)
    assert [(group.name, group.n) for group in figures.by_length()] == [
        ("1", 1),
        ("2", 1),
        ("3 to 4", 1),
        ("8 to 11", 1),
    ]
    assert [(group.name, group.n) for group in figures.by_form()] == [
        ("one word", 1),
        ("phrase", 2),
        ("question", 1),
    ]


def test_a_group_of_one_has_no_interval_and_no_interval_leaves_0_to_1() -> None:
    assert group_of("x", [0.4]).low is None
    wide = group_of("x", [0.0, 1.0])
    assert (wide.low, wide.high) == (0.0, 1.0)


def test_the_interval_of_a_group_is_student_s() -> None:
    """t for 4 degrees of freedom is 2.776: the values have mean 0.5 and s 0.1."""
    group = group_of("x", [0.4, 0.4, 0.5, 0.6, 0.6])
    assert group.low == pytest.approx(0.5 - 2.776 * 0.1 / 5**0.5, abs=2e-3)


@pytest.mark.parametrize(
    ("query", "form"),
    [
        ("statins", "one word"),
        ("breast cancer risk", "phrase"),
        ("How safe are statins", "question"),
        ("statins safe?", "question"),
        ("", "one word"),
    ],
)
def test_the_form_of_a_query(query: str, form: str) -> None:
    assert form_of(query) == form


def test_exact_zeros_are_not_in_the_bars_of_the_histogram() -> None:
    figures = RowFigures("ndcg_at_5").read(
        [_row(f"q{i}", s, 1) for i, s in enumerate([0, 0, 0.01, 1])]
    )
    assert figures.zeros == 2
    assert figures.histogram()[0] == 1
    assert figures.histogram()[-1] == 1
    assert sum(figures.histogram()) == 2


def test_latency_is_laid_over_the_time_of_the_run() -> None:
    rows = [{**_row(f"q{i}", 1.0, 1), "at": 10.0 - i / 10, "latency_ms": i} for i in range(1, 100)]
    over_time = RowFigures("ndcg_at_5").read(rows).latency_over_time()
    assert over_time is not None
    assert over_time.axis == "seconds"
    series = [value for value in over_time.series["p50"] if value is not None]
    assert series == sorted(series, reverse=True)  # the slow ones were asked first


def test_a_query_shows_its_faults_and_what_it_missed(hostile_dataset: Dataset) -> None:
    painter = QueryPainter("ndcg_at_5", 3, "test", hostile_dataset)
    shown = painter.paint(
        {**_row("q7", 0.5, 2), "retrieved_docs": ["d8", "d8", "nowhere", "d7", "d1"]}
    )
    marks = [(each.doc_id, each.mark) for each in shown.retrieved]
    assert marks == [("d8", "1"), ("d8", "×2"), ("nowhere", "?"), ("d7", "+"), ("d1", "+")]
    ideal = [(each.doc_id, each.mark, each.also_retrieved) for each in shown.ideal]
    assert ideal == [("d7", "2", False), ("d8", "1", True)]


def test_long_lists_are_cut_and_say_by_how_much(hostile_dataset: Dataset) -> None:
    painter = QueryPainter("ndcg_at_5", 100, "test", hostile_dataset)
    shown = painter.paint({**_row("q7", 0, 2), "retrieved_docs": [f"d{i}" for i in range(35)]})
    assert len(shown.retrieved) == LISTED
    assert shown.more_retrieved == 35 - LISTED


def test_a_baseline_stands_in_the_report(hostile_run: Outcome, plain_run: Outcome) -> None:
    from assay import compare_runs

    comparison = compare_runs(plain_run, hostile_run).to_json()
    head = {**plain_run.head, "comparison": comparison}
    page = read_page(render_run(head, read_rows(plain_run.folder.report), name="run"))
    assert "Against the baseline" in page.text
    assert "are enough to be sure" in page.text or "cannot be told apart" in page.text


def test_moments_are_read_by_people() -> None:
    assert moment("2026-11-15T05:36:50+00:00") == "2026-11-15 05:36 UTC"
    assert moment("soon") == "soon"


def test_no_figure_is_left_out_where_nothing_was_answered(tmp_path: Path) -> None:
    from assay import evaluate_agent

    def broken(query: str, top_k: int) -> list[str]:
        raise RuntimeError("down")

    run = evaluate_agent(broken, "notes", out=tmp_path, num_queries=3, retries=0)
    page = read_page((run.folder.path / "report.html").read_text())
    assert "0 of 3" in page.text
    assert "Too few answers to draw" in page.text


def _row(query_id: str, score: float, relevant: int, text: str = "some query") -> dict[str, object]:
    return {
        "query_id": query_id,
        "query_text": text,
        "ndcg_at_5": score,
        "total_relevant_docs": relevant,
        "relevant_docs_retrieved": 0,
        "retrieved_docs": [],
        "status": "ok",
        "latency_ms": 5.0,
        "at": 0.0,
    }
