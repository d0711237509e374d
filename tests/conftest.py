"""What holds for every test."""

import contextlib
import functools
import gc
import itertools
import logging
import os
import sys
from collections.abc import AsyncIterator, Callable, Iterator

import httpx
import httpx._transports.default as httpx_transports
import pytest
from hypothesis import HealthCheck, settings
from tests import forked
from tests.tiny_dataset import tiny_dataset

from assay.data import Dataset

# Hundreds of tests start a process: without bytecode, each would compile the package again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# Runs of several workers record searches at once, each on a port of its own.
os.environ.setdefault("ASSAY_RECORDER", "http://127.0.0.1:0")

# Thousands of tests open clients of httpx: each would read the certificates again, for 20 ms.
httpx_transports.create_ssl_context = functools.cache(  # type: ignore[attr-defined]
    httpx_transports.create_ssl_context  # type: ignore[attr-defined]
)

forked.leave_the_disk_alone()

MakeDataset = Callable[[int], Dataset]

# The same examples in every run, and no time limits, which a busy machine would miss. `make fuzz`
# draws new ones, and many more of them.
_FUZZ_EXAMPLES = int(os.environ.get("ASSAY_FUZZ", "0"))
settings.register_profile("tests", deadline=None, derandomize=True, database=None)
settings.register_profile(
    "fuzz",
    deadline=None,
    max_examples=_FUZZ_EXAMPLES or 100,
    print_blob=True,
    suppress_health_check=list(HealthCheck),
)
settings.load_profile("fuzz" if _FUZZ_EXAMPLES else "tests")


def pytest_configure(config: pytest.Config) -> None:
    """One fork server for all the workers, which find it by a variable."""
    if getattr(config.option, "numprocesses", None) and not hasattr(config, "workerinput"):
        server = contextlib.ExitStack()
        os.environ[forked.SOCKET_VARIABLE] = server.enter_context(forked.serving())
        config.add_cleanup(server.close)


def pytest_collection() -> None:
    gc.disable()


def pytest_collection_finish() -> None:
    """Thousands of tests live to the end: the garbage collector need not look at them each time."""
    gc.freeze()
    gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Let each worker begin with slow tests, so that none is left alone with one at the end.

    `--dist=worksteal` gives each worker a share of consecutive tests. The slow tests of a file stay
    together, since they share servers and models.
    """
    workers = getattr(config, "workerinput", {}).get("workercount", 1)
    if workers == 1:
        return
    slow = [item for item in items if item.get_closest_marker("slow")]
    others = (item for item in items if not item.get_closest_marker("slow"))
    files = [list(tests) for _, tests in itertools.groupby(slow, key=lambda item: item.path)]
    left, shares = len(items), []
    for worker in range(workers):
        size = left // (workers - worker)
        first = list(itertools.chain.from_iterable(files[worker::workers]))
        shares += [*first, *itertools.islice(others, max(0, size - len(first)))]
        left -= size
    items[:] = [*shares, *others]


@pytest.fixture(autouse=True)
def no_known_secrets() -> Iterator[None]:
    """A word that was the token of one test is a word in the next."""
    yield
    if module := sys.modules.get("assay.net.redact"):
        module._known.clear()


@pytest.fixture(autouse=True)
def logging_as_it_was() -> Iterator[None]:
    """Servers set logging up for their whole process; in a test that must end with the test."""
    root = logging.getLogger()
    level, disabled = root.level, root.manager.disable
    known = [each for each in root.manager.loggerDict.values() if isinstance(each, logging.Logger)]
    before = [(each, each.level, each.propagate, each.disabled, each.filters[:]) for each in known]
    yield
    if root.level != level:
        root.setLevel(level)
    root.manager.disable = disabled
    for each, its_level, propagate, off, filters in before:
        if each.level != its_level:  # to set it makes every logger forget what it knows
            each.setLevel(its_level)
        each.propagate, each.disabled, each.filters[:] = propagate, off, filters


@pytest.fixture
async def http() -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(timeout=30, trust_env=False) as client:
        yield client


@pytest.fixture
def make_dataset() -> MakeDataset:
    return tiny_dataset
