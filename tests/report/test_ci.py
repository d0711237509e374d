"""What a run leaves for continuous integration: JUnit XML, Markdown, verdicts."""

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner
from tests.conftest import MakeDataset

from assay import Run, evaluate
from assay.cli.app import app
from assay.report.ci import render_junit, render_junit_error, render_markdown
from assay.run.models import GitRecord

GATES = ("ndcg@5>=0.1", "ndcg@5>=0.9")


def some(query: str, top_k: int) -> list[str]:
    number = int(query.split()[1])
    return [f"d{number}"] if number % 2 else []


@pytest.fixture
def run(make_dataset: MakeDataset, tmp_path: Path) -> Run:
    return evaluate(some, make_dataset(20), gates=GATES, label="a|b", out=tmp_path)


def test_every_gate_is_a_test_case(run: Run) -> None:
    suite = ElementTree.fromstring(render_junit(run.report, run.name))[0]
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("3", "1", "0")
    cases = {case.get("name"): case.find("failure") for case in suite.iter("testcase")}
    assert list(cases) == ["run", *GATES]
    failure = cases[GATES[1]]
    assert failure is not None
    assert str(failure.get("message")).startswith("gate failed: ndcg@5>=0.9, got 0.")
    assert cases[GATES[0]] is None


def test_a_failed_run_is_an_error_without_gates(make_dataset: MakeDataset, tmp_path: Path) -> None:
    def broken(query: str, top_k: int) -> list[str]:
        raise ValueError("on purpose \x00")

    gates = ("ndcg@5<=0.5", "success_rate<=1")
    run = evaluate(broken, make_dataset(5), gates=gates, out=tmp_path)
    assert [gate.passed for gate in run.report.gates] == [False, False]
    assert {gate.reason for gate in run.report.gates} == {"no query was answered"}
    suite = ElementTree.fromstring(render_junit(run.report, run.name))[0]
    assert (suite.get("failures"), suite.get("errors")) == ("2", "1")
    page = render_markdown(run.report, run.folder.read_header(), run.name)
    assert "**no query was answered**" in page


def test_the_markdown_has_gates_scores_and_origin_and_keeps_its_tables(run: Run) -> None:
    page = render_markdown(run.report, run.folder.read_header(), run.name)
    lines = page.splitlines()
    assert lines[0].startswith("### ")
    assert r"| ndcg@5\>=0.9 | **FAILED** |" in page
    assert r"label a\|b" in page
    for line in lines:
        if line.startswith("| ndcg"):
            assert line.replace(r"\|", "").count("|") == 5


HOSTILE = "<b>[x](javascript:1)`|\n# \x1b[31m\u202e\x00" + "y" * 100


def test_what_somebody_else_wrote_into_a_run_is_no_markup(run: Run) -> None:
    git = GitRecord(commit=HOSTILE, branch=HOSTILE)
    hostile = {"label": HOSTILE, "git": git, "versions": {"agent-assay": HOSTILE}}
    header = run.folder.read_header().model_copy(update=hostile)
    report = run.report.model_copy(update={"started": HOSTILE})
    *_, origin = render_markdown(report, header, HOSTILE).splitlines()
    assert origin.startswith("Run `<b>[x](javascript:1)'|")
    bare = re.sub(r"\\.|^Run `[^`]*`", "", origin)
    assert bare.startswith(", label ")
    assert not re.search(r"[<>`\[\x1b\u202e\x00]", bare)
    assert ElementTree.fromstring(render_junit(report, HOSTILE))[0].get("timestamp")


def test_the_markdown_of_a_baseline_compares(make_dataset: MakeDataset, tmp_path: Path) -> None:
    run = evaluate(some, make_dataset(20), baseline=lambda q, k: [], out=tmp_path)
    page = render_markdown(run.report, run.folder.read_header(), run.name)
    assert "| difference | 95% interval | p (Holm) |" in page
    assert "some is significantly better in nDCG@5 (+0.3801)" in page
    assert "\\\\" not in page  # escaped once


def test_what_xml_cannot_hold_is_replaced() -> None:
    root = ElementTree.fromstring(render_junit_error("a2a:http://x/?a&b", "bad \x1b[31m <tag>"))
    error = root.find("testsuite/testcase/error")
    assert error is not None
    assert error.get("message") == "bad ?[31m <tag>"


def test_a_target_that_cannot_be_reached_is_an_error_in_the_files_for_ci(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    target = "a2a:http://127.0.0.1:9/"
    options = ("--dataset", "notes", "--warm-up", "0", "--retries", "0")
    files = ("--junit", "junit.xml", "--markdown", "summary.md")
    Path("summary.md").write_text("nDCG@5 0.9, of an earlier run")
    done = CliRunner().invoke(app, ["eval", target, *options, *files])
    assert done.exit_code != 0
    assert ElementTree.parse("junit.xml").getroot()[0].get("errors") == "1"
    summary = Path("summary.md").read_text()
    assert summary.startswith("### a2a:http://127.0.0.1:9/\n\n**Not measured: ")
    assert "0.9" not in summary
