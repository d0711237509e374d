"""The docs as a site, which builds strictly, so that no link is broken; the notebook runs."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def build(root: Path, site: Path) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, str(root / "scripts" / "site.py"), str(site)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    done = build(ROOT, tmp_path / "site")
    assert done.returncode == 0, done.stdout + done.stderr
    home = (tmp_path / "site" / "index.html").read_text(encoding="utf-8")
    assert "Assay measures retrieval agents" in home
    assert 'href="search-service/"' in home
    assert list((tmp_path / "site/repository/benchmarks").rglob("index.html"))
    for page in (ROOT / "docs").rglob("*.md"):
        address = page.relative_to(ROOT / "docs").with_suffix("").as_posix()
        assert f'href="{address}/"' in home, page
    for link in re.findall(r"\]\(([^)]+)\)", (tmp_path / "site" / "llms.txt").read_text()):
        assert (tmp_path / "site" / link).is_file(), link
    assert "googleapis" not in home  # the site asks no other host for fonts


@pytest.mark.slow
def test_broken_links_fail(tmp_path: Path) -> None:
    for name in ("docs", "scripts", "benchmarks"):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / name, tmp_path / name, ignore=ignored)
    for path in (*ROOT.glob("*.md"), ROOT / "mkdocs.yml"):
        shutil.copy(path, tmp_path)
    page = tmp_path / "docs" / "start.md"
    broken = ("nosuch.md", "../alike.md", "data.md#missing")
    links = "".join(f"[x]({each})\n" for each in broken)
    page.write_text(page.read_text(encoding="utf-8") + f"\n{links}", encoding="utf-8")
    done = build(tmp_path, tmp_path / "site")
    assert done.returncode == 1
    for each in broken:
        assert re.search(rf"start\.md.*{re.escape(each)}", done.stderr), (each, done.stderr)


@pytest.mark.slow
def test_the_notebook_runs_without_a_browser(tmp_path: Path) -> None:
    import nbclient
    import nbformat

    notebook = nbformat.reads(  # type: ignore[no-untyped-call]
        (ROOT / "examples" / "quickstart.ipynb").read_text(encoding="utf-8"), as_version=4
    )
    assert not any(cell.get("outputs") for cell in notebook.cells), "commit it without outputs"
    client = nbclient.NotebookClient(
        notebook, timeout=100, resources={"metadata": {"path": str(tmp_path)}}
    )
    client.execute()
    outputs = [cell.outputs for cell in notebook.cells if cell.cell_type == "code"]
    shown = outputs[2][-1]["data"]
    assert "nDCG@5" in shown["text/html"]
    assert shown["text/plain"].startswith("<Run ")
    assert outputs[-1][-1]["data"]["text/plain"] == "True"
