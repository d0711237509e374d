"""`assay init`: what it finds in a project, and that what it writes works."""

import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result
from tests.deploy.ci_jobs import LocalRunner, run_github_steps

from assay.cli.app import app
from assay.cli.init import find_datasets, find_function

SEARCH = """
import assay

NOTES = assay.load_dataset("notes").documents

def helper(text, mode):
    return text

def find(query: str, top_k: int) -> list[str]:
    words = set(query.lower().split())
    score = {id: len(words & set(note.full_text.lower().split())) for id, note in NOTES.items()}
    return sorted(score, key=score.get, reverse=True)[:top_k]
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a search function and a table of questions."""
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "my_search.py").write_text(SEARCH)
    (folder / "eval").mkdir()
    (folder / "eval" / "questions.csv").write_text(
        "Question,doc_ids\nWhich beans are roasted?,note-003;note-029\nWhen is it due?,note-052\n"
    )
    (folder / "eval" / "other.csv").write_text("name,price\nbeans,3\n")
    monkeypatch.chdir(folder)
    monkeypatch.delenv("ASSAY_DATASET", raising=False)
    return folder


def invoke(*words: str) -> Result:
    return CliRunner().invoke(app, words)


def init(*arguments: str) -> str:
    result = invoke("init", *arguments)
    assert result.exit_code == 0, (result.output, result.exception)
    return result.output


def settings() -> dict[str, object]:
    return tomllib.loads(Path("assay.toml").read_text())


def git(*words: str) -> None:
    subprocess.run(["git", *words], check=True, capture_output=True)


@pytest.mark.parametrize(
    ("given", "target", "package"),
    [
        ("http://h/s?q={query}&k={top_k}", "rest:http://h/s?q={query}&k={top_k}", "agent-assay"),
        ("http://h:9010", "http://h:9010", "agent-assay"),
        ("builtin:tuned#ollama", "builtin:tuned#ollama", "'agent-assay[tuned]'"),
    ],
)
def test_a_target_that_is_given_is_written_with_what_its_job_installs(
    project: Path, given: str, target: str, package: str
) -> None:
    init(given, "--ci", "github")
    assert settings()["target"] == {"app": {"target": target}}
    assert f"- run: pip install {package}\n" in Path(".github/workflows/assay.yml").read_text()


def test_a_target_that_cannot_be_one_is_refused_and_nothing_is_written(project: Path) -> None:
    result = invoke("init", "builtn:bm25")
    assert "Did you mean 'builtin:bm25'?" in str(result.exception)
    assert not (project / "assay.toml").exists()


def test_functions_and_folders_are_found_and_broken_files_passed_over(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("def rank(query, k): ...\ndef _search(query, k): ...\n")
    (tmp_path / "b.py").write_text("def search_all(q, limit): ...\n")
    (tmp_path / "broken.py").write_text("def search(query, k:\n")
    (tmp_path / "test_x.py").write_text("def search(query, k): ...\n")
    assert find_function(tmp_path) == "python:b:search_all"
    (tmp_path / "b.py").unlink()
    assert find_function(tmp_path) == "python:a:rank"
    (tmp_path / "data" / "mine" / "qrels").mkdir(parents=True)
    (tmp_path / "data" / "mine" / "queries.jsonl").write_text("")
    assert list(find_datasets(tmp_path)) == ["./data/mine"]


def test_columns_of_other_names_are_asked_for_and_kept(project: Path) -> None:
    (project / "eval" / "questions.csv").write_text("Frage;Dokumente\nWas?;note-003\n")
    assert "--columns query=NAME" in init()
    init("--columns", "query=Frage,ids=Dokumente", "--force")  # `notes` is not a given set
    assert settings()["dataset"] == "eval/questions.csv"
    result = invoke("eval", "app")
    assert "on questions test" in result.stdout, (result.output, result.exception)
    other = invoke("eval", "app", "--dataset", "notes", "--num-queries", "3")
    assert "on notes test" in other.stdout, other.exception
    pooled = invoke("judge", "pool", "latest", "--out", "pool.csv")  # of `notes`, not of the file
    assert pooled.exit_code == 0, (pooled.output, pooled.exception)
    assert (project / "pool.csv").read_text().splitlines()[1].startswith("q-0")


@pytest.mark.parametrize(
    ("remote", "is_written"),
    [
        ("https://user:pw@gitlab.example.org/github/x.git", False),
        ("git@github.com:gitlab/x.git", True),
    ],
)
def test_a_remote_of_github_gets_the_job(project: Path, remote: str, is_written: bool) -> None:
    git("init", "-q")
    git("remote", "add", "origin", remote)
    init()
    assert (project / ".github").exists() is is_written


def test_files_that_exist_are_kept_unless_forced(project: Path) -> None:
    (project / "assay.toml").write_text("# mine\n")
    said = init("--ci", "github")
    assert "assay.toml exists and was kept" in said
    assert (project / "assay.toml").read_text() == "# mine\n"
    again = invoke("init", "--ci", "github")
    assert "nothing was written" in str(again.exception)
    for number in (1, 2):
        mine = (project / "assay.toml").read_text()
        said = init("--ci", "github", "--force")
        assert f"the assay.toml before is now assay.toml.bak{number}" in said
        assert (project / f"assay.toml.bak{number}").read_text() == mine
    assert settings()["target"]


def test_the_github_job_measures_and_compares_with_main(project: Path, tmp_path: Path) -> None:
    (project / "requirements.txt").write_text("httpx\n")
    git("init", "-q", "-b", "main")
    init("--ci", "github")
    written = settings()
    assert written["dataset"] == "eval/questions.csv"
    assert written["target"] == {"app": {"target": "python:my_search:find"}}
    file = Path("assay.toml")  # a gate against a branch that has no run yet
    file.write_text(file.read_text().replace('>=0.99"', '>=0.99", "ndcg@5>=main-0.01"'))
    git("add", "-A")
    git("-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "first")
    git("checkout", "-q", "--detach")  # as runners do
    job = yaml.safe_load(Path(".github/workflows/assay.yml").read_text())["jobs"]["assay"]
    summary = tmp_path / "summary.md"
    variables = {"GITHUB_STEP_SUMMARY": str(summary), "GITHUB_REF_NAME": "main"}
    runner = LocalRunner.create(project, tmp_path / "tools", variables)
    assert run_github_steps(runner, job["steps"], {}) == 0, runner.output
    assert runner.installed == "install agent-assay -r requirements.txt\n"
    assert "compared with" not in summary.read_text()
    assert (project / "assay.html").exists()
    assert (project / "assay-junit.xml").exists()
    runner.variables = {**variables, "GITHUB_HEAD_REF": "topic"}
    assert run_github_steps(runner, job["steps"], {}) == 0, runner.output
    assert "gate passed: no regression" in runner.output
    first, second = sorted((project / "runs").iterdir())
    assert not (first / "comparison.json").exists()
    assert first.name in (second / "comparison.json").read_text()
