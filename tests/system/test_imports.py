"""What a command does not need it does not import: starting up stays quick."""

import subprocess
import sys
from pathlib import Path

import pytest

_SCORE = "import assay; assay.score({'q': ['d']}, {'q': {'d': 1}}, ['ndcg@5'])"
_HELP = "from assay.cli.app import app\ntry: app(['--help'])\nexcept SystemExit: pass"
_RUN = (
    "import assay; assay.evaluate(lambda query, top_k: [], 'notes', num_queries=1, out='runs', "
    "listeners=())"
)

_NOT_IN_A_RUN = (
    *("answers", "evaluation.answers", "labels", "llm.answerer", "llm.providers"),
    *("search.embedding", "search.index", "search.retriever", "serve"),
    *("anthropic", "lightgbm", "mcp", "onnxruntime", "scipy", "starlette"),
)
_NOT_IN_HELP = (
    *("answers", "data", "evaluation", "labels", "report", "serve", "targets"),
    *("httpx", "lightgbm", "mcp", "numpy", "onnxruntime", "pydantic", "starlette"),
)


@pytest.mark.parametrize(
    ("code", "absent"),
    [
        (_SCORE, ("answers", "evaluation", "labels", "llm", "search", "serve", "targets")),
        (_HELP, _NOT_IN_HELP),
        (_RUN, _NOT_IN_A_RUN),
    ],
    ids=["score", "help", "run"],
)
def test_it_imports_nothing_of(code: str, absent: tuple[str, ...], tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", f"import sys\n{code}\nprint()\nprint(*sys.modules)"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    modules = [name.removeprefix("assay.") for name in done.stdout.splitlines()[-1].split()]
    assert [name for name in modules if f"{name}.".startswith(tuple(f"{a}." for a in absent))] == []
    assert "assay" in done.stdout
