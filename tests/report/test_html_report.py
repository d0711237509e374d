"""`report.html`: what a person must find in it, and what it must never do."""

import base64
import hashlib
import re
import shlex
from dataclasses import replace
from pathlib import Path

import pytest
from tests.report.conftest import HANDLER, SCRIPT, query_row, render
from tests.report.page_reading import Page, assert_harmless, read_page

from assay import Dataset, Run, compare_runs, evaluate, nDCG
from assay.evaluation.reporting import render_report_page
from assay.report.html import QueryFigures, command_of, render_summary
from assay.report.html_queries import LISTED, JudgedDocuments, RunningMean, form_of, query_view
from assay.report.html_templates import breakable, label_cells, moment
from assay.report.numbers import figure, interval
from assay.run.config import JudgeSettings, RunConfig
from assay.run.models import QueryRow
from assay.run.settings import command_settings


@pytest.fixture(scope="module")
def page(hostile_run: Run) -> Page:
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


def test_the_headline_has_its_interval_and_ceiling(page: Page, hostile_run: Run) -> None:
    _, score = hostile_run.report.headline
    assert f"nDCG@5 {figure(score.mean)} 95% interval" in page.text
    assert interval(score.low, score.high) in page.text
    assert f"ceiling {figure(score.ceiling)}" in page.text


def test_gates_failures_and_violations_are_told(page: Page) -> None:
    assert "1 gate failed" in page.text
    assert re.search(r"ndcg@5>=0\.9 0\.\d{4} failed", page.text)
    assert re.search(r"success_rate>=0\.5 0\.8750 passed", page.text)
    assert "agent error 5 12.5%" in page.text
    assert "repeated 5 5" in page.text
    assert "unknown id 5 5" in page.text
    assert "beyond top_k 20 20" in page.text


def test_the_command_makes_the_same_run_again(hostile_run: Run) -> None:
    config = hostile_run.report.config
    command = shlex.split(command_of(config))
    assert command[:3] == ["assay", "eval", config.target]
    assert command[command.index("--top-k") + 1] == "5"
    assert command[command.index("--seed") + 1] == "42"
    assert command[command.index("--retries") + 1] == "0"
    assert command.count("--gate") == 2


def test_the_command_has_every_option_that_was_set() -> None:
    """None can be forgotten: the command and the command line have the same table of options."""
    changed = RunConfig(
        target="x",
        dataset="notes",
        split="dev",
        num_queries=3,
        seed=1,
        top_k=7,
        concurrency=2,
        timeout=1.5,
        retries=9,
        gates=("ndcg@5>=0.1",),
        track="trained",
        baseline="builtin:bm25",
        mapping=("query=q",),
        request="{}",
        method="PUT",
        headers=("A: b",),
        preset="solr:docs",
        chunk_separator="#",
        private=True,
        embedder="tei:http://127.0.0.1:9",
        device="cpu",
        warm_up=1.0,
        columns=("query=q",),
        label="tuned",
        tags=("chunks=512",),
        compare_to="main",
        allow_first_run=True,
        fail_on_regression=True,
        note="larger",
        bm25=("k1=1.0,b=0.5,delta=0.5,title_weight=2.0", "language=german,stop_words=none"),
        reranker="tei:http://127.0.0.1:8080",
        answers=True,
        judge="ollama:m",
        judge_set=JudgeSettings(votes=5, calibration="calibration.jsonl"),
        no_cache=True,
        criteria="criteria",
        max_cost=2.0,
        counterfactuals=True,
        poison=("override",),
        references=("truth.json",),
        faithfulness="onnx:nli",
    )
    command = shlex.split(command_of(changed))
    for setting in command_settings():
        assert setting.flag in command, setting.name


def test_a_password_in_an_address_stays_out_of_the_page(hostile_run: Run) -> None:
    address = "a2a:https://me:secret@host/x"
    config = replace(hostile_run.report.config, target=address, baseline=address)
    report = hostile_run.report.model_copy(update={"config": config})
    html = render(hostile_run, report=report)
    assert "secret" not in html
    assert "a2a:https://***@host/x" in html


