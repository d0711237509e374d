"""The pytest plugin: evaluations of retrieval and answers as tests of any project.

It is installed with Assay and does nothing until a test uses one of its fixtures or has the marker
`rag`. So nothing heavy is imported here, or by the modules that it names.
"""

import pytest

from assay.pytest_plugin.session import add_options, case_parameters

pytest_plugins = [
    "assay.pytest_plugin.fixtures",
    "assay.pytest_plugin.report",
]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options that begin with `--assay-`."""
    add_options(parser)


def pytest_configure(config: pytest.Config) -> None:
    """Register the markers."""
    config.addinivalue_line(
        "markers", "rag: evaluates retrieval or answers; reported together at the end (Assay)"
    )
    config.addinivalue_line(
        "markers", "rag_unanswerable: rag_case is a question that no document answers (Assay)"
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One case for each query, so that a failure hides no other."""
    if "rag_case" in metafunc.fixturenames:
        unanswerable = metafunc.definition.get_closest_marker("rag_unanswerable") is not None
        parameters = case_parameters(metafunc.config, unanswerable=unanswerable)
        metafunc.parametrize("rag_case", parameters, indirect=True)
