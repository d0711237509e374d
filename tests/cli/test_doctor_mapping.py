"""`assay doctor` with a data set and a mapping: what came, what was read, and what to try."""

import json
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from tests.cli.test_doctor_command import run, serving

from assay.data import load_dataset
from assay.targets.detection import find_known

NOTES = list(load_dataset("notes").documents)


def service(value: Any) -> Starlette:
    async def answer(_request: Request) -> Response:
        return PlainTextResponse(value) if isinstance(value, str) else JSONResponse(value)

    return Starlette(routes=[Route("/s", answer)])


def examine(value: Any, *options: str) -> tuple[int, dict[str, Any]]:
    with serving(service(value)) as url:
        target = f"rest:{url}/s?q={{query}}"
        done = run(target, "--dataset", "notes", "--json", *options)
    return done.exit_code, json.loads(done.stdout)


def test_what_is_right_is_shown() -> None:
    code, found = examine({"hits": [{"ref": NOTES[0]}]}, "--map", "ids=hits[].ref")
    assert (code, found["known_ids"], found["problems"]) == (0, 1, [])
    assert found["calls"][0]["raw"] == json.dumps(
        {"hits": [{"ref": NOTES[0]}]}, separators=(",", ":")
    )


def test_the_text_of_an_answer_is_shown_with_its_length_and_citations() -> None:
    reply = {"ids": [NOTES[0]], "text": "It is\n blue \x1b[2J. " + "x" * 500, "from": [NOTES[0]]}
    mapping = [*("--map", "ids=ids"), *("--map", "answer=text"), *("--map", "citations=from")]
    with serving(service(reply)) as url:
        done = run(f"rest:{url}/s?q={{query}}", "--dataset", "notes", "--answers", *mapping)
    assert done.exit_code == 0
    shown = " ".join(done.stdout.split())
    assert (
        "answer text 518 characters, 1 citation: It is blue \N{REPLACEMENT CHARACTER}[2J." in shown
    )


def test_an_answer_without_a_text_is_a_problem_where_answers_are_evaluated() -> None:
    reply = {"ids": [NOTES[0]], "text": "It is blue."}
    code, found = examine(reply, "--map", "ids=ids", "--answers")
    assert code == 1
    assert [each["remedy"] for each in found["problems"]] == ["try: --map 'answer=text'"]
    code, found = examine({"ids": [NOTES[0]], "n": 3}, "--map", "ids=ids", "--answers")
    assert [each["remedy"] for each in found["problems"]] == [
        "name the field that holds it: --map answer=EXPR"
    ]
    code, found = examine(reply, "--map", "ids=ids")
    assert (code, found["problems"], found["calls"][0]["answer"]) == (0, [], None)


def test_an_application_that_answers_learns_how_to_map_its_answer() -> None:
    passage = {"page": NOTES[0], "body": "The pool opens at seven in the morning on weekdays."}
    reply = {"data": {"said": "It opens at seven.", "used": [passage]}}
    code, found = examine(reply, "--answers")
    assert code == 1
    assert found["calls"][0]["answer_mapping"] == "answer=data.said"
    assert "--map 'answer=data.said'" in str(found["problems"])
    with serving(service(reply)) as url:
        target = f"rest:{url}/s?q={{query}}"
        done = run(target, "--dataset", "notes", "--answers", "--map", "answer=data.said")
    assert "18 characters" in done.stdout


@pytest.mark.parametrize(
    ("value", "options", "words"),
    [
        ({"hits": [{"x": 1, "r": {"k-y": NOTES[0]}}]}, ["ids=hits[].x"], 'ids=hits[].r."k-y"\''),
        ({"a": {"b": [NOTES[0]]}}, ["ids=c"], "try: --map 'ids=a.b[]'"),
        ([{"i": "u"}, {"i": "v", "d": NOTES[0]}], ["ids=[].i"], "try: --map 'ids=[].d'"),
        (f"See [{NOTES[0]}].", ["ids=x"], r"try: --map 'ids=re:\[([^\]]+)\]'"),
        ({"hits": [{"id": "other"}]}, ["ids=hits[].id"], "map the field with these ids"),
        (
            {"hits": [f"{each}#chunk-0" for each in NOTES[:3]]},
            ["ids=hits"],
            "try: --map 'chunk=#chunk'",
        ),
    ],
)
def test_what_to_try_next_is_said(value: Any, options: list[str], words: str) -> None:
    code, found = examine(value, *(word for each in options for word in ("--map", each)))
    assert code == 1
    assert words in found["problems"][0]["remedy"], found["problems"]
    assert found["calls"][0]["raw"]


