"""Listeners of runs: what they are told, and that none of them can harm a run."""

import json
import sys
import threading
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path
from types import ModuleType

import pytest
from click.testing import CliRunner

import assay
from assay import extras
from assay.cli.app import app
from assay.errors import UsageError
from assay.evaluation import listeners
from assay.evaluation.listeners import RunListeners
from assay.run.folder import RunFolder

EVALUATION = ["eval", "builtin:bm25", "--dataset", "notes", "--num-queries", "6"]

Told = list[tuple[str, str]]


class Recorder:
    told: Told = []  # noqa: RUF012  a new list for each test

    def on_start(self, folder: RunFolder) -> None:
        assert folder.read_header().config.target
        self.told.append(("start", folder.name))

    def on_finish(self, run: assay.Run) -> None:
        assert run.folder.page_file.is_file()
        self.told.append(("finish", run.state))

    def on_fail(self, folder: RunFolder) -> None:
        self.told.append(("fail", folder.name))


class Failing(Recorder):
    """Raises in what every listener has."""

    def on_start(self, folder: RunFolder) -> None:
        raise SystemExit("no tracking server at http://me:hidden-9@h/")

    def on_finish(self, run: assay.Run) -> None:
        raise ValueError


@pytest.fixture
def recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Told:
    """`recorder` is a registered listener, `mine:Failing` one of a module."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Recorder, "told", [])
    module = ModuleType("mine")
    module.Recorder, module.Failing = Recorder, Failing  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "mine", module)
    registered = EntryPoints([EntryPoint("recorder", "mine:Recorder", listeners.GROUP)])
    monkeypatch.setattr(extras, "entry_points", registered.select)
    return Recorder.told


def test_a_resumed_run_is_told_again_and_a_baseline_is_not(recorded: Told) -> None:
    first = [*EVALUATION, "--baseline", "builtin:bm25", "--listener", "mine:Recorder"]
    assert CliRunner().invoke(app, first).exit_code == 0
    resumed = CliRunner().invoke(app, ["eval", "--resume", "latest", "--listener", "recorder"])
    assert resumed.exit_code == 0, resumed.output
    assert [what for what, _ in recorded] == ["start", "finish"] * 2
    assert recorded[0] == recorded[2]


def test_a_listener_that_fails_is_told_and_changes_nothing(recorded: Told) -> None:
    both = ["--listener", "mine:Failing", "--listener", "recorder", "--json"]
    result = CliRunner().invoke(app, [*EVALUATION, *both])
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["state"] == "complete"
    start, finish = (line for line in result.stderr.splitlines() if "'mine:Failing'" in line)
    assert "failed in on_start: SystemExit: no tracking server" in start
    assert "failed in on_finish: ValueError; the run is not affected" in finish
    assert "hidden-9" not in result.stderr
    private = CliRunner().invoke(app, [*EVALUATION, "--private", "--listener", "mine:Failing"])
    assert "failed in on_start: SystemExit; the run is not affected" in private.stderr
    assert [what for what, _ in recorded] == ["start", "finish"]


def test_a_run_that_breaks_off_is_told(recorded: Told) -> None:
    def break_off() -> None:
        with RunListeners([Failing()], lambda _said: None) as told:
            told.started(RunFolder(Path("runs/x")))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        break_off()
    assert recorded == [("fail", "x")]


def test_a_listener_that_hangs_is_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listeners, "SECONDS", 0.05)
    forever, said = threading.Event(), list[str]()

    class Hanging(Recorder):
        def on_start(self, folder: RunFolder) -> None:
            forever.wait()

    with RunListeners([Hanging()], said.append) as told:
        told.started(RunFolder(Path("x")))
    forever.set()
    assert "listener 'Hanging' has not returned from on_start within 0.05 s" in said[0]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("recoder", "no listener 'recoder'"),
        ("nosuchmodule:X", "cannot import 'nosuchmodule'"),
        ("mine:Nothing", "has no 'Nothing'"),
        ("collections:OrderedDict", "has no method on_start"),
    ],
)
def test_a_wrong_listener_is_refused_at_once(recorded: Told, name: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        RunListeners([name], print)
    result = CliRunner().invoke(app, [*EVALUATION, "--listener", name])
    assert isinstance(result.exception, UsageError)
    assert not Path("runs").exists()
