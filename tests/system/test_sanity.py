"""Figures that are computed correctly and still mislead are said to do so."""

import json
from pathlib import Path

import pytest
from tests.json_server import Answer, JsonRequest, JsonServer
from tests.system.conftest import Assay

MAPPED = (
    "--request",
    '{"query": "{query}"}',
    "--map",
    "ids=results[].id",
    "--map",
    "scores=results[].score",
)
AGENT = """
import random

def number(query):
    return int(query.split()[-1])

def right(query, top_k):
    return [f"d{number(query)}", "x1", "x2", "x3", "x4"]

def swapped(query, top_k):
    n = number(query)
    return [f"d{n + 1}" if random.Random(n).random() < 0.3 else f"d{n}", "x1", "x2", "x3", "x4"]

asked = 0

def learning(query, top_k):
    global asked
    asked += 1
    found = f"d{number(query)}" if asked > 35 or asked % 5 == 0 else "x0"
    return [found, "x1", "x2", "x3", "x4"]
"""


@pytest.mark.parametrize(
    ("agent", "warning"),
    [
        ("right", ""),
        ("swapped", "answers match a neighboring query and not their own"),
        ("learning", "does the target learn from earlier queries?"),
    ],
)
def test_a_misleading_run_has_a_warning(
    assay: Assay, tmp_path: Path, agent: str, warning: str
) -> None:
    (tmp_path / "agent.py").write_text(AGENT)
    assert_warns(assay, tmp_path, f"python:agent:{agent}", warning)


def assert_warns(assay: Assay, folder: Path, target: str, warning: str, *options: str) -> None:
    rows = [f"where is document {number},d{number}" for number in range(70)]
    (folder / "questions.csv").write_text("\n".join(["question,ids", *rows]) + "\n")
    result = assay("eval", target, "--dataset", "questions.csv", "--json", *options)
    assert result.returncode == 0, result.stderr
    assert warning in result.stderr
    warnings = json.loads(result.stdout).get("warnings", [])
    assert len(warnings) == bool(warning), warnings
    assert all(warning in each for each in warnings)


@pytest.mark.parametrize(
    ("place", "scores", "warning"),
    [
        (0, (0.9, 0.4, 0.3, 0.2, 0.1), ""),
        (0, (0.1, 0.2, 0.3, 0.4, 0.9), ""),  # distances
        (4, (0.1, 0.2, 0.3, 0.4, 0.9), "is the list upside down?"),
        (1, (0.1, 0.9, 0.3, 0.4, 0.2), "contradict the order of their documents"),
    ],
)
def test_scores_that_contradict_the_order_have_a_warning(
    assay: Assay, tmp_path: Path, place: int, scores: tuple[float, ...], warning: str
) -> None:
    class Search(JsonServer):
        def answer(self, request: JsonRequest) -> Answer:
            ids = [f"x{number}" for number in range(5)]
            ids[place] = f"d{request.body.get('query', '0').split()[-1]}"
            hits = [{"id": each, "score": score} for each, score in zip(ids, scores, strict=True)]
            return 200, {}, {"results": hits}

    server = Search()
    with server.running():
        assert_warns(assay, tmp_path, f"rest:{server.url}", warning, *MAPPED)


@pytest.mark.parametrize(("undecided", "code"), [(14, 1), (1, 0)])
def test_undecided_answers_do_not_pass_a_gate_of_score(
    assay: Assay, tmp_path: Path, undecided: int, code: int
) -> None:
    rows = [
        {
            "question": f"what is the code of item {n}",
            "answer": f"Item {n} has the code {n}00.",
            **({} if n < undecided else {"reference": f"The code of item {n} is {n}00."}),
        }
        for n in range(16)
    ]
    (tmp_path / "rows.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    result = assay("score", "rows.jsonl", "--gate", "correctness>=0.9")
    assert result.returncode == code, result.stderr
