"""What the pages list is what there is, and what is made from the code is fresh."""

import re
from pathlib import Path

import pytest
import yaml
from tests import forked

import assay
from assay.answers.answer_metrics import ANSWER_METRICS
from assay.answers.checks import check_lists
from assay.answers.outcome import Outcome
from assay.answers.poison_documents import PoisonKind, PoisonOutcome
from assay.cli.init import render_ci
from assay.data.beir import sort_files
from assay.data.question_table import COLUMNS
from assay.labels.questions import Rejection
from assay.metrics.figures import OUTCOME_METRICS, POISON_METRICS
from assay.metrics.metric import _DEFINITIONS
from assay.targets.target_kinds import TARGET_KINDS

ROOT = Path(__file__).parents[2]


def read(page: str) -> str:
    return (ROOT / "docs" / page).read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["api", "help", "llms", "settings"])
def test_what_is_made_from_the_code_is_fresh(name: str) -> None:
    done = forked.run(f"scripts.render_{name}:main", "--check")
    assert done.returncode == 0, done.stderr + " run: make docs"


def test_pages_are_few_and_short() -> None:
    generated = {"cli.md", "python-reference.md"}
    pages = [page for page in (ROOT / "docs").rglob("*.md") if page.name not in generated]
    words = {page.name: len(page.read_text(encoding="utf-8").split()) for page in pages}
    assert len(pages) <= 24
    assert sum(words.values()) <= 30_000
    for name, most in (("README.md", 800), ("CONTRIBUTING.md", 1500)):
        assert len((ROOT / name).read_text(encoding="utf-8").split()) <= most


CHECKS = {check.id for checks in check_lists() for check in checks}
FIGURES = (*ANSWER_METRICS, *OUTCOME_METRICS, *POISON_METRICS)
OUTCOMES = (*Outcome, *PoisonKind, *PoisonOutcome)


@pytest.mark.parametrize(
    ("page", "names"),
    [
        ("metrics.md", set(_DEFINITIONS)),
        ("targets.md", {f"{name}:" for name in TARGET_KINDS if name != "url"}),
        ("data.md", {f"{name}`" for key, others in COLUMNS.items() for name in (key, *others)}),
        ("answers.md", {f"{name}`" for name in (*CHECKS, *FIGURES, *OUTCOMES)}),
        ("python-reference.md", {f"{name}: " for name in ("top_k`", "baseline`", "out`")}),
    ],
)
def test_every_name_is_on_its_page(page: str, names: set[str]) -> None:
    text = read(page)
    assert {name for name in names if f"`{name}" not in text} == set()


def test_every_layout_of_a_folder_is_recognized() -> None:
    rows = re.findall(r"^\| (`[^|]*corpus[^|]*\|[^|]*\|[^|]*)\|$", read("data.md"), re.MULTILINE)
    assert len(rows) == 3
    for row in rows:
        for role, cell in zip(("corpus", "queries", "qrels"), row.split("|"), strict=True):
            for path in re.findall(r"`([\w./*-]+\.(?:jsonl|parquet|tsv)(?:\.gz)?)`", cell):
                name = path.replace("*", "00000-of-00001")
                files = sort_files([name, "queries.csv"], "docs")
                found = [each for each, paths in files.items() if name in paths]
                assert [each.partition("/")[0] for each in found] == [role], path


def test_every_reason_to_drop_a_question_has_its_row() -> None:
    table = read("labels.md").partition("| rejected when |")[2].partition("\n\n")[0]
    # One row has both what is not JSON and what is refused.
    assert len(table.splitlines()) - 2 == len(Rejection) - 1


def test_the_ci_job_is_the_one_that_init_writes() -> None:
    install = "pip install agent-assay -r requirements.txt"
    job = render_ci(branch="main", python="3.12", install=install)
    assert f"```yaml\n{job}```" in read("ci.md")


def test_the_reference_has_every_public_name() -> None:
    headings = set(re.findall(r"^## (\w+)$", read("python-reference.md"), re.MULTILINE))
    assert set(assay.__all__) - headings == {"__version__"}


def test_the_skill_has_the_front_matter_that_agents_look_for() -> None:
    skill = ROOT / "skills" / "assay" / "SKILL.md"
    front = yaml.safe_load(skill.read_text(encoding="utf-8").split("---\n")[1])
    assert set(front) == {"name", "description"}
    assert front["name"] == skill.parent.name
    assert len(front["description"]) <= 1024
