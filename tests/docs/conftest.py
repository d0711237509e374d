"""Pages write modules into the test's folder and import them: no test sees those of another."""

import sys
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def no_modules_of_other_tests(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Remove modules that lie in folders of tests, before and after."""
    root = str(tmp_path_factory.getbasetemp().parent)

    def remove() -> None:
        for name, module in list(sys.modules.items()):
            if str(getattr(module, "__file__", "") or "").startswith(root):
                del sys.modules[name]

    remove()
    yield
    remove()
