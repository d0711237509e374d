"""Options of the last release still work, with one line that names today's."""

import json
from pathlib import Path

import pytest
from tests.system.conftest import Assay

from assay.run.config import RunConfig

FACT = {"text": "at 7", "importance": "vital"}


def test_the_parameters_of_bm25_have_one_option(assay: Assay, tmp_path: Path) -> None:
    old = ("search", "frost", "--dataset", "notes", "--mode", "bm25", "--json")
    earlier = assay(*old, "--bm25-k1", "0.5", "--bm25-title-weight=1")
    today = assay(*old, "--bm25", "k1=0.5,title_weight=1")
    assert earlier.returncode == today.returncode == 0
    assert earlier.stdout == today.stdout
    assert earlier.stderr.count("--bm25-k1 is now --bm25 k1=VALUE") == 1
    assert "warning" not in today.stderr
    assert assay(*old).stdout != today.stdout


def test_reference_answers_and_facts_have_one_option(assay: Assay, tmp_path: Path) -> None:
    lines = [
        {"query_id": "1", "query": "When?", "answer": "At 7.", "facts": [FACT]},
        {"query_id": "2", "query": "Where?", "facts": [{**FACT, "text": "in Riga"}]},
    ]
    (tmp_path / "references.jsonl").write_text("\n".join(map(json.dumps, lines)))
    rows = [{"id": "1", "question": "When?", "answer": "At 7."}]
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    old = assay("score", "rows.jsonl", "--nuggets", "references.jsonl", "--json")
    new = assay("score", "rows.jsonl", "--references", "references.jsonl", "--json")
    assert old.returncode == new.returncode == 0, new.stderr
    assert old.stdout == new.stdout
    assert json.loads(new.stdout)["answers"]["metrics"]["nugget_recall"] == 1.0
    assert old.stderr.count("--nuggets is now --references VALUE") == 1


def test_a_file_of_references_may_hold_answers_and_facts(assay: Assay, tmp_path: Path) -> None:
    questions = [{"query": f"Which town is number {n}?", "doc_ids": "d"} for n in range(3)]
    (tmp_path / "questions.jsonl").write_text("\n".join(map(json.dumps, questions)))
    (tmp_path / "agent.py").write_text(
        "def answer(query, top_k):\n"
        "    return {'doc_ids': ['d'], 'answer': 'It is ' + query[21:-1]}"
    )
    run = ("eval", "python:agent:answer", "--dataset", "questions.jsonl", "--answers", "--json")
    ids = [row["query_id"] for row in json.loads(assay(*run).stdout)["per_query_results"]]
    lines = [
        {"query_id": name, "answer": "It is it.", "facts": [{**FACT, "text": f"It is {n}"}]}
        for n, name in enumerate(ids)
    ]
    (tmp_path / "references.jsonl").write_text("\n".join(map(json.dumps, lines)))
    done = assay(*run, "--references", "references.jsonl")
    assert done.returncode == 0, done.stderr
    answers = json.loads(done.stdout)["answers"]
    assert answers["nuggets"]["nuggets"] == 3
    assert answers["metrics"]["nugget_recall"] == 1.0


def test_the_folder_of_runs_may_be_named_as_before(assay: Assay, tmp_path: Path) -> None:
    listed = assay("runs", "--out", "a,b", "--json")
    assert (listed.returncode, listed.stdout) == (
        0,
        assay("runs", "--runs", "a,b", "--json").stdout,
    )
    assert "--out is now --runs VALUE" in listed.stderr
    assert "is now" not in assay("merge", "x", "--out", "a").stderr


def test_planted_documents_have_one_option(assay: Assay, tmp_path: Path) -> None:
    run = ("eval", "builtin:bm25", "--dataset", "notes", "--num-queries", "2", "--json")
    bare = json.loads(assay(*run[:1], "--poison", *run[1:]).stdout)["answers"]["poison"]
    assert len(bare["kinds"]) == 4
    old = assay(*run, "--poison", "--poison-kind", "override")
    assert list(json.loads(old.stdout)["answers"]["poison"]["kinds"]) == ["override"]
    assert old.stderr.count("--poison-kind is now --poison VALUE") == 1


def test_the_judge_has_one_option_for_its_settings(assay: Assay, tmp_path: Path) -> None:
    rows = [{"id": "1", "question": "When?", "answer": "At 7.", "reference": "At 7."}]
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    words = ("score", "rows.jsonl", "--judge", "openai:m@http://127.0.0.1:9/v1")
    for old, new in (
        (("--judge-votes", "0"), ("--judge-set", "votes=0")),
        (("--require-calibrated", "--judge-timeout=0"), ("--judge-set", "timeout=0")),
    ):
        earlier, today = assay(*words, *old), assay(*words, *new)
        assert earlier.returncode == today.returncode == 2
        assert earlier.stderr.splitlines()[-1] == today.stderr.splitlines()[-1]
        assert f"{old[0]} is now --judge-set" in earlier.stderr


def test_an_old_key_of_the_settings_file_is_answered_with_todays(
    assay: Assay, tmp_path: Path
) -> None:
    (tmp_path / "assay.toml").write_text("[eval]\njudge_votes = 0\n")
    done = assay("eval", "builtin:bm25", "--dataset", "notes")
    assert done.returncode == 2
    assert "'judge_votes' is not an option; write --judge-set votes=VALUE" in done.stderr


def test_the_index_belongs_to_the_preset(assay: Assay, tmp_path: Path) -> None:
    words = ("doctor", "rest:http://127.0.0.1:9", "--timeout", "1", "--json")
    old = assay(*words, "--preset", "solr", "--index", "docs")
    new = assay(*words, "--preset", "solr:docs")
    assert (old.returncode, old.stdout) == (new.returncode, new.stdout)
    assert old.stderr.count("--index is now --preset NAME:VALUE") == 1


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


def test_the_method_belongs_to_the_target(assay: Assay, tmp_path: Path) -> None:
    words = ("--timeout", "1", "--json")
    old = assay("doctor", "rest:http://127.0.0.1:9/{query}", "--method", "PUT", *words)
    new = assay("doctor", "rest:PUT http://127.0.0.1:9/{query}", *words)
    assert (old.returncode, old.stdout) == (new.returncode, new.stdout)
    assert "--method NAME is now part of the target" in old.stderr


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
