"""The pages about the Python API: generated where they can be, and run where they show code."""

import re
from pathlib import Path
from typing import Any

import pytest
from tests import forked

import assay
from assay.metrics.scoring import Scores

ROOT = Path(__file__).parents[2]


def test_the_reference_is_fresh() -> None:
    done = forked.run("scripts.render_api:main", "--check")
    assert done.returncode == 0, done.stderr + " run: .venv/bin/python scripts/render_api.py"


def test_every_public_name_has_a_docstring_with_its_parameters() -> None:
    page = (ROOT / "docs" / "python-reference.md").read_text(encoding="utf-8")
    for name in assay.__all__:
        if name == "__version__":
            continue
        assert f"\n## {name}\n" in page
        assert getattr(assay, name).__doc__, name
    for parameter in ("top_k", "baseline", "judge_set", "out"):
        assert f"- `{parameter}`: " in page


def test_the_code_of_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    page = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)
    assert len(blocks) == 8
    names: dict[str, object] = {"__name__": "__main__"}
    for block in blocks:
        exec(block, names)
    assert names["measured"].metrics["recall@5"] == 1.0  # type: ignore[attr-defined]
    assert names["mine"].queries_in("test")[1].text == "Wie heiß?"  # type: ignore[attr-defined]
    run = names["run"]
    assert isinstance(run, assay.Run)
    assert run.comparison is not None
    assert f"run  # {run!r}, a table in a notebook" in page
    bm25 = assay.load_run(str(run.comparison.run))
    difference = run.metrics["ndcg@10"] - bm25.metrics["ndcg@10"]
    for compared in (run.compare(bm25), assay.compare_runs(bm25, run), run.comparison):
        assert compared.metrics["ndcg@10"].difference == pytest.approx(difference)
    assert len(names["frame"]) == run.report.summary.total_queries  # type: ignore[arg-type]
    answers = names["answered"].report.answers  # type: ignore[attr-defined]
    assert f'metrics["correctness"]  # {answers.metrics["correctness"]:.4f};' in page
    result = names["result"]
    assert isinstance(result, Scores)
    assert f'result["ndcg@10"]  # the mean, {result["ndcg@10"]:.4f};' in page
    for shown in (dict(result.means), result.by_query("ndcg@10"), result.rows()):
        assert f"  # {shown}\n".replace("'", '"') in page


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
