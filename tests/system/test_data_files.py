"""Files of questions: what people and spreadsheets write, and what they are told about it."""

import json
from pathlib import Path

import pytest
from tests.system.conftest import Assay

AGENT = "def find(query, top_k):\n    return ['KB-12', 'KB-1', 'KB-2'][:top_k]\n"


@pytest.mark.parametrize(
    ("rows", "warning"),
    [
        ("How?,KB-1 KB-2\n", "ids that look like several (write ; between ids), "),
        ("How?,#NV\n", "or like a missing value: 1, '#NV' on line 2"),
        ("Why?,KB-1\nHow?,n/a\n", "or like a missing value: 1, 'n/a' on line 3"),
        ("How?,-\n", "or like a missing value: 1, '-' on line 2"),
        ("Why?,KB-1\nHow?,kb-1\n", "two spellings, which are two documents (write them alike)"),
    ],
)
def test_doubtful_ids_are_named_with_their_line(
    assay: Assay, tmp_path: Path, rows: str, warning: str
) -> None:
    (tmp_path / "questions.csv").write_text(f"question,ids\n{rows}Sure?,KB-3\n")
    (tmp_path / "agent.py").write_text(AGENT)
    checked = assay("data", "check", "questions.csv")
    assert warning in checked.stdout
    assert " on line " in checked.stdout
    run = assay("eval", "python:agent:find", "--dataset", "questions.csv")
    assert warning in run.stderr


@pytest.mark.parametrize(
    "cell", ["KB-1;KB-2", "Vacation policy.md", "Chapter 2", "#12", "None of us"]
)
def test_usual_ids_raise_no_warning(assay: Assay, tmp_path: Path, cell: str) -> None:
    (tmp_path / "questions.csv").write_text(f"question,ids\nHow?,{cell}\n")
    assert assay("data", "check", "questions.csv", "--strict").returncode == 0


def test_a_run_says_that_returned_ids_differ_in_case_only(assay: Assay, tmp_path: Path) -> None:
    (tmp_path / "questions.csv").write_text("question,ids\nHow?,kb-12\nWhy?,KB-1\n")
    (tmp_path / "agent.py").write_text(AGENT)
    run = assay("eval", "python:agent:find", "--dataset", "questions.csv")
    assert "'KB-12' is expected as 'kb-12'" in " ".join(run.stderr.split())


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        (
            "questions.xlsx",
            b"PK\x03\x04",
            "is a workbook, which is not read; save the sheet as CSV",
        ),
        ("questions.csv", b"", "is empty; it needs a header and at least one row"),
        ("questions.csv", None, "questions.csv: no such file"),
    ],
)
@pytest.mark.parametrize("verb", [("data", "check"), ("eval", "builtin:bm25", "--dataset")])
def test_a_file_that_cannot_be_questions_is_named_for_what_it_is(
    assay: Assay, tmp_path: Path, name: str, content: bytes | None, said: str, verb: tuple[str, ...]
) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    result = assay(*verb, name)
    assert result.returncode in (1, 2)
    assert said in result.stdout + result.stderr
    assert "BEIR" not in result.stdout + result.stderr


def test_rows_of_separators_are_blank(assay: Assay, tmp_path: Path) -> None:
    (tmp_path / "questions.csv").write_text("Frage;Seiten\nWie?;KB-1\n;\n;;;\nWo?;KB-2\n;;\n")
    checked = assay("data", "check", "questions.csv", "--columns", "query=Frage,ids=Seiten")
    assert checked.returncode == 0, checked.stdout
    assert "2 queries" in checked.stdout


def test_init_keeps_a_copy_of_what_it_overwrites(assay: Assay, tmp_path: Path) -> None:
    settings = tmp_path / "assay.toml"
    for number, mine in enumerate(("# mine\n", "# mine again\n"), start=1):
        settings.write_text(mine)
        result = assay("init", "builtin:bm25", "--dataset", "notes", "--ci", "none", "--force")
        assert result.returncode == 0, result.stderr
        assert f"the assay.toml before is now assay.toml.bak{number}" in result.stderr
        assert (tmp_path / f"assay.toml.bak{number}").read_text() == mine
    assert "builtin:bm25" in settings.read_text()


@pytest.mark.parametrize("words", [("eval", "app", "--json"), ("eval", "--json")])
def test_settings_are_found_in_a_folder_above(
    assay: Assay, tmp_path: Path, words: tuple[str, ...]
) -> None:
    (tmp_path / "questions.csv").write_text("question,ids\nHow?,KB-12\n")
    (tmp_path / "agent.py").write_text(AGENT)
    (tmp_path / "assay.toml").write_text(
        'dataset = "questions.csv"\n[eval]\ntarget = "app"\nout = "results"\ntop_k = 2\n'
        '[target.app]\ntarget = "python:agent:find"\n'
    )
    below = tmp_path / "src" / "deep"
    below.mkdir(parents=True)
    result = assay(*words, cwd=below)
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout)["summary"]["mean_ndcg_at_2"] == 1.0
    assert len(list((tmp_path / "results").iterdir())) >= 1
