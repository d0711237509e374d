"""Options and verbs of earlier versions still work, or say what to write today."""

import json
import shlex
from pathlib import Path

import pytest
from tests.system.conftest import Assay

from assay.run.config import RunConfig

SEARCH = "search frost --dataset notes --mode bm25 --json"
SCORE = "score rows.jsonl --json"
JUDGE = "score rows.jsonl --judge openai:m@http://127.0.0.1:9/v1"
DOCTOR = "doctor --timeout 1 --json"
TARGET = "rest:http://127.0.0.1:9/{query}"


@pytest.mark.parametrize(
    ("command", "old", "new", "said"),
    [
        (SEARCH, "--bm25-k1 0.5", "--bm25 k1=0.5", "--bm25-k1 is now --bm25 k1=VALUE"),
        (SCORE, "--nuggets f.jsonl", "--references f.jsonl", "--nuggets is now --references VALUE"),
        ("runs --json", "--out a,b", "--runs a,b", "--out is now --runs VALUE"),
        (JUDGE, "--judge-votes 0", "--judge-set votes=0", "--judge-votes is now --judge-set"),
        (JUDGE, "--judge-timeout=0", "--judge-set timeout=0", "--judge-timeout is now --judge-set"),
        (
            f"{DOCTOR} {TARGET}",
            "--preset solr --index docs",
            "--preset solr:docs",
            "--index is now --preset NAME:VALUE",
        ),
        (
            DOCTOR,
            f"{TARGET} --method PUT",
            "'rest:PUT http://127.0.0.1:9/{query}'",
            "--method NAME is now part of the target",
        ),
    ],
)
def test_an_option_does_what_todays_does_and_names_it(
    assay: Assay, tmp_path: Path, command: str, old: str, new: str, said: str
) -> None:
    row = {"id": "1", "question": "When?", "answer": "At 7.", "reference": "At 7."}
    (tmp_path / "rows.jsonl").write_text(json.dumps(row))
    fact = {"query_id": "1", "query": "When?", "facts": [{"text": "at 7", "importance": "vital"}]}
    (tmp_path / "f.jsonl").write_text(json.dumps(fact))
    earlier, today = (assay(*shlex.split(f"{command} {options}")) for options in (old, new))
    assert (earlier.returncode, earlier.stdout) == (today.returncode, today.stdout)
    if earlier.returncode == 2:
        assert earlier.stderr.splitlines()[-1] == today.stderr.splitlines()[-1]
    assert (earlier.stderr.count(said), " is now " in today.stderr) == (1, False)


def test_planted_documents_have_one_option(assay: Assay) -> None:
    run = ("eval", "builtin:bm25", "--dataset", "notes", "--num-queries", "2", "--json")
    bare = json.loads(assay(*run[:1], "--poison", *run[1:]).stdout)["answers"]["poison"]
    assert len(bare["kinds"]) == 4
    old = assay(*run, "--poison", "--poison-kind", "override")
    assert list(json.loads(old.stdout)["answers"]["poison"]["kinds"]) == ["override"]
    assert old.stderr.count("--poison-kind is now --poison VALUE") == 1


def test_an_old_key_of_the_settings_file_is_named_anew(assay: Assay, tmp_path: Path) -> None:
    (tmp_path / "assay.toml").write_text("[eval]\njudge_votes = 0\n")
    done = assay("eval", "builtin:bm25", "--dataset", "notes")
    assert done.returncode == 2
    assert "'judge_votes' is not an option; write --judge-set votes=VALUE" in done.stderr


OLD = {"note": "two words", "track": "trained", "chunk_separator": "#"}


@pytest.mark.parametrize("place", ["flags", "variables"])
def test_rare_options_are_parts_of_others(assay: Assay, tmp_path: Path, place: str) -> None:
    (tmp_path / "questions.csv").write_text("query,doc_ids\nwhat,a\n")
    (tmp_path / "agent.py").write_text("def find(query, top_k):\n    return ['a#1']\n")
    flags: list[str] = []
    variables: dict[str, str] = {}
    if place == "flags":
        flags = [f"--{name.replace('_', '-')}={value}" for name, value in OLD.items()]
        flags += ["--device", "cpu"]
    else:
        variables = {f"ASSAY_{name.upper()}": value for name, value in OLD.items()}
    run = ("eval", "python:agent:find", "--dataset", "questions.csv", "--json")
    done = assay(*run, *flags, **variables)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    config = report["config"]
    assert (config["note"], config["track"]) == ("two words", "trained")
    assert config["mapping"] == ["chunk=#"]
    assert report["metrics"]["ndcg@5"] == 1.0
    assert done.stderr.count(" is now ") == len(OLD) + (place == "flags")


def test_the_settings_of_an_earlier_run_are_read(tmp_path: Path) -> None:
    earlier: dict[str, object] = {
        "target": "rest:http://h/{query}",
        "method": "PUT",
        "chunk_separator": "#",
    }
    earlier |= {"device": "cuda", "reranker": "", "answers": True, "judge": "ollama"}
    config = RunConfig.from_json({**earlier, "max_cost": 2.0, "mapping": ["ids=hits"]})
    assert config.target == "rest:PUT http://h/{query}"
    assert (config.mapping, config.chunk_separator) == (("ids=hits", "chunk=#"), "#")
    assert config.judge_set.max_cost == 2.0


@pytest.mark.parametrize(
    ("call", "instead"),
    [
        (("data", "rekey", "old", "new"), "replace the old ids in qrels"),
        (("completion", "bash"), "run: eval"),
        (("run-agent", "http://localhost:8000", "X"), "call an agent with curl"),
        (("serve", "hostile"), "it is a fixture of the tests now"),
        (("nextcloud", "sync"), "use a data set of your own"),
        (("nextcloud", "status"), "run: assay nextcloud upload"),
        (("nextcloud", "wait", "nextcloud:URL"), "run: assay nextcloud upload --wait TARGET"),
    ],
)
def test_removed_verbs_are_replaced(assay: Assay, call: tuple[str, ...], instead: str) -> None:
    result = assay(*call)
    assert result.returncode == 2
    assert f"was removed; {instead}" in result.stderr


def test_the_shell_completes_verbs_and_options(assay: Assay) -> None:
    asked = {"_ASSAY_COMPLETE": "bash_complete", "COMP_CWORD": "2"}
    assert assay(COMP_WORDS="assay data ch", **asked).stdout.split() == ["plain,check"]
    assert "plain,--top-k" in assay(COMP_WORDS="assay eval --top", **asked).stdout.split()
