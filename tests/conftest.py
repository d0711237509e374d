"""What holds for every test."""

import logging
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def logging_as_it_was() -> Iterator[None]:
    """Servers set logging up for their whole process; in a test that must end with the test."""
    root = logging.getLogger()
    level, disabled = root.level, root.manager.disable
    known = [each for each in root.manager.loggerDict.values() if isinstance(each, logging.Logger)]
    before = [(each, each.level, each.propagate, each.disabled, each.filters[:]) for each in known]
    yield
    root.setLevel(level)
    root.manager.disable = disabled
    for each, its_level, propagate, off, filters in before:
        each.setLevel(its_level)
        each.propagate, each.disabled, each.filters[:] = propagate, off, filters
