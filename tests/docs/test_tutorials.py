"""The tutorials and the pages for users of other tools: every command that they show is run."""

import sys
from pathlib import Path

import pytest
from tests.docs.page_commands import run_page

DOCS = Path(__file__).parents[2] / "docs"
PAGES = sorted([*(DOCS / "tutorials").glob("*.md"), *(DOCS / "from").glob("*.md")])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_commands_of_the_page_run(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [str(tmp_path), *sys.path])
    outputs = run_page(page, tmp_path)
    assert outputs
    measured = [text for command, text in outputs.items() if command.startswith("assay eval")]
    assert all("nDCG@" in text for text in measured)
    # A figure of 0 would mean that ids do not match: the page would teach how not to do it.
    assert not any("every score is 0" in text for text in measured)


def test_the_answering_agent_of_the_page_about_a2a_is_evaluated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = (DOCS / "a2a.md").read_text(encoding="utf-8")
    section = tmp_path / "section.md"
    section.write_text(text[text.index("With `--answers` it answers") : text.index("## Green")])
    ((command, shown),) = run_page(section, tmp_path).items()
    assert command.startswith("assay eval a2a:")
    assert "citation" in shown


def test_there_is_a_page_for_every_job_and_peer() -> None:
    jobs = {"search-service", "rag-app", "leaderboard", "ci-gate", "grading"}
    assert {page.stem for page in PAGES} == jobs | {"ragas", "promptfoo", "trec_eval", "beir"}
