"""The tutorials and the pages for users of other tools: every command that they show is run."""

import os
import sys
from pathlib import Path

import pytest
from tests.docs.page_commands import run_page, section

PAGES = {
    "search-service": section("search-service.md"),
    "rag-app": section("rag-app.md").partition("\n## ")[0],
    "promptfoo": section("rag-app.md", "Coming from promptfoo"),
    "leaderboard": section("leaderboard.md").partition("\n## ")[0],
    "mcp-server": section("mcp-server.md"),
    "ci": section("ci.md").partition("\n## ")[0],
    "labels": section("labels.md").partition("\n## ")[0],
    "ragas": section("logs.md", "Coming from ragas"),
    "trec_eval": section("data.md", "Coming from trec_eval"),
    "beir": section("data.md", "Coming from BEIR"),
}


@pytest.mark.parametrize("page", PAGES)
def test_the_commands_of_the_page_run(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [str(tmp_path), *sys.path])
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)
    outputs = run_page(PAGES[page], tmp_path)
    assert outputs
    measured = [text for command, text in outputs.items() if command.startswith("assay eval")]
    assert all("nDCG@" in text for text in measured)
    # A figure of 0 would mean that ids do not match: the page would teach how not to do it.
    assert not any("every score is 0" in text for text in measured)


def test_the_answering_agent_of_the_page_about_a2a_is_evaluated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = section("a2a.md")
    answers = text[text.index("With `--answers` it answers") : text.index("## Green")]
    ((command, shown),) = run_page(answers, tmp_path).items()
    assert command.startswith("assay eval a2a:")
    assert "citation" in shown
