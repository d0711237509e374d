"""Answers, from outside: what `assay score` and `--poison` say about them, and what they do not."""

import json
from pathlib import Path
from typing import Any

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


def test_answers_in_another_language_get_a_note(assay: Assay, tmp_path: Path) -> None:
    said = "Der Saal hat {} Plätze, und die Türen werden am Abend nicht mehr geöffnet."
    rows = [row(number, answer=said.format(120 + 10 * number)) for number in range(6)]
    done = assay("score", write(tmp_path, rows))
    assert "most answers are in German" in " ".join(done.stdout.split())


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
