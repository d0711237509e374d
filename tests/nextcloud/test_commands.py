"""`assay nextcloud ...` as users start it: a process of its own, which can be killed."""

import json
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests import forked
from tests.nextcloud.notes_server import PASSWORD, USER, NotesServer
from tests.system.running import environment as clean_environment

Run = Callable[..., "subprocess.CompletedProcess[str]"]
COUNT = 60


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    tiny = tmp_path / "tiny"
    (tiny / "qrels").mkdir(parents=True)
    lines = [{"_id": f"d{n}", "title": f"Title {n}", "text": f"Word{n}."} for n in range(COUNT)]
    (tiny / "corpus.jsonl").write_text("\n".join(map(json.dumps, lines)))
    (tiny / "queries.jsonl").write_text('{"_id": "q0", "text": "Word0"}')
    (tiny / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq0\td0\t1\n")
    (tmp_path / "finder.py").write_text("def found(query, top_k):\n    return ['d0']\n")
    return tmp_path


@pytest.fixture
def environment(server: NotesServer, tmp_path: Path) -> dict[str, str]:
    account = {"NEXTCLOUD_HOST": server.url, "NEXTCLOUD_USERNAME": USER}
    places = {"ASSAY_CACHE": str(tmp_path / "cache"), "NO_COLOR": "1"}
    return clean_environment(**account, **places, NEXTCLOUD_PASSWORD=PASSWORD)


@pytest.fixture
def run(folder: Path, environment: dict[str, str]) -> Run:
    def run(*arguments: str, **variables: str) -> "subprocess.CompletedProcess[str]":
        env = {**environment, **variables}
        return forked.run(forked.ASSAY, "nextcloud", *arguments, cwd=folder, env=env)

    return run


def settled(server: NotesServer) -> int:
    """How many notes there are once the requests that were under way have been served."""
    before = -1
    while before != len(server.notes):
        before = len(server.notes)
        time.sleep(0.5)
    return before


@pytest.mark.slow
def test_an_upload_that_was_killed_goes_on_and_makes_no_note_twice(
    server: NotesServer, folder: Path, environment: dict[str, str], run: Run
) -> None:
    server.hold_after = 20  # notes are made from then on, and their maker never hears of it
    upload = (forked.ASSAY, "nextcloud", "upload", "--dataset", "tiny")
    with forked.started(*upload, cwd=folder, env=environment):
        assert server.held.wait(60)
    # left by killing it
    made = settled(server)
    assert 20 < made < COUNT
    server.hold_after = None
    done = run("upload", "--dataset", "tiny", "--json")
    report = json.loads(done.stdout)
    assert (done.returncode, report["created"]) == (0, COUNT - made)
    assert report["unchanged"] == made
    assert server.titles() == sorted(f"[d{n}] Title {n}" for n in range(COUNT))
    mapping = json.loads((folder / "note_mapping.json").read_text())
    assert sorted(mapping.values()) == sorted(server.notes)


@pytest.mark.slow
def test_from_upload_to_cleanup(server: NotesServer, folder: Path, run: Run) -> None:
    uploaded = run("upload", "--dataset", "tiny")
    assert uploaded.returncode == 0, uploaded.stderr
    assert "documents 60 created 60" in " ".join(uploaded.stdout.split())
    waited = run("upload", "--dataset", "tiny", "--wait", "builtin:bm25", "--json")
    assert waited.returncode == 0, waited.stderr
    report = json.loads(waited.stdout)
    assert (report["unchanged"], report["wait"]["found"]) == (60, 20)
    refused = run("cleanup")
    assert (refused.returncode, len(server.notes)) == (2, 60)
    assert "60 notes of category 'nfcorpus_rag_eval'" in refused.stderr
    assert json.loads(run("cleanup", "--force", "--json").stdout)["deleted"] == 60
    assert not server.notes
    assert not (folder / "note_mapping.json").exists()


def test_waiting_in_vain_ends_with_1_and_a_nextcloud_that_is_not_there_with_3(run: Run) -> None:
    options = ("--wait", "python:finder:found", "--timeout", "0.5")
    done = run("upload", "--dataset", "tiny", *options)
    assert done.returncode == 1
    assert "20 documents are not found after " in done.stderr
    done = run("upload", "--dataset", "tiny", NEXTCLOUD_HOST="http://127.0.0.1:9")
    assert (done.returncode, "cannot be reached" in done.stderr) == (3, True)
