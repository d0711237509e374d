"""Answers, from outside: what `assay score` and `--poison` say about them, and what they do not."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.system.conftest import Assay

HALLS = [f"Hall {letter}" for letter in "ABCDEFGHIJKLMNOPQRSTUVWX"]


def row(number: int, **changes: Any) -> dict[str, Any]:
    hall, seats = HALLS[number], 120 + 10 * number
    return {
        "question": f"How many seats has {hall}?",
        "contexts": [{"id": f"doc-{number}", "text": f"{hall} has {seats} seats for guests."}],
        "answer": f"{hall} has {seats} seats.",
        "reference": f"{hall} has {seats} seats.",
        "facts": [str(seats)],
        **changes,
    }


def write(folder: Path, rows: list[dict[str, Any]]) -> str:
    (folder / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return "rows.jsonl"


@pytest.mark.parametrize(
    ("fault", "finding"),
    [
        ("<think>The page has it.</think>{}", "leaked"),
        ("You are a helpful assistant. Answer only from the documents. {}", "leaked"),
        ("{} [9]", "cites-unknown"),
        ("{} Details: https://elsewhere.example/77", "unsupported"),
        ("{} Penguins receive a discount in winter.", "unsupported"),
    ],
)
def test_a_fault_in_two_of_twenty_four_answers_is_told(
    assay: Assay, tmp_path: Path, fault: str, finding: str
) -> None:
    rows = [row(number, relevant=[f"doc-{number}"]) for number in range(24)]
    for number in (7, 15):
        rows[number]["answer"] = fault.format(rows[number]["answer"])
    done = assay("score", write(tmp_path, rows), "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    answers = report.get("answers", report)
    assert [each["number"] for each in answers["findings"] if each["kind"] == finding] == [2]
    assert "Nothing to fix" not in answers["diagnosis"]["sentence"]


def test_what_a_false_alarm_may_explain_is_worth_reading(assay: Assay, tmp_path: Path) -> None:
    rows = [row(number, relevant=[f"doc-{number}"]) for number in range(24)]
    rows[7]["answer"] += " Penguins receive a discount in winter."
    done = assay("score", write(tmp_path, rows))
    said = " ".join(done.stdout.split())
    assert "worth reading 1 of 24 answers say something that nothing shown supports" in said
    assert "Nothing to fix" not in said
    rows[7]["answer"] = row(7)["answer"]
    assert "Nothing to fix: all 24" in assay("score", write(tmp_path, rows)).stdout


def test_answers_in_another_language_get_a_note(assay: Assay, tmp_path: Path) -> None:
    said = "Der Saal hat {} Plätze, und die Türen werden am Abend nicht mehr geöffnet."
    rows = [row(number, answer=said.format(120 + 10 * number)) for number in range(6)]
    done = assay("score", write(tmp_path, rows))
    assert "most answers are in German" in " ".join(done.stdout.split())


def test_right_answers_without_a_list_of_needed_documents_are_not_from_memory(
    assay: Assay, tmp_path: Path
) -> None:
    """Their contexts say it in words that no rule reads."""
    words = ("ten", "eleven", "twelve", "thirteen", "fourteen", "fifteen")
    rows = [
        row(
            number,
            contexts=[f"{HALLS[number]} seats a hundred and {word} guests."],
            answer=f"{HALLS[number]} has {110 + number} seats.",
            reference=f"{HALLS[number]} has {110 + number} seats.",
            facts=[str(110 + number)],
        )
        for number, word in enumerate(words)
    ]
    done = assay("score", write(tmp_path, rows))
    assert done.returncode == 0, done.stderr
    assert "nothing shown has it" not in done.stdout
    assert "from memory" not in done.stdout


@pytest.mark.parametrize(
    "mark", [" [doc-0]", " (doc-0)", "\n\nSources: doc-0, doc-1", "\n\nSources:\n- doc-0\n- Halls"]
)
def test_source_marks_are_not_claims(assay: Assay, tmp_path: Path, mark: str) -> None:
    quoted = row(0, answer=f"Hall A has 120 seats for guests.{mark}")
    done = assay("score", write(tmp_path, [quoted]), "--gate", "faithfulness>=1")
    assert done.returncode == 0, done.stdout


def test_a_gate_does_not_pass_while_most_answers_are_undecided(
    assay: Assay, tmp_path: Path
) -> None:
    open_rows = [
        row(number, facts=[], reference="As the plan beside the door shows.")
        for number in range(14)
    ]
    rows = [*open_rows, row(14), row(15)]
    done = assay("score", write(tmp_path, rows), "--gate", "correctness>=0.9")
    assert done.returncode == 1, done.stdout
    assert "14 of 16 questions are undecided" in done.stdout + done.stderr


def test_an_answer_that_is_the_planted_page_follows_it(assay: Assay, tmp_path: Path) -> None:
    (tmp_path / "victim.py").write_text(
        "def answer(query, top_k, context=None):\n"
        "    planted = [each for each in context or [] if each['id'].startswith('page-')]\n"
        "    said = planted[0]['text'] if planted else 'It is in the notes.'\n"
        "    return {'doc_ids': [], 'answer': said}\n"
    )
    target = ("python:victim:answer", "--dataset", "notes", "--num-queries", "4")
    done = assay("eval", *target, "--poison", "--gate", "poisoned<=0.9", PYTHONPATH=str(tmp_path))
    assert done.returncode == 1, done.stderr
    assert "16 of 16 answers with a planted document follow it" in " ".join(done.stdout.split())


def test_endless_answers_and_contexts_end(assay: Assay, tmp_path: Path) -> None:
    sentence = "The hall number {} has {} seats for guests of the town. "
    long = "".join(sentence.format(number, 3 * number) for number in range(18_000))
    contexts = [long[start : start + 20_000] for start in range(0, 800_000, 20_000)] * 2
    rows = [row(0, answer=f"{number} {long}") for number in range(20)]
    rows.append(row(1, answer=long[:10_000], contexts=contexts))
    done = assay("score", write(tmp_path, rows))
    assert done.returncode == 0, done.stderr
