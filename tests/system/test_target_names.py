"""What a run is called, which agent answered it, and where runs are."""

import json
import os
import subprocess
from pathlib import Path

import pytest
from tests.json_server import Answer, JsonRequest, JsonServer
from tests.system.conftest import Assay

AGENT = """
import os

asked = 0

def search(query, top_k):
    global asked
    asked += 1
    if asked > 3 and os.environ.get("CRASH"):
        os._exit(9)
    return ["d" + query.split()[-1]]
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "agent.py").write_text(AGENT)
    rows = [f"where is document {number},d{number}" for number in range(8)]
    (tmp_path / "questions.csv").write_text("\n".join(["question,ids", *rows]) + "\n")
    return tmp_path


class Search(JsonServer):
    def answer(self, request: JsonRequest) -> Answer:
        return 200, {}, {"results": [{"id": "d" + request.body.get("query", "0").split()[-1]}]}


def test_a_target_keeps_its_name_on_another_port(assay: Assay, project: Path) -> None:
    for _ in range(2):
        server = Search()
        settings = ('request = \'{"query": "{query}"}\'', 'map = ["ids=results[].id"]')
        table = ("[target.shop]", f'target = "rest:{server.url}/search"', *settings)
        (project / "assay.toml").write_text("\n".join(table) + "\n")
        with server.running():
            result = assay("eval", "shop", "--dataset", "questions.csv")
        assert result.returncode == 0, result.stderr
        assert result.stdout.startswith("shop on questions test")
    assert all("-shop-questions-" in path.name for path in (project / "runs").iterdir())
    assert {run["target"] for run in json.loads(assay("runs", "--json").stdout)} == {"shop"}


def commit(folder: Path, message: str) -> str:
    identity = {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "a"}
    environment = {**os.environ, **identity, "GIT_COMMITTER_EMAIL": "a@b"}
    command = ["git", "commit", "-q", "--allow-empty", "-m", message]
    subprocess.run(command, cwd=folder, env=environment, check=True)
    head = ["git", "rev-parse", "HEAD"]
    return subprocess.run(head, cwd=folder, capture_output=True, text=True, check=True).stdout[:8]


def test_a_run_is_not_resumed_at_another_commit(assay: Assay, project: Path) -> None:
    subprocess.run(["git", "init", "-q"], cwd=project, check=True)
    first = commit(project, "one")
    evaluate = ("eval", "python:agent:search", "--dataset", "questions.csv", "--concurrency", "1")
    assert assay(*evaluate, CRASH="1").returncode != 0
    second = commit(project, "two")
    refused = assay("eval", "--resume", "latest")
    assert refused.returncode == 2
    assert first in refused.stderr
    assert second in refused.stderr
    told = assay("eval", "python:agent:search", "--resume", "latest")
    assert told.returncode == 0, told.stderr
    assert second in told.stderr


def test_runs_is_the_folder_of_runs_in_every_verb(assay: Assay, project: Path) -> None:
    evaluate = ("eval", "python:agent:search", "--dataset", "questions.csv")
    assert assay(*evaluate, "--runs", "mine").returncode == 0
    assert assay(*evaluate, "--out", "mine").returncode == 0
    runs = json.loads(assay("runs", "--runs", "mine", "--json").stdout)
    names = [run["run"] for run in runs]
    assert len(names) == 2
    for verb in (("report",), ("compare", *names), ("export", "latest", "--format", "csv")):
        assert assay(*verb, "--runs", "mine").returncode == 0, verb


def test_a_foreign_agent_is_not_measured_on_the_bundled_notes(assay: Assay, project: Path) -> None:
    offline = {
        "NFCORPUS_ARCHIVE": "",
        "ASSAY_BEIR_URL": "http://127.0.0.1:9",
        "ASSAY_CACHE": str(project / "cache"),
    }
    foreign = assay("eval", "python:agent:search", "--num-queries", "2", **offline)
    assert foreign.returncode == 2
    assert "--dataset" in foreign.stderr
    assert not (project / "runs").exists()
