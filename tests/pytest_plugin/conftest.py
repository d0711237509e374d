"""Sub-sessions of pytest in projects of their own, in a clean environment, without a network."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from tests import forked

Run = Callable[..., pytest.RunResult]

INI = """
[pytest]
addopts = --strict-markers --strict-config
filterwarnings = error
"""


@pytest.fixture(autouse=True)
def surroundings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    ours = ("ASSAY_", "NEXTCLOUD_", "NFCORPUS_", "RAG_EVAL_", "PYTEST_ADDOPTS")
    for name in [name for name in os.environ if name.startswith(ours)]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("ASSAY_BEIR_URL", "http://127.0.0.1:9")  # where nobody listens
    monkeypatch.setenv("ASSAY_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def run(pytester: pytest.Pytester) -> Run:
    """A session of its own over the bundled notes and BM25, without other plugins: a project need
    not have them, and importing them takes longer than the tests.
    """
    pytester.makeini(INI)

    def session(source: str, *options: str) -> pytest.RunResult:
        pytester.makepyfile(source)
        chosen = ("--assay-dataset=notes", "--assay-target=builtin:bm25")
        env = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
        arguments = ("-rs", "-p", "assay.pytest_plugin", *chosen, *options)
        done = forked.run(forked.PYTEST, *arguments, cwd=pytester.path, env=env)
        out, err = done.stdout.splitlines(), done.stderr.splitlines()
        return pytest.RunResult(done.returncode, out, err, 0.0)

    return session
