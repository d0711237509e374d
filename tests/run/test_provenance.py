"""Where a run comes from is in `run.json`, and never stands in a run's way."""

import os
import stat
import subprocess
from datetime import UTC, datetime, tzinfo
from pathlib import Path

import orjson
import pytest
from click.testing import CliRunner
from tests.tiny_dataset import tiny_dataset

from assay import evaluate
from assay.cli.app import app
from assay.errors import UsageError
from assay.run.config import RunConfig
from assay.run.listing import RunLine, parse_search
from assay.run.models import GitRecord
from assay.run.provenance import read_git

NO_VARIABLES = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": "/nonexistent"}


def git(folder: Path, *arguments: str) -> None:
    identity = ("-c", "user.name=A", "-c", "user.email=a@example.com")
    subprocess.run(["git", *identity, *arguments], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "repository"
    folder.mkdir()
    git(folder, "init", "--quiet", "--initial-branch=tuning")
    (folder / "code.py").write_text("x = 1\n")
    git(folder, "add", "code.py")
    git(folder, "commit", "--quiet", "-m", "first")
    git(folder, "remote", "add", "origin", "https://me:s3cret@git.example.com/team/search.git")
    return folder


def right(query: str, top_k: int) -> list[str]:
    return [f"d{query.split()[1]}"]


def test_a_run_records_its_origin(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(repository)
    run = evaluate(
        right, tiny_dataset(5), label="bm25", tags={"chunks": "512"}, note="a first try", out="runs"
    )
    header = orjson.loads(run.folder.header_file.read_bytes())
    assert len(header["git"].pop("commit")) == 40
    assert header["git"] == {
        "branch": "tuning",
        "dirty": False,  # the run's own folder is untracked and no change
        "remote": "https://git.example.com/team/search.git",
    }
    assert header["machine"]["cpus"] >= 1
    assert (header["label"], header["tags"], header["note"]) == (
        "bm25",
        {"chunks": "512"},
        "a first try",
    )
    assert b"s3cret" not in run.folder.header_file.read_bytes()


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("git@git.example.com:team/search.git", "git.example.com:team/search.git"),
        ("ssh://git:pw@git.example.com/team/x", "ssh://git.example.com/team/x"),
        ("https://tok3n@git.example.com/x?key=1", "https://git.example.com/x"),
    ],
)
def test_a_remote_has_no_credentials(repository: Path, address: str, shown: str) -> None:
    git(repository, "remote", "set-url", "origin", address)
    found = read_git(repository, environment=NO_VARIABLES)
    assert found
    assert found.remote == shown


def test_a_branch_is_known_without_a_commit_and_in_ci(repository: Path, tmp_path: Path) -> None:
    git(repository, "checkout", "--quiet", "--detach")
    in_ci = {**NO_VARIABLES, "GITHUB_HEAD_REF": "fix-7"}
    alone = [read_git(repository, environment=each) for each in (NO_VARIABLES, in_ci)]
    assert [each and each.branch for each in alone] == [None, "fix-7"]
    (tmp_path / "new").mkdir()
    git(tmp_path / "new", "init", "--quiet", "--initial-branch=main")
    assert read_git(tmp_path / "new", environment=NO_VARIABLES) == GitRecord(
        commit=None, branch="main", dirty=False, remote=None
    )


def test_without_git_repository_folder_or_time(tmp_path: Path, repository: Path) -> None:
    plain = tmp_path / "plain"
    plain.mkdir()
    assert read_git(plain, environment=NO_VARIABLES) is None
    assert read_git(repository, environment={"PATH": str(plain)}) is None
    assert read_git(tmp_path / "gone", environment=NO_VARIABLES) is None
    slow = plain / "git"
    slow.write_text("#!/bin/sh\nexec /bin/sleep 60\n")
    slow.chmod(slow.stat().st_mode | stat.S_IXUSR)
    assert read_git(repository, environment={"PATH": str(plain)}, seconds=0.1) is None


def test_the_repository_names_no_program_that_is_started(repository: Path, tmp_path: Path) -> None:
    hook = tmp_path / "hook"
    hook.write_text(f"#!/bin/sh\ntouch {tmp_path}/started\n")
    hook.chmod(0o755)
    git(repository, "config", "core.fsmonitor", str(hook))
    assert read_git(repository, environment=NO_VARIABLES) is not None
    git(repository, "config", "--unset", "core.fsmonitor")
    # Files whose times changed are read by `git status`, and filtered before they are compared.
    (repository / ".git" / "info" / "attributes").write_text("* filter=any\n")
    (repository / ".git" / "more").write_text(f'[filter "any"]\n\tclean = {hook}\n')
    git(repository, "config", "include.path", "more")
    for path in repository.glob("*.*"):
        os.utime(path, (5, 5))
    found = read_git(repository, environment=NO_VARIABLES)
    assert found is not None
    assert found.dirty is None
    assert not (tmp_path / "started").exists()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"tags": ("chunks",)}, "tag 'chunks' must be KEY=VALUE"),
        ({"tags": ("a=1", "a=2")}, "tag 'a=2' must be KEY=VALUE with a key that no other tag has"),
        ({"label": "a\nb"}, "label 'a\\nb' must be one line of at most 200 characters"),
    ],
)
def test_a_wrong_label_or_tag_is_refused(settings: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        RunConfig(target="x", **settings)  # type: ignore[arg-type]
    assert message in str(caught.value)


def test_runs_are_listed_by_their_origin(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dataset = tiny_dataset(5)
    monkeypatch.chdir(repository)
    good = evaluate(right, dataset, label="good", tags={"chunks": "512"}, out="runs")
    git(repository, "checkout", "--quiet", "-b", "other")
    bad = evaluate(lambda query, top_k: [], dataset, gates="ndcg@5>=0.5", label="bad", out="runs")

    def listed(*options: str) -> list[str]:
        done = CliRunner().invoke(app, ["runs", "--json", *options])
        assert done.exit_code == 0, done.output
        return [row["run"] for row in orjson.loads(done.stdout)]

    assert listed("--label", "good") == [good.name]
    assert listed("--branch", "other") == listed("--failed") == [bad.name]
    assert listed("--since", "1d", "--sort", "score") == [good.name, bad.name]
    assert listed("--since", "2999-01-01") == []
    none = CliRunner().invoke(app, ["runs", "--label", "x"]).stdout
    assert none == "No run in runs matches (2 without these options).\n"


@pytest.mark.parametrize("since", ["7d", "168h", "2026-11-08", "2026-11-08T02:00:00+02:00"])
def test_since_is_a_time_or_an_age(since: str, monkeypatch: pytest.MonkeyPatch) -> None:
    class Clock(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> "Clock":
            return cls(2026, 11, 15, tzinfo=tz)

    monkeypatch.setattr("assay.run.listing.datetime", Clock)
    started = datetime(2026, 11, 8, tzinfo=UTC).timestamp()
    lines = [RunLine(str(n), "complete", moment=started + n) for n in (-1, 0, 1)]
    found = parse_search(f"since:{since}")
    assert [line.name for line in lines if found(line)] == ["0", "1"]