def test_the_terminal_shows_the_raw_answer_shortened_and_clean() -> None:
    value = {"hits": [{"id": NOTES[0]}], "text": "\x1b[2J" + "y" * 9000}
    with serving(service(value)) as url:
        done = run(f"rest:{url}/s?q={{query}}", "--dataset", "notes", "--map", "ids=hits[].id")
    assert done.exit_code == 0, done.output
    assert "1 of 1 ids are documents of 'notes'" in done.output
    assert "raw answer" in done.output
    assert "\x1b" not in done.output
    assert len(done.output) < 2500


def test_wrong_options_are_usage_errors() -> None:
    done = run("builtin:bm25", "--preset", "solr:x")
    assert "--preset has no effect on a builtin: target" in str(done.exception)
    done = run("rest:http://127.0.0.1:9/{query}", "--map", "ids=[")
    assert "not a JMESPath expression" in str(done.exception)


@pytest.mark.parametrize(
    ("value", "path"),
    [
        ({"a": [{"b": 7}]}, "a[].b"),
        ([["7"]], "[][]"),
        ({"x": {"y": "7"}}, "x.y"),
        ({"x": True, "y": [1.5, None]}, None),
    ],
)
def test_a_path_to_known_ids_is_found(value: Any, path: str | None) -> None:
    assert find_known(value, {"7"}) == path


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ([], "no answer holds a document id, so every score is 0"),
        (["other-1"], "all returned ids are unknown to 'notes', such as 'other-1'"),
        ([f"{NOTES[0]}#1"], "so every score is 0: these look like chunks of documents"),
    ],
)
def test_a_run_that_read_nothing_warns(
    answer: list[str], words: str, tmp_path: Path, run_assay: Any
) -> None:
    (tmp_path / "empty.py").write_text(f"def find(query, top_k):\n    return {answer!r}\n")
    done = run_assay("eval", "python:empty:find", "--dataset", "notes", "--num-queries", "3")
    assert done.returncode == 0, done.stderr
    assert words in done.stderr
    assert "assay doctor TARGET --dataset notes" in done.stderr


@pytest.mark.parametrize(
    ("returned", "warned"),
    [("IDS[:3]", True), ("IDS[: len(query) % 4]", False), ("IDS[:5]", False)],
)
def test_a_number_of_results_that_was_not_passed_on_is_told(
    returned: str, warned: bool, tmp_path: Path, run_assay: Any
) -> None:
    (tmp_path / "capped.py").write_text(
        f"IDS = {NOTES[:5]!r}\ndef find(query, top_k):\n    return {returned}\n"
    )
    done = run_assay("eval", "python:capped:find", "--dataset", "notes", "--num-queries", "9")
    assert done.returncode == 0, done.stderr
    said = "warning: every answer has exactly 3 documents, top_k is 5" in done.stderr
    assert said is warned, done.stderr


@pytest.mark.parametrize(
    ("empty", "early", "warned"), [(6, "[]", True), (3, "[]", False), (6, "1 / 0", False)]
)
def test_a_target_that_loads_behind_empty_answers_is_told(
    empty: int, early: str, warned: bool, tmp_path: Path, run_assay: Any
) -> None:
    (tmp_path / "slow.py").write_text(
        f"ASKED = []\ndef find(query, top_k):\n    ASKED.append(query)\n"
        f"    return {NOTES[:5]!r} if len(ASKED) > {empty} else {early}\n"
    )
    options = ("--dataset", "notes", "--num-queries", "12", "--concurrency", "1")
    done = run_assay("eval", "python:slow:find", *options)
    assert done.returncode == 0, done.stderr
    words = "the first 6 answers were empty and 6 of the 6 after them were not"
    assert (words in done.stderr) is warned, done.stderr
