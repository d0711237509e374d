"""The answers of a run on the web: listed, filtered by diagnosis, and one by one."""

import re
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote, urlencode

import httpx
import pytest
from tests.report.page_reading import read_page
from tests.ui.conftest import SCRIPT
from tests.ui.test_pages import names

from assay.answers.judge import JudgeCall
from assay.data import Query
from assay.run.folder import RunFolder
from assay.run.judge_log import JudgeLog
from assay.run.models import AnswerRow
from assay.search.explanation import Explanation, JudgedQuery
from assay.search.retriever import SearchHit
from assay.serve.ui.search import ExplainedHit, SearchResult


@pytest.fixture(scope="module")
def bm25(answer_runs: Path) -> str:
    return names(answer_runs, "bm25")[0]


@pytest.fixture(scope="module")
def liar(answer_runs: Path) -> str:
    return names(answer_runs, "liar")[0]


@pytest.fixture(scope="module")
def rows(answer_runs: Path, bm25: str) -> list[AnswerRow]:
    return list(RunFolder(answer_runs / bm25).read_answers())


def test_the_run_s_page_holds_its_answers_and_links_to_their_lists(
    answer_server: httpx.Client, bm25: str
) -> None:
    page = read_page(answer_server.get(f"/runs/{bm25}").text)
    assert "What to fix first" in page.text
    links = {a.get("href", "") for a in page.tags("a")}
    assert f"/runs/{bm25}/questions" in links
    assert f"/runs/{bm25}/questions?diagnosis=retrieval+missed" in links


def test_questions_are_listed_in_pages(answer_server: httpx.Client, bm25: str) -> None:
    page = answer_server.get(f"/runs/{bm25}/questions")
    assert re.search(r"1 to 25 of\s+60 questions", page.text)
    last = answer_server.get(f"/runs/{bm25}/questions", params={"page": 3})
    assert "51 to 60 of" in last.text


@pytest.mark.parametrize("name", ["verdict", "diagnosis", "half"])
def test_a_filter_shows_those_and_stays_in_the_address(
    answer_server: httpx.Client, bm25: str, rows: list[AnswerRow], name: str
) -> None:
    value = {"verdict": "wrong", "diagnosis": "retrieved but unused", "half": "generation"}[name]
    predicates: dict[str, Callable[[AnswerRow], bool]] = {
        "verdict": lambda row: row.correct is False,
        "diagnosis": lambda row: row.diagnosis is not None and row.diagnosis.failure == value,
        "half": lambda row: row.diagnosis is not None and row.diagnosis.half == value,
    }
    expected = [row.query_id for row in rows if predicates[name](row)]
    found: list[str] = []
    address: str | None = f"/runs/{bm25}/questions?{name}={quote(value)}"
    while address:
        html = answer_server.get(address).text
        assert re.search(rf'value="{value}" selected', html)
        found += re.findall(r"<td[^>]*><code>(.*?)</code></td>", html)
        following = re.search(r'rel="next" href="([^"]+)"', html)
        address = following[1].replace("&amp;", "&") if following else None
    assert found == expected
    assert expected


def test_words_of_an_answer_find_it(answer_server: httpx.Client, liar: str) -> None:
    address = f"/runs/{liar}/questions"
    assert "60 questions" in answer_server.get(address, params={"text": "BOLD</b>"}).text
    assert "No question matches" in answer_server.get(address, params={"text": "xyzzy"}).text


def test_every_question_has_a_page_with_its_evidence(
    answer_server: httpx.Client, bm25: str, rows: list[AnswerRow]
) -> None:
    row = next(row for row in rows if row.diagnosis and row.needed_docs)
    page = read_page(answer_server.get(f"/runs/{bm25}/questions/{row.query_id}").text)
    assert "Answer relevance" in page.text
    assert "answer_relevance" not in page.text
    assert row.query_text in page.text
    assert row.reference_answer is not None
    assert row.reference_answer in page.text
    assert row.diagnosis is not None
    assert row.diagnosis.failure in page.text
    for doc_id in (*row.needed_docs, *row.retrieved_docs):
        assert doc_id in page.text
    links = {a.get("href", "") for a in page.tags("a")}
    assert f"/runs/{bm25}/queries/{row.query_id}" in links
    ranking = answer_server.get(f"/runs/{bm25}/queries/{row.query_id}").text
    assert f"/runs/{bm25}/questions/{row.query_id}" in ranking


