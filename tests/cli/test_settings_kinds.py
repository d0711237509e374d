"""A value of the wrong kind in assay.toml is that file's fault, and the message says so."""

import os
from pathlib import Path

import pytest

from assay.cli.app import app, main
from assay.cli.settings import read_settings
from assay.errors import UsageError


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('num_queries = "five"', "assay.toml: 'num_queries': 'five'"),
        ("[eval]\ntop-k = 2.5", "assay.toml: 'top_k': '2.5'"),
        ("timeout = [1, 2]", "assay.toml: 'timeout' takes one value"),
        ('[serve.green]\nconcurrency = "x"', "assay.toml: 'concurrency': 'x'"),
        ("top_k = ", "assay.toml is not TOML"),
        ("colour = 1", "'colour' is not an option"),
        ("[evil]\ntop_k = 1", "unknown command 'evil'"),
        ("[serve.pink]\nmode = 1", "unknown command 'pink'"),
        ("[serve.purple]\ntop_k = 1", "[serve.purple] 'top_k' is not an option"),
    ],
)
def test_a_wrong_file_is_named_with_its_key(content: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "assay.toml").write_text(content)
    with pytest.raises(UsageError) as refusal:
        read_settings(app, tmp_path)
    assert message in str(refusal.value)


def test_values_of_the_right_kind_are_taken(tmp_path: Path) -> None:
    content = 'max_cost = 1\nseed = "7"\ndataset = "5"\n[ground-truth]\nresume = true\n'
    (tmp_path / "assay.toml").write_text(content)
    values = read_settings(app, tmp_path)[("ground-truth",)]
    assert values == {"max_cost": 1, "seed": "7", "dataset": "5", "resume": True}


def test_the_data_set_of_the_file_is_not_put_before_that_of_a_run(tmp_path: Path) -> None:
    content = (
        'dataset = "a.csv"\ncolumns = "query=Q,ids=I"\nsplit = "dev"\n[judge.pool]\ntop_k = 3\n'
    )
    (tmp_path / "assay.toml").write_text(content + '[merge]\ndataset = "b"\n')
    values = read_settings(app, tmp_path)
    for verb in ("eval", "doctor", "score"):
        assert (values[verb,]["dataset"], values[verb,]["columns"]) == ("a.csv", ["query=Q,ids=I"])
    assert values["judge", "pool"] == {"top_k": 3}
    for own in (("init",), ("audit",), ("judge", "grade"), ("data", "info")):
        assert values[own].keys().isdisjoint({"dataset", "columns", "split"})
    assert values["merge",] == {"dataset": "b"}


def test_a_file_of_another_user_in_a_folder_of_all_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "assay.toml").write_text('[eval]\ntarget = "python:theirs:search"\n')
    monkeypatch.setattr("os.getuid", lambda: 1234)
    owner = (tmp_path / "assay.toml").stat()
    monkeypatch.setattr(
        Path, "stat", lambda path, **_: os.stat_result((*os.lstat(path)[:4], 77, *owner[5:]))
    )
    assert read_settings(app, tmp_path)["eval",]["target"] == "python:theirs:search"
    tmp_path.chmod(0o1777)
    with pytest.raises(UsageError, match="belongs to another user"):
        read_settings(app, tmp_path)


@pytest.mark.parametrize("verb", [("runs",), ("doctor", "--json"), ("data", "list"), ("--help",)])
def test_looking_runs_nothing_that_the_file_of_a_foreign_folder_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verb: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    Path("theirs.py").write_text("from pathlib import Path\nPath('executed').touch()\n")
    Path("assay.toml").write_text(
        '[eval]\ntarget = "python:theirs:search"\nlistener = "theirs:Listener"\n'
        '[target.theirs]\ntarget = "python:theirs:search"\n'
    )
    monkeypatch.setattr("sys.argv", ["assay", *verb])
    with pytest.raises(SystemExit):
        main()
    assert not Path("executed").exists()
