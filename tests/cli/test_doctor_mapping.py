"""`assay doctor` with a data set and a mapping: what came, what was read, and what to try."""

import json
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from tests.cli.test_doctor_command import run, serving

from assay.data import load_dataset

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
    value = {"hits": [{"ref": NOTES[0]}]}
    code, found = examine(value, "--map", "ids=hits[].ref")
    assert (code, found["known_ids"], found["problems"]) == (0, 1, [])
    assert json.loads(found["calls"][0]["raw"]) == value


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
    assert "--map answer=EXPR" in found["problems"][0]["remedy"]
    code, found = examine(reply, "--map", "ids=ids")
    assert (code, found["problems"], found["calls"][0]["answer"]) == (0, [], None)


@pytest.mark.parametrize(
    ("value", "options", "words"),
    [
        ({"hits": [{"x": 1, "r": {"k-y": NOTES[0]}}]}, ["ids=hits[].x"], 'ids=hits[].r."k-y"\''),
        ({"a": {"b": [NOTES[0]]}}, ["ids=c"], "try: --map 'ids=a.b[]'"),
        ([{"i": "u"}, {"i": "v", "d": NOTES[0]}], ["ids=[].i"], "try: --map 'ids=[].d'"),
        (f"See [{NOTES[0]}].", ["ids=x"], "--map 'ids=re:PATTERN'"),
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
    problem = found["problems"][0]
    assert words in problem["remedy"]
    assert "--map 'ids" not in problem["what"]
    assert found["calls"][0]["raw"]


def test_the_terminal_says_each_thing_once_shortened_and_clean() -> None:
    with serving(service({"a": {"b": [NOTES[0]]}})) as url:
        done = run(f"rest:{url}/s?q={{query}}", "--dataset", "notes")
    assert done.output.count("--map 'ids=a.b[]'") == 1
    value = {"hits": [{"id": NOTES[0]}], "text": "\x1b[2J" + "y" * 9000}
    with serving(service(value)) as url:
        done = run(f"rest:{url}/s?q={{query}}", "--dataset", "notes", "--map", "ids=hits[].id")
    assert done.exit_code == 0, done.output
    assert "1 of 1 ids are documents of 'notes'" in done.output
    assert "\x1b" not in done.output
    assert len(done.output) < 2500