def test_a_question_without_an_answer_has_no_ranking_to_link_to(
    answer_server: httpx.Client, bm25: str, rows: list[AnswerRow]
) -> None:
    row = next(row for row in rows if not row.answerable)
    page = answer_server.get(f"/runs/{bm25}/questions/{row.query_id}").text
    assert "declining is correct" in page
    assert "its ranking" not in page


def test_what_an_agent_says_is_text(answer_server: httpx.Client, liar: str) -> None:
    first = next(iter(listed_ids(answer_server, liar)))
    for address in (f"/runs/{liar}", f"/runs/{liar}/questions", f"/runs/{liar}/questions/{first}"):
        page = read_page(answer_server.get(address).text)
        assert "<script>" in page.text, address
        assert not [s for s in page.tags("script") if not s.get("src", "").startswith("/static/")]
        assert not page.tags("img")
    assert f"no{SCRIPT} does not exist" in page.text


def listed_ids(server: httpx.Client, run: str) -> list[str]:
    return re.findall(
        r"<td[^>]*><code>(.*?)</code></td>", server.get(f"/runs/{run}/questions").text
    )


def test_the_list_of_runs_shows_correctness_where_there_is_one(
    answer_server: httpx.Client, server: httpx.Client, answer_runs: Path, bm25: str
) -> None:
    answers = RunFolder(answer_runs / bm25).read_report().answers
    assert answers is not None
    mean = answers.metrics["correctness"]
    html = answer_server.get("/").text
    assert "Answers right" in html
    assert re.search(rf'href="/runs/{bm25}#answers"[^>]*>{mean:.4f}<', html)
    assert "Answers right" not in server.get("/").text


def test_two_runs_are_compared_by_their_answers(
    answer_server: httpx.Client, bm25: str, liar: str
) -> None:
    page = read_page(answer_server.get("/compare", params={"run": [bm25, liar]}).text)
    assert "Answers, by correctness" in page.text
    assert "Became wrong" in page.text


def test_a_run_without_answers_has_no_such_pages(server: httpx.Client, runs: Path) -> None:
    first = names(runs, "first")[0]
    assert "/questions" not in server.get(f"/runs/{first}").text
    assert "its answer" not in server.get(f"/runs/{first}/queries/q1").text
    answer = server.get(f"/runs/{first}/questions")
    assert answer.status_code == 404
    assert "were not evaluated" in answer.text


def test_a_question_that_was_not_asked_is_not_there(answer_server: httpx.Client, bm25: str) -> None:
    answer = answer_server.get(f"/runs/{bm25}/questions/nope")
    assert answer.status_code == 404
    assert "has no question" in answer.text


def test_a_query_of_a_built_in_target_leads_to_what_its_scores_are_made_of(
    answer_server: httpx.Client, bm25: str, liar: str, rows: list[AnswerRow]
) -> None:
    row = next(row for row in rows if row.answerable)
    pages = [
        read_page(answer_server.get(f"/runs/{run}/queries/{row.query_id}").text)
        for run in (bm25, liar)
    ]
    wanted = f"/search?{urlencode({'q': row.query_text, 'mode': 'bm25'})}"
    assert [wanted in {a.get("href") for a in page.tags("a")} for page in pages] == [True, False]


def test_an_explanation_has_parts_of_the_whole_and_the_texts_of_judged_queries() -> None:
    hit = SearchHit("d1", 0.5, "Tea", "Green tea")
    judged = (JudgedQuery("q1", 0.7), JudgedQuery("gone", 0.2))
    why = Explanation({"bm25": 0.1, "dense": 0.4}, {"tea": 1.0, "green": 2.0}, ("d2",), judged)
    shown = ExplainedHit.of(hit, why, {"q1": Query("q1", "is tea healthy?")})
    assert shown.shares == [("bm25", 0.1, 0.2), ("dense", 0.4, 0.8)]
    assert shown.terms == [("green", 2.0), ("tea", 1.0)]
    assert shown.judged == [("is tea healthy?", 0.7), ("gone", 0.2)]
    assert SearchResult([shown]).signals == []


def test_what_the_judge_was_asked_is_on_the_page_of_a_question(
    answer_server: httpx.Client, answer_runs: Path, liar: str
) -> None:
    folder = RunFolder(answer_runs / liar)
    first = next(folder.read_answers()).query_id
    call = JudgeCall(first, "correctness", f"Compare {SCRIPT}", "Rather yes", None)
    JudgeLog(folder.path).add(call)
    page = answer_server.get(f"/runs/{liar}/questions/{first}").text
    assert "correctness: not a verdict" in page
    assert "Rather yes" in page
    assert SCRIPT not in page
