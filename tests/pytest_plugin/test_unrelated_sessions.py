"""Projects that only happen to have Assay installed notice nothing of the plugin."""

import subprocess
import sys
from pathlib import Path

import pytest
from tests.pytest_plugin.conftest import INI

pytest_plugins = ["pytester"]

HEAVY = ("numpy", "mcp", "httpx", "pydantic", "orjson", "starlette", "Stemmer", "rich")


def test_an_unrelated_session_notices_nothing(pytester: pytest.Pytester) -> None:
    pytester.makeini(INI)
    pytester.makepyfile(
        f"""
        import sys

        def test_it(pytestconfig):
            assert pytestconfig.pluginmanager.has_plugin("agent-assay")
            assert not [name for name in {HEAVY!r} if name in sys.modules]
        """
    )
    result = pytester.runpytest_subprocess("-p", "no:asyncio", "-p", "no:schemathesis")
    result.assert_outcomes(passed=1)
    assert "evaluation of retrieval" not in result.stdout.str()
    assert not list(pytester.path.rglob("rag-report.json"))


def test_the_help_of_pytest_names_the_options_and_loads_nothing_heavy(tmp_path: Path) -> None:
    code = (
        "import sys, pytest; pytest.main(['-p', 'no:schemathesis', '--help']); print(*sys.modules)"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path)
    loaded = done.stdout.split()
    assert "--assay-target=TARGET" in loaded
    assert not set(HEAVY) & set(loaded)
