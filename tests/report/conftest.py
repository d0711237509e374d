"""Real runs to make pages of, one of them by an agent and on data that mean harm."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from assay import Dataset, Document, Query, Run, evaluate
from assay.data.dataset import Fact, ReferenceAnswer
from assay.report.html import JudgedDocuments, QueryFigures, RunPage, render_page
from assay.run.models import AnswerRow, QueryRow, Report

SCRIPT = "<script>alert('x')</script>"
HANDLER = '" onmouseover="alert(1)'


def query_row(query_id: str, score: float = 0.0, relevant: int = 1, **changes: Any) -> QueryRow:
    values = {
        "query_id": query_id,
        "query_text": "some query",
        "ndcg_at_5": float(score),
        "total_relevant_docs": relevant,
        "relevant_docs_retrieved": 0,
        "retrieved_docs": [],
        "status": "ok",
        "latency_ms": 5.0,
        "at": 0.0,
    }
    return QueryRow.model_validate(values | changes)


def render(
    run: Run,
    dataset: Dataset | None = None,
    *,
    report: Report | None = None,
    rows: Iterable[QueryRow] | None = None,
    answers: Iterable[AnswerRow] | None = None,
) -> str:
    """The page of a run, with other figures or rows where these are given."""
    shown = report or run.report
    figures = QueryFigures(shown.headline[0], dataset.queries if dataset else {})
    for row in run.rows() if rows is None else rows:
        figures.add(row)
    told = run.answers() if answers is None else answers
    docs = JudgedDocuments(shown.config.top_k, shown.config.split, dataset)
    page = RunPage("x", shown, run.folder.read_header(), figures, docs, list(told))
    return render_page("run_file.html", run=page, title=page.title)


@pytest.fixture(scope="session")
def hostile_dataset() -> Dataset:
    """40 queries; every text of the data set tries to leave its place."""
    size = 40
    return Dataset(
        name=f"tiny{HANDLER}",
        documents={
            f"d{i}": Document(f"d{i}", f"Title {i} {SCRIPT}", f"Text {i} {SCRIPT}{HANDLER}")
            for i in range(size + 1)
        },
        queries={
            f"q{i}": Query(
                f"q{i}",
                f"{'what is ' if i % 2 else ''}query {i} {SCRIPT}{HANDLER}",
                ("odd" if i % 2 else f"even{SCRIPT}",),
            )
            for i in range(size)
        },
        judgments={"test": {f"q{i}": {f"d{i}": 2, f"d{i + 1}": 1} for i in range(size)}},
    )


def hostile_agent(query: str, top_k: int) -> list[str]:
    """Right on the first ten queries, then wrong in every way there is."""
    number = int(query.split("query ")[1].split()[0])
    if number < 10:
        return [f"d{number}", f"d{number + 1}"]
    if number < 15:
        raise ValueError(f"refused {SCRIPT}{HANDLER}")
    if number < 20:
        return [f"d{number + 1}", f"d{number + 1}", f"unknown{SCRIPT}"]
    return ["d0", "d1", "d2", "d3", "d4", "d5"]


def broken_agent(query: str, top_k: int) -> list[str]:
    raise RuntimeError("the index is closed")


def plain_agent(query: str, top_k: int) -> list[str]:
    number = int(query.split("query ")[1].split()[0])
    return [f"d{number + 1}"] if number % 2 else ["d40", f"d{number}"]


@pytest.fixture(scope="session")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("runs")


@pytest.fixture(scope="session")
def hostile_run(hostile_dataset: Dataset, out: Path) -> Run:
    gates = ("ndcg@5>=0.9", "success_rate>=0.5")
    return evaluate(hostile_agent, hostile_dataset, out=out, gates=gates, retries=0)


@pytest.fixture(scope="session")
def plain_run(hostile_dataset: Dataset, out: Path) -> Run:
    return evaluate(plain_agent, hostile_dataset, out=out)


class ScriptedJudge:
    """TRUE for what the reference says, a sentence in place of a verdict about anything odd."""

    name = "scripted"

    async def generate(self, prompt: str, max_tokens: int = 100) -> str:
        if "odd" in prompt:
            return "That depends."
        said = {each.strip() for each in re.findall(r"the answer is[^<\n]*", prompt)}
        return "TRUE" if len(said) == 1 and "right" in said.pop() else "FALSE"


@pytest.fixture(scope="session")
def answered_dataset() -> Dataset:
    """48 questions with an answer, the last 4 of them in two documents, and 4 without."""
    queries = {f"q{i}": Query(f"q{i}", f"question {i} {SCRIPT}") for i in range(52)}
    needed = {f"q{i}": (f"d{i}", "d90") if i >= 44 else (f"d{i}",) for i in range(48)}

    def reference(query_id: str) -> ReferenceAnswer:
        if query_id not in needed:
            return ReferenceAnswer(query_id, None)
        fact = f"fact {query_id[1:]}"
        facts = (Fact(fact, (fact,)), Fact("right", ("right",)))
        answer = f"the answer is right: {fact} {SCRIPT}"
        return ReferenceAnswer(query_id, answer, facts, needed[query_id])

    return Dataset(
        name="answered",
        documents={
            f"d{i}": Document(f"d{i}", f"Title {i} {SCRIPT}", f"the fact {i} {SCRIPT}")
            for i in range(100)
        },
        queries=queries,
        judgments={"test": {query_id: dict.fromkeys(ids, 2) for query_id, ids in needed.items()}},
        answers={query_id: reference(query_id) for query_id in queries},
    )


def answering_agent(query: str, top_k: int) -> dict[str, object]:
    """Fails in each of the ways that have a name; every tenth cites what does not exist."""
    number = int(query.split()[1])
    ids = [f"d{number}", "d95", "d96"] if number % 3 else ["d95", "d96", "d97"]
    if number % 10 == 7:
        raise ValueError(f"refused {SCRIPT}")
    answer = f"the answer is right: fact {number} {SCRIPT} [1]"
    if number % 4 == 1:
        answer = f"something odd {SCRIPT} [1]" if number % 8 == 1 else "I do not know."
    cited = [ids[0]] if number % 10 else [ids[0], f"made-up{SCRIPT}"]
    return {"doc_ids": ids, "answer": answer, "citations": cited}


def timid_agent(query: str, top_k: int) -> dict[str, object]:
    number = int(query.split()[1])
    answer = f"fact {number} is right [1]" if number % 2 else "I do not know."
    return {"doc_ids": [f"d{number}"], "answer": answer, "citations": [f"d{number}"]}


@pytest.fixture(scope="session")
def answered_run(answered_dataset: Dataset, out: Path) -> Run:
    return evaluate(answering_agent, answered_dataset, out=out, retries=0, answers=True)


@pytest.fixture(scope="session")
def timid_run(answered_dataset: Dataset, out: Path) -> Run:
    return evaluate(timid_agent, answered_dataset, out=out, retries=0, answers=True)


@pytest.fixture(scope="session")
def judged_run(answered_dataset: Dataset, out: Path) -> Run:
    # Without controls, which a judge that is scripted by a few answers would not pass.
    options: dict[str, Any] = {"answers": True, "judge": ScriptedJudge(), "judge_set": "controls=0"}
    return evaluate(answering_agent, answered_dataset, out=out, retries=0, **options)
