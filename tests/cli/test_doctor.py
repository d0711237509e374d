"""`assay doctor` through the same parser as users reach it, with agents on real ports."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from tests.bad_agent import bad_agent
from tests.cli.conftest import RunAssay
from tests.interop.server10 import agent_app
from tests.serve.serving import serving_in_thread

from assay.cli.app import app
from assay.data import load_dataset
from assay.extras import PACKAGES


def run(*arguments: str, variables: dict[str, str] | None = None) -> Result:
    return CliRunner().invoke(app, ["doctor", *arguments], env=variables)


def test_an_agent_is_shown_with_its_card_transport_and_calls() -> None:
    with serving_in_thread(agent_app(("1.0",))) as url:
        done = run(url, "--query", "data x", "--top-k", "2")
        found = json.loads(run(f"a2a:{url}", "--query", "text x", "--json").stdout)
    assert done.exit_code == 0, done.output
    for words in ("new agent 1.3", "A2A 1.0 over JSON-RPC", "blocking call", "2 ids in"):
        assert words in done.output
    assert "--card-url" in done.output  # its card names port 1, where nobody listens
    assert (found["reached"], found["healthy"], found["protocol"]) == (True, True, "a2a")
    assert [call["way"] for call in found["calls"]] == ["blocking"]
    assert (found["card"]["name"], found["problems"][0]["grave"]) == ("new agent", False)


@pytest.mark.parametrize(
    ("mode", "code", "words"),
    [
        ("error_500", 1, "agent error: HTTP 500"),
        ("wrong_shape", 1, "invalid answer: "),
        ("garbage", 1, "protocol: "),
        ("duplicates", 0, "duplicate ids"),
        ("too_many", 0, "the answer has 502 ids, top_k is 5"),
    ],
)
def test_a_faulty_agent_is_told_with_a_remedy(mode: str, code: int, words: str) -> None:
    with bad_agent() as agent:
        done = run(f"{agent.url}/{mode}", "--query", "query 1")
    assert done.exit_code == code
    assert words in " ".join(done.output.split())
    assert "remedy" in done.output


def test_settings_have_the_source_that_won(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "assay.toml").write_text("[eval]\ntop_k = 3\nseed = 9\n")
    variables = {"ASSAY_TOP_K": "7", "ASSAY_CACHE": str(tmp_path), "ASSAY_TOPK": "8"}
    done = run("--json", variables=variables)
    assert done.exit_code == 0
    listed = [each for each in json.loads(done.stdout)["settings"] if each["verb"] == "eval"]
    found = {each["option"]: (each["value"], each["source"]) for each in listed}
    assert found["top_k"] == ("7", "ASSAY_TOP_K")
    assert found["seed"] == ("9", "assay.toml")
    assert found["split"] == ("test", "default")
    assert "ASSAY_TOPK" in json.loads(done.stdout)["unread_variables"]


def test_the_installation_and_its_extras(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PACKAGES, "absent_package", "rare")
    done = run(variables={"ASSAY_CACHE": str(tmp_path)})
    assert done.exit_code == 0
    for words in ("serve installed", "pip install 'agent-assay[rare]'", "data index"):
        assert words in " ".join(done.output.split())


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        ("ASSAY_CACHE", __file__, "ASSAY_CACHE"),
        ("QDRANT_URL", "http://127.0.0.1:9", "does not respond"),
        ("QDRANT_URL", "elsewhere", "QDRANT_URL must be an http"),
    ],
)
def test_a_wrong_place_of_indexes(tmp_path: Path, name: str, value: str, problem: str) -> None:
    done = run("--json", variables={"ASSAY_CACHE": str(tmp_path), name: value})
    assert done.exit_code == 1
    assert problem in json.loads(done.stdout)["problems"][0]


def test_another_package_called_assay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = tmp_path / "assay_it-1.0.dist-info"
    other.mkdir()
    (other / "METADATA").write_text("Metadata-Version: 2.1\nName: assay-it\nVersion: 1.0\n")
    (other / "top_level.txt").write_text("assay\n")
    monkeypatch.syspath_prepend(tmp_path)
    done = run("--json", variables={"ASSAY_CACHE": str(tmp_path)})
    assert done.exit_code == 1
    (problem,) = json.loads(done.stdout)["problems"]
    assert problem.startswith("assay-it also installs the package 'assay': pip uninstall assay-it")


def test_the_remedy_is_for_the_kind_of_target(run_assay: RunAssay) -> None:
    done = run_assay("doctor", "python:target:broken", "--json")
    remedy = json.loads(done.stdout)["problems"][0]["remedy"]
    assert "fix the function at the line in the message" in remedy


NOTES = list(load_dataset("notes").documents)


def service(value: Any) -> Starlette:
    async def answer(_request: Request) -> Response:
        return PlainTextResponse(value) if isinstance(value, str) else JSONResponse(value)

    return Starlette(routes=[Route("/s", answer)])


def examine(value: Any, *options: str) -> tuple[int, dict[str, Any]]:
    with serving_in_thread(service(value)) as url:
        target = f"rest:{url}/s?q={{query}}"
        done = run(target, "--dataset", "notes", "--json", *options)
    return done.exit_code, json.loads(done.stdout)


def test_an_answer_without_a_text_is_a_problem_where_answers_are_evaluated() -> None:
    reply = {"ids": [NOTES[0]], "text": "It is blue."}
    code, found = examine(reply, "--map", "ids=ids", "--answers")
    assert code == 1
    assert "--map answer=EXPR" in found["problems"][0]["remedy"]
    code, found = examine(reply, "--map", "ids=ids")
    assert (code, found["problems"], found["calls"][0]["answer"]) == (0, [], None)
    assert (found["known_ids"], json.loads(found["calls"][0]["raw"])) == (1, reply)


@pytest.mark.parametrize(
    ("value", "options", "words"),
    [
        ({"hits": [{"x": 1, "r": {"k-y": NOTES[0]}}]}, ["ids=hits[].x"], 'ids=hits[].r."k-y"\''),
        ({"a": {"b": [NOTES[0]]}}, ["ids=c"], "try: --map 'ids=a.b[]'"),
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
    with serving_in_thread(service({"a": {"b": [NOTES[0]]}})) as url:
        done = run(f"rest:{url}/s?q={{query}}", "--dataset", "notes")
    assert done.output.count("--map 'ids=a.b[]'") == 1
    reply = {"ids": [NOTES[0]], "text": "It is\n blue \x1b[2J. " + "y" * 9000, "from": [NOTES[0]]}
    mapping = [*("--map", "ids=ids"), *("--map", "answer=text"), *("--map", "citations=from")]
    with serving_in_thread(service(reply)) as url:
        done = run(f"rest:{url}/s?q={{query}}", "--dataset", "notes", "--answers", *mapping)
    assert done.exit_code == 0, done.output
    shown = " ".join(done.stdout.split())
    assert "1 of 1 ids are documents of 'notes'" in shown
    assert "answer text 9,018 characters, 1 citation: It is blue" in shown
    assert "\x1b" not in done.output
    assert len(done.output) < 2500
