"""`report.html`: what a person must find in it, and what it must never do."""

import base64
import hashlib
import re
import shutil
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from tests import forked
from tests.report.conftest import HANDLER, SCRIPT, render
from tests.report.page_reading import Page, assert_harmless, read_page

from assay import Dataset, Document, Query, Run, evaluate
from assay.metrics.figures import AnswerFigure
from assay.report.html import JudgedDocuments, render_run
from assay.report.numbers import ceiling, figure, interval
from assay.run.folder import RunFolder
from assay.run.models import GitRecord


@pytest.fixture(scope="module")
def page(hostile_run: Run) -> Page:
    return read_page((hostile_run.folder.path / "report.html").read_text())


def test_every_run_gets_a_harmless_page_of_its_own_style(page: Page) -> None:
    assert page.tags("html") == [{"lang": "en"}]
    assert len(page.tags("h1")) == 1
    assert_harmless(page)
    assert SCRIPT in page.text
    assert HANDLER in page.text
    policy = next(m["content"] for m in page.tags("meta") if "http-equiv" in m)
    digest = base64.b64encode(hashlib.sha256(page.style.encode()).digest()).decode()
    assert policy.startswith(f"default-src 'none'; style-src 'sha256-{digest}'")


def test_the_headline_gates_failures_and_invalid_ids_are_told(page: Page, hostile_run: Run) -> None:
    _, score = hostile_run.report.headline
    assert f"nDCG@5 {figure(score.mean, 3)} {interval(score.low, score.high)}" in page.text
    assert f"ceiling {figure(score.ceiling, 3)}" in page.text
    assert re.search(r"ndcg@5>=0\.9 failed", page.text)
    assert re.search(r"success_rate>=0\.5 0\.8750 passed", page.text)
    assert "agent error 5 12.5%" in page.text
    assert f"refused {SCRIPT}" in page.text  # in the agent's words
    for kind in ("repeated ids 5 5", "unknown ids 5 5", "ids beyond top_k 20 20"):
        assert kind in page.text


def test_label_commit_branch_note_and_tags_are_shown(hostile_run: Run, tmp_path: Path) -> None:
    folder = RunFolder(shutil.copytree(hostile_run.folder.path, tmp_path / "copy"))
    git = GitRecord(commit="c0ffee1" * 5, branch="feature/x")
    named = {"label": "tuned", "git": git, "note": "larger", "tags": {"chunks": "512"}}
    folder.write_header(folder.read_header().model_copy(update=named))
    text = read_page(render_run(folder, None)).text
    assert all(each in text for each in ("tuned", "feature/x c0ffee1", "larger", "chunks=512"))


def test_the_page_of_a_long_run_stays_small(answered_run: Run, answered_dataset: Dataset) -> None:
    def many(rows: Iterable[Any]) -> list[Any]:
        ids = [(row, f"{row.query_id}-{n}") for row in rows for n in range(100)]
        return [row.model_copy(update={"query_id": query_id}) for row, query_id in ids]

    rows, answers = many(answered_run.rows()), many(answered_run.answers())
    assert len(render(answered_run, answered_dataset, rows=rows, answers=answers)) < 150_000


# --- answers -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def answers_page(answered_run: Run) -> Page:
    return read_page((answered_run.folder.path / "report.html").read_text())


def test_answers_have_figures_diagnosis_and_examples(answers_page: Page, answered_run: Run) -> None:
    answers = answered_run.report.answers
    assert answers is not None
    assert answers.diagnosis is not None
    row = answers.statistics["correctness"]
    assert f"correctness {figure(row.mean, 3)} {interval(row.low, row.high)}" in answers_page.text
    for name, found in answers.statistics.items():
        assert f"{AnswerFigure(name).title} {figure(found.mean)}" in answers_page.text
        assert f"{ceiling(found.ceiling)} {found.n} {found.how}" in answers_page.text
    assert answers.diagnosis.sentence in answers_page.text
    pictures = " ".join(svg.get("aria-label", "") for svg in answers_page.tags("svg"))
    assert f"{answers.diagnosis.quadrants.no_evidence_wrong} wrong (retrieval)" in answers_page.text
    assert "Loss in points" in pictures
    for kind, number in answers.diagnosis.counts.items():
        assert f"{kind} {number}" in answers_page.text


def test_every_link_inside_the_page_leads_somewhere_and_ids_are_unique(answers_page: Page) -> None:
    assert_harmless(answers_page)
    ids = Counter(each["id"] for _, each in answers_page.elements if "id" in each)
    assert [name for name, number in ids.items() if number > 1] == []
    links = {a["href"].removeprefix("#") for a in answers_page.tags("a") if "href" in a}
    assert any(link.startswith("a-q") for link in links)
    shown = {name for name in ids if name.startswith("a-") and "-doc-" not in name}
    assert links <= set(ids)
    assert len(shown) >= 10
    assert f"made-up{SCRIPT} (does not exist)" in answers_page.text
    assert "not retrieved" in answers_page.text


