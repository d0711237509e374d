"""Which run `latest` is, what is refused, and where settings of gates may stand."""

import json
import signal
from pathlib import Path

from tests.cli.conftest import RunAssay, started, wait_for_calls

RIGHT = ("eval", "python:target:right", "--dataset", "tiny")


def test_latest_after_a_baseline_is_the_run_of_the_target(run_assay: RunAssay) -> None:
    done = run_assay(*RIGHT, "--baseline", "builtin:bm25", "--json")
    main = json.loads(done.stdout)
    shown = json.loads(run_assay("report", "latest", "--json").stdout)
    assert shown["target"]["name"] == "python:target:right"
    assert shown["comparison"] == main["comparison"]
    again = json.loads(run_assay("compare", main["comparison"]["run"], "--json").stdout)
    assert (again["a"], again["b"]) == ("builtin:bm25", "python:target:right")


def test_what_a_run_does_not_have_is_refused(run_assay: RunAssay, folder: Path) -> None:
    run_assay(*RIGHT)
    done = run_assay("report", "latest", "--query", "q1")
    assert (done.returncode, "has rankings only; add --answers" in done.stderr) == (2, True)
    (run,) = (folder / "runs").iterdir()
    done = run_assay("compare", str(run), run.name[:20])
    assert (done.returncode, "would be compared with itself" in done.stderr) == (2, True)


def test_an_interrupted_baseline_keeps_the_run(folder: Path, run_assay: RunAssay) -> None:
    arguments = (*RIGHT, "--baseline", "python:target:slow", "--concurrency", "2")
    with started(folder, *arguments, PAUSE="0.3") as process:
        wait_for_calls(folder, 3, "*-slow-*")
        process.send_signal(signal.SIGINT)
        output = process.stdout.read()
        code = process.wait(timeout=60)
    notes = (folder / "stderr").read_text()
    assert code == 130, notes
    assert "the baseline was interrupted; compare with: assay eval --resume" in notes
    assert "40 of 40 answered" in output
    assert "python:target:right on tiny" in run_assay("report", "latest").stdout


HARM = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202edesrever"


def test_no_text_of_others_commands_the_terminal(run_assay: RunAssay, folder: Path) -> None:
    (folder / "target.py").write_text(f"def harmful(query, top_k): raise ValueError({HARM!r})\n")
    evil = folder / f"tiny {HARM}"
    (folder / "tiny").rename(evil)
    for arguments in (
        ("eval", "python:target:harmful", "--dataset", evil.name),
        ("report",),
        ("report", "--json"),
        ("data", "info", evil.name),
        ("doctor", "python:target:harmful"),
    ):
        done = run_assay(*arguments)
        written = done.stdout + done.stderr
        assert "desrever" in written
        assert not set(written) & set("\x1b\x07\x9b\u202e"), arguments
