"""`assay.toml`: a wrong value is that file's fault, and `[target.NAME]` stands for a target."""

import os
from pathlib import Path

import pytest

from assay.cli.app import app, main
from assay.cli.settings import read_settings
from assay.errors import UsageError
from assay.run.config import named_target


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


def test_the_data_set_of_the_file_is_not_put_before_that_of_a_run(tmp_path: Path) -> None:
    (tmp_path / "assay.toml").write_text(
        'dataset = "a.csv"\ncolumns = "query=Q,ids=I"\nsplit = "dev"\n[judge.pool]\ntop_k = 3\n'
        '[merge]\ndataset = "b"\n'
    )
    values = read_settings(app, tmp_path)
    for verb in ("eval", "doctor", "score"):
        assert (values[verb,]["dataset"], values[verb,]["columns"]) == ("a.csv", ["query=Q,ids=I"])
    assert values["judge", "pool"] == {"top_k": 3}
    for own in (("init",), ("audit",), ("judge", "grade"), ("data", "info")):
        assert values[own].keys().isdisjoint({"dataset", "columns", "split"})
    assert values["merge",] == {"dataset": "b"}


def test_a_file_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


FILE = """
top_k = 3
[target.docs]
target = "rest:http://localhost:9200/{query}"
map = "ids=hits[].id"
request = { q = "{query}" }
header = ["A: b", "C: d"]
timeout = 5
[target.other]
target = "builtin:bm25"
"""


def test_a_name_stands_for_a_target_with_its_settings(tmp_path: Path) -> None:
    (tmp_path / "assay.toml").write_text(FILE)
    assert named_target("docs", tmp_path) == (
        "rest:http://localhost:9200/{query}",
        {
            "map": ("ids=hits[].id",),
            "request": '{"q": "{query}"}',
            "header": ("A: b", "C: d"),
            "timeout": 5,
        },
    )
    assert named_target("builtin:bm25", tmp_path) is named_target("", tmp_path) is None
    assert read_settings(app, tmp_path)["eval",] == {"top_k": 3}


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("dcos", FILE, "has no [target.dcos]; it has: docs, other. Did you mean 'docs'?"),
        ("x", '[target.x]\nmap = "a=b"', 'needs target = "rest:URL"'),
        ("x", '[target.x]\ntarget = "builtin:bm25"\nsize = 3', "'size' is not one of target,"),
        ("x", '[target.x]\ntarget = "builtin:bm25"\ntop_k = "x"', "must be an integer, got 'x'"),
    ],
)
def test_a_wrong_table_is_named(name: str, content: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "assay.toml").write_text(content)
    with pytest.raises(UsageError) as caught:
        named_target(name, tmp_path)
    assert words in str(caught.value)
