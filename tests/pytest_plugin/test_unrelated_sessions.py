"""Projects that only happen to have Assay installed notice nothing of the plugin."""

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
