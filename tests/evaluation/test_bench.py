"""`assay bench`: suites, resuming, failures of single runs, and the figures over data sets."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from assay.cli.app import app
from assay.errors import UsageError
from assay.evaluation.bench import SUITES, find_bench, rank_systems, read_suite

_AGENTS = """
import os
def good(query, top_k): return ["note-%d" % n for n in range(1, top_k + 1)]
def bad(query, top_k): return []
def broken(query, top_k): raise RuntimeError("down")
def limited(query, top_k):
    with open("asked", "a") as log: log.write("x")
    return ["note-1"]
"""

_QUESTIONS = "query,doc_ids\nalpha,note-1\nbeta,note-2;note-3\ngamma,note-9\n"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "bench_agents.py").write_text(_AGENTS)
    (tmp_path / "one.csv").write_text(_QUESTIONS)
    (tmp_path / "two.csv").write_text(_QUESTIONS.replace("note-9", "note-4"))
    return tmp_path


def _suite(folder: Path, targets: str, more: str = "") -> str:
    path = folder / "mine.toml"
    path.write_text(
        f'[options]\ntop_k = 5\nwarm_up = 0\n[targets]\n{targets}\n[datasets]\none = "one.csv"\n'
        f'two = {{ dataset = "two.csv" }}\n{more}'
    )
    return str(path)


def _bench(*arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, ["bench", *arguments])
    return result.exit_code, result.stdout, result.stderr


def test_every_target_meets_every_data_set(project: Path) -> None:
    suite = _suite(project, 'good = "python:bench_agents:good"\nbad = "python:bench_agents:bad"')
    code, out, err = _bench(suite, "--json")
    report = json.loads(out)
    assert code == 0, err
    assert [each["name"] for each in report["systems"]] == ["good", "bad"]
    assert [(each["system"], each["dataset"]) for each in report["cells"]] == [
        ("good", "one"),
        ("bad", "one"),
        ("good", "two"),
        ("bad", "two"),
    ]
    means = [each["mean"] for each in report["cells"] if each["system"] == "good"]
    assert report["systems"][0]["mean"] == pytest.approx(sum(means) / 2)


def test_a_run_that_fails_leaves_the_others(project: Path) -> None:
    targets = 'good = "python:bench_agents:good"\nlost = "rest:http://127.0.0.1:9/?q={query}"'
    suite = _suite(project, targets, 'gone = "gone.csv"\n')
    code, out, err = _bench(suite)
    assert code == 3
    assert "good on gone: gone.csv: no such file" in err
    assert "lost on one was not measured" in out.replace("\n", " ")
    assert "assay bench --resume" in err
    report = json.loads(next(project.glob("runs/*/bench.json")).read_text())
    assert [each["mean"] for each in report["systems"]] == [None, None]
    measured = {each["dataset"] for each in report["cells"] if each["mean"] is not None}
    assert measured == {"one", "two"}


def test_a_bench_is_found_by_path_name_or_as_the_latest(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="create one with: assay bench SUITE"):
        find_bench("latest", tmp_path)
    names = "20260101-000000-bench-quick", "20260102-000000-bench-quick"
    for name in names:
        (tmp_path / name).mkdir()
        (tmp_path / name / "suite.toml").touch()
    assert find_bench("latest", tmp_path).name == names[1]
    assert find_bench(names[0], tmp_path).name == names[0]
    assert find_bench(str(tmp_path / names[0]), tmp_path / "elsewhere").name == names[0]


def test_what_was_measured_is_not_asked_again(project: Path) -> None:
    suite = _suite(project, 'limited = "python:bench_agents:limited"')
    assert _bench(suite)[0] == 0
    (project / "mine.toml").unlink()  # the bench keeps its own copy
    (project / "one.csv").rename(project / "gone.csv")
    code, out, err = _bench("--resume", "latest")
    assert code == 0, err
    assert len((project / "asked").read_text()) == 6
    assert out.count("limited") == 1


ONE = '[targets]\na = "builtin:bm25"\n'
NOTES = '[datasets]\nn = "notes"'


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("targets = 3", "'targets' is wrong"),
        ("top_k = 3", "'top_k' is wrong"),
        (ONE, "'datasets' is wrong or missing"),
        (f"[targets]\na = {{ top_k = 3 }}\n{NOTES}", 'needs target = "..."'),
        (f"[targets]\na = 3\n{NOTES}", "a string or a table of options"),
        (
            f'[targets]\na = {{ target = "builtin:bm25", seed = 5 }}\n{NOTES}',
            "'seed' does not belong",
        ),
        (f'[options]\ntag = ["x=1"]\n{ONE}{NOTES}', "'tag' does not belong here"),
        (f'metric = "ndcg@20"\n{ONE}{NOTES}', "nDCG@20 is not measured with top_k 5"),
        ("[targets", "is not a suite"),
    ],
)
def test_mistakes_in_a_suite_are_named(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "suite.toml"
    path.write_text(text)
    with pytest.raises(UsageError) as error:
        read_suite(path)
    assert words in str(error.value)
    assert str(path) in str(error.value)


@pytest.mark.parametrize("path", sorted(SUITES.glob("*.toml")), ids=lambda path: path.stem)
def test_shipped_suites_can_be_read(path: Path) -> None:
    assert read_suite(path).cells


def test_equal_systems_share_their_ranks() -> None:
    scores = {f"q{n}": n % 2 / 1 for n in range(40)}
    systems = rank_systems({"a": "x", "b": "y"}, ["d"], {("a", "d"): scores, ("b", "d"): scores})
    assert [each.ranks for each in systems] == ["1–2", "1–2"]
