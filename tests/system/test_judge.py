"""Judges that are wrong are noticed: each prompt is tested, and their words can be read."""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.llm_providers.model_server import ModelServer
from tests.system.conftest import Assay

TOWNS = (
    *("Arlon", "Bremen", "Calais", "Dover", "Essen", "Florence", "Genoa", "Hasselt", "Izola"),
    *("Jena", "Kiel", "Lyon", "Mons", "Namur", "Oslo", "Porto", "Quimper", "Riga", "Siena"),
    *("Turin", "Udine", "Verona", "Wismar", "Ypres"),
)
JOBS = ("ferry", "museum", "harbor", "library", "market", "bakery", "station", "theater")


def reference(place: int) -> str:
    town, job = TOWNS[place], JOBS[place % len(JOBS)]
    return f"The {job} in {town} is open from {place + 3} to {place + 40} o'clock with {town}card."


ROWS = [
    {
        "id": f"q{place}",
        "question": f"When is the {JOBS[place % len(JOBS)]} in {TOWNS[place]} open?",
        "answer": reference(place),
        "reference": reference(place),
        "contexts": [f"{reference(place)} Tickets of {TOWNS[place]} are sold there."],
        "facts": [f"from {place + 3}"],
    }
    for place in range(len(TOWNS))
]


def blocks(kind: str, prompt: str) -> list[str]:
    return re.findall(rf"<{kind} \w+>\n(.*?)\n</{kind}", prompt, re.DOTALL)


def honest(prompt: str) -> str:
    """Right about every prompt, as far as these rows go."""
    if prompt.startswith("Rate an answer"):
        word = re.search(r'has the word "(\w+)"', prompt)
        levels: list[str] = re.findall(r"one of: (.*)", prompt)[0].split(", ")
        return levels[-1] if word is None or word[1] in blocks("answer", prompt)[0] else levels[0]
    if statement := blocks("statement", prompt):
        return "TRUE" if statement[0] in "\n".join(blocks("document", prompt)) else "FALSE"
    first, second = blocks("answer", prompt)
    return "TRUE" if first == second else "FALSE"


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer().running() as running:
        running.reply = honest
        yield running


@pytest.fixture
def score(assay: Assay, server: ModelServer, tmp_path: Path) -> Callable[..., tuple[int, str, str]]:
    """`assay score` of right answers with the judge at `server`: code, stdout, all output."""
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, ROWS)))

    def run(*arguments: str, **variables: str) -> tuple[int, str, str]:
        judge = f"openai:m@{server.url}/v1"
        cache = {"ASSAY_CACHE": str(tmp_path / "cache"), **variables}
        words = ("score", "rows.jsonl", "--judge", judge, "--judge-concurrency", "4")
        done = assay(*words, *arguments, **cache)
        return done.returncode, done.stdout, " ".join((done.stdout + done.stderr).split())

    return run


Score = Callable[..., tuple[int, str, str]]


@pytest.mark.parametrize("word", ["FALSE", "TRUE"])
def test_a_judge_that_always_says_the_same_of_sources_gives_no_faithfulness(
    word: str, score: Score, server: ModelServer
) -> None:
    server.reply = lambda prompt: word if blocks("statement", prompt) else honest(prompt)
    _, out, _ = score("--json")
    found = json.loads(out)["answers"]
    assert found["metrics"]["correctness"] == 1.0
    assert "judged_faithfulness" not in found["metrics"]
    assert "judged_faithfulness is left out: the judge failed its self-test" in found["note"]


@pytest.mark.parametrize("word", ["YES", "NO"])
def test_a_judge_that_always_says_the_same_by_a_criterion_is_refused(
    word: str, score: Score, server: ModelServer, tmp_path: Path
) -> None:
    (tmp_path / "polite.md").write_text("Is the answer polite?")
    server.reply = lambda prompt: word if prompt.startswith("Rate") else honest(prompt)
    code, out, error = score("--criteria", "polite.md", "--json")
    assert "criterion.polite" not in json.loads(out)["answers"]["metrics"]
    assert code == 3
    assert "criterion 'polite': the judge failed its self-test" in error


@pytest.mark.parametrize("reply", ["TRUE. Because both agree.", '{"verdict": "TRUE"}', "Yes"])
def test_a_reply_without_verdict_is_quoted(reply: str, score: Score, server: ModelServer) -> None:
    server.reply = lambda prompt: reply
    code, _, error = score()
    assert code == 3
    assert f"it replied {reply!r}" in error


AGENT = """
def answer(query, top_k):
    return {"doc_ids": ["d0"], "answer": ANSWERS[query], "contexts": [ANSWERS[query]]}

ANSWERS = {}
"""


@pytest.mark.parametrize("private", [False, True])
def test_prompts_and_replies_of_a_verdict_can_be_read(
    private: bool, assay: Assay, server: ModelServer, tmp_path: Path
) -> None:
    data = [{"query": r["question"], "doc_ids": "d0", "answer": r["reference"]} for r in ROWS[:6]]
    (tmp_path / "questions.jsonl").write_text("\n".join(map(json.dumps, data)))
    answers = {row["query"]: row["answer"] for row in data}
    (tmp_path / "agent.py").write_text(AGENT + f"ANSWERS.update({answers!r})\n")
    words = ("eval", "python:agent:answer", "--dataset", "questions.jsonl", "--answers")
    judge = ("--judge", f"openai:m@{server.url}/v1", *(("--private",) if private else ()))
    done = assay(*words, *judge, ASSAY_CACHE=str(tmp_path / "cache"))
    assert done.returncode == 0, done.stderr
    (run,) = (tmp_path / "runs").glob("2*")
    assert (run / "judge.jsonl").exists() is not private
    rows = [json.loads(line) for line in (run / "answers.jsonl").read_text().splitlines()]
    shown = assay("report", "--query", rows[0]["query_id"])
    assert shown.returncode == 0, shown.stderr
    if private:
        assert "keeps no prompt" in shown.stderr
        return
    assert "Are these answers semantically equivalent" in shown.stdout
    assert "reply: TRUE" in shown.stdout
    calls = json.loads(assay("report", "--query", rows[0]["query_id"], "--json").stdout)["judge"]
    assert {call["kind"] for call in calls} >= {"correctness", "support"}
