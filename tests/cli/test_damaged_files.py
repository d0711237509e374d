"""Files of a run that were cut, edited or lost: told by every verb and page."""

import io
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import chdir, redirect_stderr, redirect_stdout
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from starlette.testclient import TestClient
from tests.tiny_dataset import tiny_dataset

from assay import compare_runs, evaluate_agent
from assay.cli.app import app
from assay.data.beir import write_beir
from assay.data.dataset import Fact, ReferenceAnswer
from assay.errors import AssayError, RunError
from assay.run.folder import RunFolder
from assay.serve.ui.app import ui_app

TARGET = """
def right(query, top_k):
    number = int(query.split()[1])
    found = [f"d{number}", f"d{number + 1}"]
    return {"doc_ids": found, "answer": f"It is text {number} [d{number}].", "citations": found[:1]}

def worse(query, top_k):
    if query.endswith("3"):
        raise ValueError("broken")
    return {"doc_ids": ["d0", "d0", "nowhere"], "answer": None}
"""
FILES = ("report.json", "run.json", "comparison.json", "answers.jsonl", "calls.jsonl")
FUZZING = "ASSAY_FUZZ" in os.environ
# A busy machine; it takes seconds of processor time.
pytestmark = pytest.mark.timeout(0 if FUZZING else 600)
# Each example asks every verb and page, for half a second; `make fuzz` draws many.
EXAMPLES = int(os.environ.get("ASSAY_FUZZ", "8"))
STRANGE: tuple[Any, ...] = (None, True, -1, 10**30, 0.5, "", "x\x1b[2J", [], [[]], {}, {"x": None})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Holds two runs with answers, `whole/a` and `whole/b`; `b` was compared with `a`."""
    folder = tmp_path_factory.mktemp("damaged")
    (folder / "mended_target.py").write_text(TARGET)
    answers = {
        f"q{i}": ReferenceAnswer(
            f"q{i}", f"text {i}", (Fact(f"text {i}", (f"text {i}",)),), (f"d{i}",)
        )
        for i in range(8)
    }
    write_beir(replace(tiny_dataset(8), answers=answers), folder / "tiny")
    (folder / "whole").mkdir()
    whole = folder / "whole"
    with chdir(folder):
        for name, function in (("a", "worse"), ("b", "right")):
            target = f"python:mended_target:{function}"
            done = evaluate_agent(target, "tiny", out="made", answers=True, gates=("mrr@5>0.1",))
            done.folder.path.rename(whole / name)
        RunFolder(whole / "b").write_comparison(compare_runs(whole / "a", whole / "b"))
    return folder


@pytest.fixture
def runs(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(folder)
    monkeypatch.setenv("NO_COLOR", "1")
    return tmp_path / "runs"


def fresh(folder: Path, runs: Path) -> Path:
    shutil.rmtree(runs, ignore_errors=True)
    for name in ("a", "b"):
        shutil.copytree(folder / "whole" / name, runs / name)
    return runs / "b"


def verbs(runs: Path) -> Iterator[tuple[str, ...]]:
    html = ("--html", str(runs / "page.html"))
    for verb in (
        *(("runs",), ("runs", "--json"), ("report", "b"), ("report", "b", "--json")),
        *(("report", "b", *html), ("compare", "a", "b"), ("compare", "b", "a", *html)),
        *(("export", "b", "--format", "jsonl"), ("merge", "b")),
        ("eval", "--resume", "b", "--retries", "0"),
    ):
        yield (*verb, "--runs", str(runs))
    yield ("audit", str(runs / "b" / "report.json"), "--dataset", "tiny")


def outcome(arguments: tuple[str, ...]) -> str:
    """What a verb wrote, or what it complained of; anything but an AssayError is a bug."""
    stdout, stderr = io.TextIOWrapper(io.BytesIO()), io.StringIO()
    with redirect_stdout(stdout), redirect_stderr(stderr):
        try:
            app(list(arguments), standalone_mode=False)
        except AssayError as error:
            return f"error: {error}"
        except click.exceptions.Exit:
            pass
    stdout.seek(0)
    return stdout.read() + stderr.getvalue()


def pages(runs: Path) -> list[int]:
    paths = (
        *("/", "/runs/b", "/runs/b/report.html", "/runs/b?tab=queries", "/runs/b?tab=answers"),
        *("/compare?run=a&run=b", "/?view=groups", "/?view=board"),
    )
    with TestClient(ui_app(runs), base_url="http://127.0.0.1") as client:
        return [client.get(path).status_code for path in paths]


def places(value: Any, here: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, each in items:
        yield (*here, key)
        if isinstance(each, dict | list):
            yield from places(each, (*here, key))


def change(value: Any, place: tuple[Any, ...], new: Any, *, delete: bool) -> None:
    for key in place[:-1]:
        value = value[key]
    if delete:
        del value[place[-1]]
    else:
        value[place[-1]] = new


def survives(runs: Path) -> None:
    for arguments in verbs(runs):
        outcome(arguments)
    assert max(pages(runs)) < 500


def test_whole_files_are_shown_by_every_verb_and_page(folder: Path, runs: Path) -> None:
    """Else the tests below would have nothing to look at."""
    fresh(folder, runs)
    for arguments in verbs(runs):
        assert "damaged" not in outcome(arguments), arguments
    assert set(pages(runs)) == {200}


def test_a_report_without_its_version_is_shown(folder: Path, runs: Path) -> None:
    file = fresh(folder, runs) / "report.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"versions": {}}))
    survives(runs)


@settings(
    max_examples=2 * EXAMPLES,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(data=st.data())
@pytest.mark.slow
def test_no_key_is_lost_or_replaced_and_no_file_cut_to_a_traceback(
    folder: Path, runs: Path, data: st.DataObject
) -> None:
    file = fresh(folder, runs) / data.draw(st.sampled_from(FILES))
    content = file.read_text()
    if data.draw(st.booleans()):
        content = content[: data.draw(st.integers(0, len(content) - 1))]
    else:
        lines = [content] if file.suffix == ".json" else content.splitlines()
        number = data.draw(st.integers(0, len(lines) - 1))
        value = json.loads(lines[number])
        place = data.draw(st.sampled_from(list(places(value))))
        new = data.draw(st.sampled_from(STRANGE))
        change(value, place, new, delete=data.draw(st.booleans()))
        lines[number] = json.dumps(value)
        content = "\n".join(lines) + "\n"
    file.write_text(content)
    survives(runs)


@pytest.mark.parametrize(
    ("name", "place", "message"),
    [
        ("report.json", ("summary", "total_queries"), "summary.total_queries: Field required"),
        ("report.json", ("per_query_results", 0, "query_id"), "row 1: query_id: Field required"),
        ("comparison.json", ("metrics",), "metrics: Field required; delete it, or recreate it"),
        ("run.json", ("dataset", "fingerprint"), "dataset.fingerprint: Field required; restore it"),
    ],
)
def test_damage_is_named_by_file_and_place_with_a_remedy(
    folder: Path, runs: Path, name: str, place: tuple[Any, ...], message: str
) -> None:
    run = fresh(folder, runs)
    value = json.loads((run / name).read_text())
    change(value, place, None, delete=True)
    (run / name).write_text(json.dumps(value))
    read = RunFolder(run).read_config if name == "run.json" else RunFolder(run).validate
    with pytest.raises(RunError, match=rf"{name} is damaged: .*{message}"):
        read()


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    ("name", "verb"),
    [
        ("report.json", ("report", "b")),
        ("comparison.json", ("report", "b")),
        ("answers.jsonl", ("report", "b", "--json")),
        ("calls.jsonl", ("eval", "--resume", "b")),
        ("run.json", ()),
        ("report.html", ()),
    ],
)
def test_a_pipe_in_place_of_a_file_blocks_no_verb_and_no_page(
    folder: Path, runs: Path, name: str, verb: tuple[str, ...]
) -> None:
    run = fresh(folder, runs)
    (run / name).unlink(missing_ok=True)
    os.mkfifo(run / name)
    if verb:
        said = outcome((*verb, "--runs", str(runs)))
        assert f"{run / name}: cannot be read: it is not a regular file" in said
    survives(runs)


def test_a_link_in_a_run_leads_no_writer_to_another_file(folder: Path, runs: Path) -> None:
    run = fresh(folder, runs)
    others = runs / "precious.txt"
    others.write_text("without an end of line")
    for name in ("calls.jsonl", ".rows.part", "report.json"):
        (run / name).unlink(missing_ok=True)
        (run / name).symlink_to(others)
    outcome(("eval", "--resume", "b", "--out", str(runs)))
    (run / "calls.jsonl").unlink()
    outcome(("eval", "--resume", "b", "--retries", "0", "--out", str(runs)))
    assert others.read_text() == "without an end of line"


def test_a_damaged_report_is_mended_by_resuming_its_run(folder: Path, runs: Path) -> None:
    run = fresh(folder, runs)
    whole = RunFolder(run).read_report().statistics
    for name in ("report.json", "answers.jsonl"):
        (run / name).write_text("{")
    outcome(("eval", "--resume", "b", "--out", str(runs)))
    assert RunFolder(run).read_report().statistics == whole