def test_a_judge_that_was_asked_is_described(judged_run: Run) -> None:
    text = read_page((judged_run.folder.path / "report.html").read_text()).text
    answers = judged_run.report.answers
    assert answers is not None
    assert "scripted, 2 votes each" in text
    assert "The judge voted: true, true" in text
    trouble = answers.model_copy(update={"trouble": "the budget is spent", "statistics": {}})
    report = judged_run.report.model_copy(update={"answers": trouble})
    text = read_page(render(judged_run, report=report)).text
    assert "The evaluation of the answers is incomplete: the budget is spent" in text
    assert "no judge" not in text


# --- searches ------------------------------------------------------------------------------------


def test_recorded_searches_have_a_tab(plain_run: Run, tmp_path: Path) -> None:
    def agent(query: str, top_k: int, search: Callable[..., list[dict[str, Any]]]) -> list[str]:
        return [hit["doc_id"] for words in (query, "plug") for hit in search(words, top_k=3)][:5]

    run = evaluate(agent, "notes", out=tmp_path, num_queries=8, search="builtin:bm25")
    page = read_page((run.folder.path / "report.html").read_text())
    assert_harmless(page)
    assert "2.0 a question" in page.text
    assert "2 searches" in page.text
    assert "✓ note-" in page.text  # evidence is marked
    pictures = " ".join(svg.get("aria-label", "") for svg in page.tags("svg"))
    assert "Evidence seen after each search" in pictures
    assert "Loss in points" in pictures
    plain = read_page((plain_run.folder.path / "report.html").read_text())
    assert "Searches" not in plain.text


DATA = Dataset(
    name="tea",
    documents={
        "d1": Document("d1", "Brewing", "Steep green teas for two minutes"),
        "d2": Document("d2", "", "A " * 400),
    },
    queries={"q": Query("q", "how long does the green tea steep?", ("drinks",))},
    judgments={"test": {"q": {"d1": 2, "d2": 1, "d3": 0}}},
)
DOCS = JudgedDocuments(3, "test", DATA)


def test_a_ranking_shows_grades_and_faults() -> None:
    ids = ["d2", "d2", "nowhere", "d1", "d1"]
    marks = [DOCS.mark("q", doc_id, ids[:place]).text for place, doc_id in enumerate(ids)]
    assert marks == ["1", "×2", "?", "+", "×2"]
    assert [DOCS.mark("q", each).tone for each in ("d1", "d2")] == ["highly", "relevant"]
    assert DOCS.relevant("q") == ["d1", "d2"]
    assert JudgedDocuments(3, "test", None).mark("q", "d1").text == ""


def test_what_a_ranking_lost_is_told_with_the_words_that_had_found_it() -> None:
    text = DATA.queries["q"].text
    assert DOCS.lost("q", text, ["d9", "d1"], ["d9"]) == [("d1", 2, ["green", "tea", "steep"])]
    assert DOCS.lost("q", text, ["d1"], ["x", "d1"]) == []
    assert DOCS.lost("q", text, ["x", "y", "z", "d1"], []) == []  # beyond top_k


def test_pages_of_runs_and_of_comparisons_are_written(tmp_path: Path) -> None:
    (tmp_path / "target.py").write_text("def nothing(query, top_k):\n    return []\n")

    def assay(*arguments: str) -> str:
        done = forked.run(forked.ASSAY, *arguments, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        return str(done.stderr)

    options = ("--dataset", "notes", "--num-queries", "20", "--retries", "0")
    assay("eval", "builtin:bm25", "--baseline", "python:target:nothing", *options)
    run, baseline = sorted(path.name for path in (tmp_path / "runs").iterdir())
    left = read_page((tmp_path / "runs" / run / "report.html").read_text())
    assert "Against the baseline" in left.text
    assert "builtin:bm25 is significantly better" in left.text
    assert "wrote out.html" in assay("report", run, "--html", "out.html")
    page = read_page((tmp_path / "out.html").read_text())
    assert_harmless(page)
    assert "Ideal" in page.text  # the data set was found for it
    assay("compare", baseline, run, "--html", "two.html")
    page = read_page((tmp_path / "two.html").read_text())
    assert_harmless(page)
    assert "builtin:bm25 got better than python:target:nothing" in page.text
    header = tmp_path / "runs" / baseline / "run.json"
    header.write_text(header.read_text().replace('"dataset": "notes"', '"dataset": "gone"'))
    assert "without grades and texts" in assay("report", baseline, "--html", "ids.html")
    page = read_page((tmp_path / "ids.html").read_text())
    assert_harmless(page)
    assert "The data set is not on this machine" in page.text