def test_a_key_in_an_address_stays_out_of_the_page(hostile_run: Run) -> None:
    address = "rest:https://host/x?q={query}&code=s3cret"
    config = replace(hostile_run.report.config, target=address)
    report = hostile_run.report.model_copy(update={"config": config})
    html = render(hostile_run, report=report)
    assert "s3cret" not in html
    assert "code=***" in html


def test_without_the_data_there_are_ids_alone_and_the_page_says_so(hostile_run: Run) -> None:
    page = read_page(render_report_page(hostile_run.folder, None))
    assert_harmless(page)
    assert "The data set is not on this machine" in page.text
    assert "Title 0" not in page.text


def test_a_page_of_many_queries_stays_small(hostile_run: Run, hostile_dataset: Dataset) -> None:
    rows = list(hostile_run.rows())
    many = (
        row.model_copy(update={"query_id": f"{row.query_id}-{n}"})
        for n in range(500)
        for row in rows
    )
    html = render(hostile_run, hostile_dataset, rows=many)
    assert len(html) < 200_000


def figures_of(*rows: QueryRow) -> QueryFigures:
    figures = QueryFigures(nDCG @ 5, {})
    for row in rows:
        figures.add(row)
    return figures


def test_the_worst_and_the_best_are_answered_ones_and_those_with_most_to_find() -> None:
    rows = [query_row("a", 0.0, 2), query_row("b", 0.0, 9), query_row("c", 1.0, 1)]
    rows += [query_row("d", 1.0, 7), query_row("e", 0.0, 50, status="failed", failure="timeout")]
    figures = figures_of(*rows, *(query_row(f"m{i}", 0.5, 3) for i in range(30)))
    assert [row.query_id for row in figures.worst[:3]] == ["b", "a", "m0"]
    assert [row.query_id for row in figures.best] == ["d", "c"]  # the rest are shown above


def test_groups_count_every_query_once() -> None:
    texts = ["one", "two words", "what is three", "a much longer query of nine words here"]
    rows = [query_row(f"q{i}", 0.25 * i, i, query_text=texts[i]) for i in range(4)]
    groups = figures_of(*rows).groups()
    assert [(group.name, group.n) for group in groups["Words in the query"]] == [
        ("1", 1),
        ("2", 1),
        ("3 to 4", 1),
        ("8 to 11", 1),
    ]
    assert [(group.name, group.n) for group in groups["Form of the query"]] == [
        ("one word", 1),
        ("phrase", 2),
        ("question", 1),
    ]


def running_mean(*scores: float) -> RunningMean:
    mean = RunningMean()
    for score in scores:
        mean.add(score)
    return mean


def test_a_group_of_one_has_no_interval_and_no_interval_leaves_0_to_1() -> None:
    assert running_mean(0.4).group("x").low is None
    wide = running_mean(0.0, 1.0).group("x")
    assert (wide.low, wide.high) == (0.0, 1.0)


def test_the_interval_of_a_group_is_student_s() -> None:
    """t for 4 degrees of freedom is 2.776: the values have mean 0.5 and s 0.1."""
    group = running_mean(0.4, 0.4, 0.5, 0.6, 0.6).group("x")
    assert group.mean == pytest.approx(0.5)
    assert group.low == pytest.approx(0.5 - 2.776 * 0.1 / 5**0.5, abs=2e-3)
    two = running_mean(0.5, 0.52).group("x")  # t is 12.706 for 1 degree of freedom
    assert two.high == pytest.approx(0.51 + 12.706 * 0.01, abs=2e-3)


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
    figures = figures_of(*(query_row(f"q{i}", s) for i, s in enumerate([0, 0, 0.01, 1])))
    assert figures.zeros == 2
    assert figures.histogram()[0] == 1
    assert figures.histogram()[-1] == 1
    assert sum(figures.histogram()) == 2


def test_latency_is_laid_over_the_time_of_the_run() -> None:
    rows = [query_row(f"q{i}", 1.0, at=10.0 - i / 10, latency_ms=float(i)) for i in range(1, 100)]
    over_time = figures_of(*rows).latency_over_time()
    assert over_time is not None
    assert over_time.axis == "seconds"
    series = [value for value in over_time.series["p50"] if value is not None]
    assert series == sorted(series, reverse=True)  # the slow ones were asked first


