"""What is there for coding agents: the skill, whose commands run, and the list of the docs."""

import re
from pathlib import Path

import pytest
import yaml
from tests import forked
from tests.docs.page_commands import run_page

ROOT = Path(__file__).parents[2]
SKILL = ROOT / "skills" / "assay" / "SKILL.md"
SEARCH = """
def find(query, top_k):
    words = query.lower().split()
    return sorted("abcdefgh", key=lambda letter: letter not in words)[:top_k]
"""
LOGGED = '{"question": "Which?", "contexts": ["It is blue."], "answer": "It is blue."}\n'


def test_the_skill_has_the_front_matter_that_agents_look_for() -> None:
    text = SKILL.read_text(encoding="utf-8")
    match = re.match(r"---\n(.*?)\n---\n", text, flags=re.DOTALL)
    assert match is not None
    front = yaml.safe_load(match[1])
    assert set(front) == {"name", "description"}
    assert front["name"] == SKILL.parent.name
    assert re.fullmatch(r"[a-z0-9-]{1,64}", front["name"])
    assert len(front["description"]) <= 1024
    assert "Use " in front["description"]
    assert len(text.splitlines()) < 500


def test_the_commands_of_the_skill_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "my_search.py").write_text(SEARCH)
    rows = "".join(f"where is {letter},{letter}\n" for letter in "abcdefgh")
    (tmp_path / "questions.csv").write_text(f"query,doc_ids\n{rows}")
    (tmp_path / "answers.jsonl").write_text(LOGGED)
    outputs = run_page(SKILL.read_text(encoding="utf-8"), tmp_path)
    assert len(outputs) == 9
    after = next(text for command, text in outputs.items() if "--label after" in command)
    assert "gate passed: ndcg@5>=before-0.02" in after


def test_the_list_of_the_docs_is_fresh_and_complete() -> None:
    done = forked.run("scripts.render_llms:main", "--check")
    assert done.returncode == 0, done.stderr + " run: .venv/bin/python scripts/render_llms.py"
    text = (ROOT / "docs" / "llms.txt").read_text(encoding="utf-8")
    assert text.startswith("# Assay\n\n> ")
    linked = set(re.findall(r"\]\(([^)]+)\)", text))
    pages = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    assert linked == pages
