"""Every case is told, and the report is written whatever becomes of the session."""

import json
import shutil
import signal
import socket
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.pytest_plugin.conftest import Run

pytest_plugins = ["pytester"]


def read_report(pytester: pytest.Pytester) -> dict[str, Any]:
    report: dict[str, Any] = json.loads((pytester.path / "report.json").read_text())
    return report


def outcomes(report: dict[str, Any]) -> list[str]:
    return [case["outcome"] for case in report["cases"]]


# The draw of five from the bundled notes.
IDS = ["q-095", "q-017", "q-005", "q-110", "q-043"]


def test_a_case_that_fails_hides_no_other(run: Run, pytester: pytest.Pytester) -> None:
    result = run(
        """
        import pytest

        def test_it(rag_case, rag_record):
            rag_record(recall=0.25 if rag_case.query_id == "q-017" else 1, judge="none")
            assert rag_case.query_id != "q-017", "this one is bad"

        def test_other():
            pass

        @pytest.fixture
        def broken():
            raise RuntimeError("out of order")

        @pytest.mark.rag
        def test_broken(broken): pass

        @pytest.mark.rag
        @pytest.mark.skip(reason="not today")
        def test_skipped(): pass
        """,
        "--assay-report=report.json",
    )
    result.assert_outcomes(passed=5, failed=1, errors=1, skipped=1)
    report = read_report(pytester)
    *cases, broken, skipped = report["cases"]
    assert [case["query_id"] for case in cases] == IDS
    assert outcomes(report) == ["passed", "failed", *["passed"] * 3, "error", "skipped"]
    assert cases[1]["figures"] == {"recall": 0.25, "judge": "none"}
    assert "this one is bad" in cases[1]["reason"]
    assert "out of order" in broken["reason"]
    assert skipped["reason"] == "not today"
    assert report["means"][cases[0]["test"].split("[")[0]] == {"recall": 0.85}
    assert report["complete"]
    assert (report["target"], report["dataset"]) == ("builtin:bm25", "notes")
    result.stdout.re_match_lines([r"builtin:bm25 on notes: 7 cases: 4 passed, 1 failed"])
    result.stdout.re_match_lines([r"\s+q-017\s+failed\s+0.2500\s+none", r"\s+mean\s+0.8500"])


@pytest.mark.parametrize("end", ["raise KeyboardInterrupt", "pytest.exit('enough')", "assert 0"])
def test_a_session_that_ends_early(run: Run, pytester: pytest.Pytester, end: str) -> None:
    result = run(
        f"""
        import pytest

        def test_it(rag_case, rag_record):
            rag_record(recall=0.5)
            if rag_case.query_id == "q-005":
                {end}
        """,
        "--assay-report=report.json",
        "-x",
    )
    assert result.ret != 0
    report = read_report(pytester)
    assert outcomes(report)[:2] == ["passed", "passed"]
    assert outcomes(report)[-2:] == ["not run", "not run"]
    assert [case["query_id"] for case in report["cases"]] == IDS
    assert not report["complete"]
    assert report["exit_status"] == result.ret
    result.stdout.fnmatch_lines(["*evaluation of retrieval and answers*", "report: *report.json"])


def test_an_interrupt_does_not_wait_for_a_silent_target(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_it(rag_case, mcp_sampling_client): pass")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        target = f"--assay-target=mcp:http://127.0.0.1:{silent.getsockname()[1]}"
        options = [target, "--assay-dataset=notes", "--assay-report=report.json"]
        command = [sys.executable, "-m", "pytest", "-p", "no:asyncio", *options]
        with subprocess.Popen(
            command,
            cwd=pytester.path,
            stdout=subprocess.DEVNULL,
            # A shell starts what it puts into the background with SIGINT ignored.
            preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
        ) as session:
            connection, _ = silent.accept()
            with connection:
                session.send_signal(signal.SIGINT)
                # The handshake itself is given up after 60 s.
                assert session.wait(40) == pytest.ExitCode.INTERRUPTED
    report = read_report(pytester)
    assert outcomes(report) == ["not run"] * 5
    assert not report["complete"]


@pytest.mark.parametrize("fixture", ["rag_agent", "mcp_sampling_client"])
@pytest.mark.parametrize("scheme", ["mcp", "http"])
def test_passwords_are_hidden(
    run: Run, pytester: pytest.Pytester, fixture: str, scheme: str
) -> None:
    target = f"--assay-target={scheme}:http://ada:very-secret@127.0.0.1:9/path"
    test = f"def test_it(rag_case, {fixture}): pass"
    result = run(test, target, "--assay-report=report.json", "--tb=long")
    written = (pytester.path / "report.json").read_text()
    assert "very-secret" not in written + result.stdout.str() + result.stderr.str()
    assert f"{scheme}:http://***@127.0.0.1:9/path" in written


def test_a_report_without_a_cache_folder(run: Run, pytester: pytest.Pytester) -> None:
    result = run("def test_it(rag_case): pass", "-p", "no:cacheprovider")
    (line,) = [each for each in result.outlines if each.startswith("report: ")]
    report = Path(line.removeprefix("report: "))
    assert json.loads(report.read_text())["complete"]
    assert not list(pytester.path.rglob("rag-report.json"))
    shutil.rmtree(report.parent)


def test_a_report_that_cannot_be_written_is_no_success(run: Run, pytester: pytest.Pytester) -> None:
    pytester.makefile(".txt", in_the_way="")
    result = run("def test_it(rag_case): pass", "--assay-report=in_the_way.txt/report.json")
    assert result.ret == 1
    result.stdout.fnmatch_lines(["NO REPORT WAS WRITTEN: *in_the_way.txt*"])


def test_the_marker_selects_the_cases_and_all_queries_are_an_option(run: Run) -> None:
    source = "def test_it(rag_case): pass\ndef test_other(): pass"
    run(source, "-m", "rag").assert_outcomes(passed=5, deselected=1)
    run(source, "-m", "rag", "--assay-all-queries").assert_outcomes(passed=104, deselected=1)


def test_whatever_is_recorded_there_is_a_report(run: Run, pytester: pytest.Pytester) -> None:
    result = run(
        r"""
        ODD = {"q-095": 10**400, "q-017": b"1", "q-005": object(), "q-110": [1]}

        def test_refused(rag_case, rag_record):
            rag_record(odd=ODD.get(rag_case.query_id, 1))

        LABELS = {"q-095": float("nan"), "q-017": "a\nb \x1b[31m", "q-005": "\ud800" * 999}

        def test_kept(rag_case, rag_record):
            rag_record(odd=LABELS.get(rag_case.query_id, 2), right=1)
            assert rag_case.query_id != "q-110", "\ud800 \x1b[31m"
        """,
        "--assay-report=report.json",
    )
    result.assert_outcomes(passed=5, failed=5)
    report = read_report(pytester)
    kept = [case["figures"]["odd"] for case in report["cases"][5:]]
    assert kept == ["nan", "a\nb  [31m", "?" * 200, 2, 2]
    refused, kept = report["means"].values()
    assert (refused, kept) == ({"odd": 1.0}, {"right": 1.0})  # no mean over what is no number
    assert not any("\x1b[31m" in line for line in result.outlines if line.startswith("  q-"))
