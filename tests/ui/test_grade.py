"""The grading page: made of runs, graded as a form, agreed on and exported."""

import csv
import io
import re
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
from starlette.testclient import TestClient
from tests.report.page_reading import read_page
from tests.ui.conftest import SCRIPT, open_pages

from assay import evaluate
from assay.errors import DataError, UsageError
from assay.labels.pool import GradedPool, PassagePair, write_pool


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """A folder with a pool `tea` of four documents, whose texts mean harm."""
    runs = tmp_path / "runs"
    write_pool(
        runs / "pools" / "tea.csv",
        [
            PassagePair(
                f"q{i // 2}", f"query {i // 2} {SCRIPT}", f"d{i}", f"text {SCRIPT}", f"T{i}"
            )
            for i in range(4)
        ],
    )
    return runs


@pytest.fixture
def client(runs: Path) -> Iterator[TestClient]:
    with open_pages(runs) as client:
        yield client


def grade(
    client: TestClient, grader: str, doc: int, grade: str, comment: str = ""
) -> httpx2.Response:
    data = {"grader": grader, "query_id": f"q{doc // 2}", "doc_id": f"d{doc}", "grade": grade}
    data["comment"] = comment
    return client.post("/grade/tea/grade", data=data)


def test_a_grader_walks_through_the_pool(client: TestClient, runs: Path) -> None:
    page = client.get("/grade/tea/grade", params={"grader": "Ann"})
    shown = read_page(page.text)
    assert "0 of 4 graded" in shown.text
    assert f"query 0 {SCRIPT}" in shown.text
    assert f"text {SCRIPT}" in shown.text
    assert not re.search(r"<script(?! src=)|<img", page.text)
    answer = grade(client, "Ann", 0, "3")
    assert answer.headers["location"] == "/grade/tea/grade?grader=Ann&at=1"
    assert GradedPool(runs / "pools" / "tea.csv").grades() == {"Ann": {("q0", "d0"): 3}}
    grade(client, "Ann", 2, "0")
    assert grade(client, "Ann", 3, "1").headers["location"].endswith("at=1")  # from the start again
    assert grade(client, "Ann", 1, "2").headers["location"].endswith("grader=Ann")
    done = client.get("/grade/tea/grade?grader=Ann").text
    assert "All documents are graded" in done
    assert 'aria-pressed="true"' in client.get("/grade/tea/grade?grader=Ann&at=2").text


def test_graders_are_compared_and_their_grades_go_out(client: TestClient) -> None:
    for doc, (ann, bob) in enumerate([("3", "3"), ("0", "2"), ("1", "1"), ("0", "0")]):
        grade(client, "Ann", doc, ann)
        grade(client, "Bob O'Neill", doc, bob)
    page = read_page(client.get("/grade/tea").text).text
    assert re.search(r"Ann and Bob O'Neill 4 75\.0% 0\.50 0\.67", page), page
    assert "Where graders differ" in page
    table = client.get("/grade/tea/table.csv", params={"grader": "Bob O'Neill"})
    assert 'filename="tea-Bob-O-Neill.csv"' in table.headers["content-disposition"]
    labels = [line.rpartition(",")[0].rpartition(",")[2] for line in table.text.splitlines()]
    assert labels == ["label", *"3210"]
    qrels = client.get("/grade/tea/labels.qrels").text
    assert qrels == "q0 0 d0 3\nq0 0 d1 0\nq1 0 d2 1\nq1 0 d3 0\n"


def test_a_comment_is_kept_with_the_grade_and_shown_to_all(client: TestClient) -> None:
    grade(client, "Ann", 1, "2", f"half of it {SCRIPT}")
    page = client.get("/grade/tea/grade?grader=Ann&at=1").text
    assert "half of it &lt;script&gt;" in page
    assert "half of it" not in client.get("/grade/tea/grade?grader=Bob&at=1").text
    assert f"Ann: half of it {SCRIPT}" in read_page(client.get("/grade/tea").text).text
    table = client.get("/grade/tea/table.csv", params={"grader": "Ann"}).text
    rows = list(csv.DictReader(io.StringIO(table)))
    assert [row["comment"] for row in rows] == ["", f"half of it {SCRIPT}", "", ""]
    grade(client, "Ann", 1, "2")
    assert "half of it" not in client.get("/grade/tea").text


@pytest.mark.parametrize("name", ["nope", "..%2f..%2fx", "%2e%2e", ".hidden"])
def test_a_pool_that_is_not_there_is_not_opened(client: TestClient, name: str) -> None:
    assert client.get(f"/grade/{name}").status_code in (303, 404)
    assert client.get(f"/grade/{name}/grade?grader=A").status_code == 404


def test_a_pool_is_made_of_runs_by_one_button_and_opened_again_by_it(tmp_path: Path) -> None:
    run = evaluate("builtin:bm25", "notes", num_queries=3, out=tmp_path / "runs")
    with open_pages(tmp_path / "runs") as client:
        data = {"run": run.name, "do": "grade"}
        first = client.post("/chosen", data=data).headers["location"]
        assert re.fullmatch(r"/grade/builtin-bm25-\w{8}/grade\?grader=me", first)
        assert "0 of" in read_page(client.get(first).text).text
        assert client.post("/chosen", data=data).headers["location"] == first
        (path,) = (tmp_path / "runs" / "pools").glob("*.csv")
        pairs = GradedPool(path).pairs
        query = pairs[-1].query_id
        there = client.post("/chosen", data={**data, "query": query}).headers["location"]
        place = next(place for place, pair in enumerate(pairs) if pair.query_id == query)
        assert there.endswith(f"&at={place}")
    returned = {(row.query_id, doc_id) for row in run.rows() for doc_id in row.retrieved_docs}
    assert {(pair.query_id, pair.doc_id) for pair in pairs} <= returned
    assert pairs[0].title


def test_read_only_shows_the_agreement_and_no_form(runs: Path) -> None:
    pool = GradedPool(runs / "pools" / "tea.csv")
    pool.save("Ann", pool.pairs[0].name, 3)
    with open_pages(runs, read_only=True) as client:
        for path in ("/grade", "/grade/tea"):
            page = client.get(path)
            assert page.status_code == 200
            assert 'method="post"' not in page.text
        assert client.get("/grade/tea/grade?grader=Ann").status_code == 403
        assert client.get("/grade/tea/labels.qrels").text == "q0 0 d0 3\n"


@pytest.fixture
def pool(tmp_path: Path) -> GradedPool:
    write_pool(tmp_path / "p.csv", [PassagePair("q", "query", "d", "text", "")])
    return GradedPool(tmp_path / "p.csv")


def test_a_damaged_line_is_told_each_time_and_loses_no_grade(pool: GradedPool) -> None:
    """The first look must not take the place of the lines around it."""
    pool.save("Ann", ("q", "d"), 2)
    good = pool.journal.read_bytes()
    later = good.replace(b"Ann", b"Bob")
    for damage in (b'{"grader": 1}\n', good.replace(b'"grade":2', b'"grade":true')):
        pool.journal.write_bytes(good + damage + later)
        for _ in range(2):
            with pytest.raises(DataError, match="has"):
                pool.grades()
    pool.journal.write_bytes(good + later)
    assert set(pool.grades()) == {"Ann", "Bob"}


def test_graders_are_counted(pool: GradedPool) -> None:
    """Each is compared with each: a visitor could make the page take hours."""
    for number in range(50):
        pool.save(f"g{number}", ("q", "d"), 1)
    pool.save("g3", ("q", "d"), 2)
    with pytest.raises(UsageError, match="50 people"):
        pool.save("one more", ("q", "d"), 2)