def test_a_query_shows_its_faults_and_what_it_missed(hostile_dataset: Dataset) -> None:
    judged = JudgedDocuments(3, "test", hostile_dataset)
    row = query_row("q7", 0.5, 2, retrieved_docs=["d8", "d8", "nowhere", "d7", "d1"])
    shown = query_view(row, nDCG @ 5, judged)
    marks = [(each.doc_id, each.mark) for each in shown.retrieved]
    assert marks == [("d8", "1"), ("d8", "×2"), ("nowhere", "?"), ("d7", "+"), ("d1", "+")]
    ideal = [(each.doc_id, each.mark, each.also_retrieved) for each in shown.ideal]
    assert ideal == [("d7", "2", False), ("d8", "1", True)]


def test_long_lists_are_cut_and_say_by_how_much(hostile_dataset: Dataset) -> None:
    judged = JudgedDocuments(100, "test", hostile_dataset)
    row = query_row("q7", 0, 2, retrieved_docs=[f"d{i}" for i in range(35)])
    shown = query_view(row, nDCG @ 5, judged)
    assert len(shown.retrieved) == LISTED
    assert shown.more_retrieved == 35 - LISTED


def test_a_baseline_stands_in_the_report(hostile_run: Run, plain_run: Run) -> None:
    comparison = compare_runs(plain_run, hostile_run)
    report = plain_run.report.model_copy(update={"comparison": comparison})
    page = read_page(render(plain_run, report=report))
    assert "Against the baseline" in page.text
    assert re.search("is significantly|do not differ significantly", page.text)


def test_moments_are_read_by_people() -> None:
    assert moment("2026-11-15T05:36:50+00:00") == "2026-11-15 05:36 UTC"
    assert moment("soon") == "soon"


def test_no_figure_is_left_out_where_nothing_was_answered(tmp_path: Path) -> None:
    def broken(query: str, top_k: int) -> list[str]:
        raise RuntimeError("down")

    run = evaluate(broken, "notes", out=tmp_path, num_queries=3, retries=0)
    page = read_page((run.folder.path / "report.html").read_text())
    assert "0 of 3" in page.text
    assert "Too few responses to plot" in page.text
    assert "0.00 ms" not in page.text
    assert "0.00/s" not in page.text


def test_a_run_that_ended_early_says_how_much_of_it_there_is(hostile_run: Run) -> None:
    asked = hostile_run.report.summary.total_queries
    early = {"state": "interrupted", "planned_queries": asked + 1000}
    page = read_page(render(hostile_run, report=hostile_run.report.model_copy(update=early)))
    assert f"Only {asked} of {asked + 1000:,} queries were asked" in page.text
    assert "assay eval --resume x" in page.text
    assert "were asked, so" not in read_page(render(hostile_run)).text


def test_a_notebook_gets_the_figures_without_page_and_script(hostile_run: Run) -> None:
    html = render_summary(hostile_run.report, name=hostile_run.name)
    page = read_page(html)
    assert_harmless(page)
    assert "nDCG@5" in page.text
    assert "gate ndcg@5>=0.9 failed" in page.text
    assert not page.tags("html")


def test_a_cell_says_what_it_is_where_a_row_becomes_a_card() -> None:
    head = '<thead><tr><th>Query</th><th>a &#34;b&#34;</th><th><span aria-hidden="true">^</span>'
    page = label_cells(
        f'<table class="x">{head}Mean</th><th><span class="hidden">Plot</span></th></tr></thead>'
        '<tr><th scope="row">q</th><td>1</td><td class="number">2</td><td>3</td></tr>'
        '<tr><td colspan="3">none</td><td>4</td></tr></table>'
        "<table><thead><tr><th>two</th><th>columns</th></tr></thead><tr><td>5</td></tr></table>"
    )
    cells = [(each.get("data-label"), each.get("class")) for each in read_page(page).tags("td")]
    assert cells == [
        *[('a "b"', None), ("Mean", "number"), ("Plot", None)],
        *[(None, None), ("Plot", None), (None, None)],
    ]
    assert [each.get("class") for each in read_page(page).tags("table")] == ["cards x", None]


def test_an_address_breaks_after_its_marks_and_stays_escaped() -> None:
    assert breakable("a2a:https://x.y/<b>&c") == ("a2a:<wbr>https://<wbr>x.<wbr>y/&lt;b&gt;&amp;c")
