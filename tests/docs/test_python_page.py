"""The pages about the Python API: generated where they can be, and run where they show code."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import assay

ROOT = Path(__file__).parents[2]


def test_the_reference_is_fresh() -> None:
    script = ROOT / "scripts" / "render_api.py"
    done = subprocess.run([sys.executable, script, "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr + " run: .venv/bin/python scripts/render_api.py"


def test_every_public_name_has_a_docstring_with_its_parameters() -> None:
    page = (ROOT / "docs" / "python-reference.md").read_text(encoding="utf-8")
    for name in assay.__all__:
        if name == "__version__":
            continue
        assert f"\n## {name}\n" in page
        assert getattr(assay, name).__doc__, name
    for parameter in ("top_k", "baseline", "judge_votes", "out"):
        assert f"- `{parameter}`: " in page


def test_the_code_of_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    page = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)
    assert len(blocks) == 6
    names: dict[str, object] = {"__name__": "__main__"}
    for block in blocks:
        exec(block, names)
    assert names["measured"].metrics["recall@5"] == 1.0  # type: ignore[attr-defined]
    assert names["mine"].queries_in("test")[1].text == "Wie heiß?"  # type: ignore[attr-defined]
    run = names["run"]
    assert isinstance(run, assay.Run)
    assert run.comparison is not None
    assert f"run  # {run!r}, a table in a notebook" in page
    assert len(names["frame"]) == run.report.summary.total_queries  # type: ignore[arg-type]


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
