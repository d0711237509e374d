"""The notebook, and the explanation on the page about search."""

import re
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]


def test_the_explanation_of_the_search_page_is_what_the_command_says(
    capsys: pytest.CaptureFixture[str],
) -> None:
    page = (ROOT / "docs" / "search.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)
    names: dict[str, Any] = {}
    exec(block, names)
    shares = " + ".join(f"{name} {share:.4f}" for name, share in names["why"].shares.items())
    assert f"1. {names['hit'].doc_id}: {names['hit'].score:.4f} = {shares}\n" in page
    assert capsys.readouterr().out.startswith(names["hit"].doc_id)


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
