"""The notebook of examples/ runs."""

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


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
