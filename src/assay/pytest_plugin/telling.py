"""How a fixture says what is missing or wrong."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from assay.errors import AssayError, DownloadError


@contextmanager
def told_in_words() -> Iterator[None]:
    """Missing data is a reason to skip; another mistake of the user's fails without a traceback."""
    try:
        yield
    except DownloadError as error:
        raise pytest.skip.Exception(str(error)) from None
    except AssayError as error:
        # Not by pytest.fail: what it was raised from would be shown, with a traceback.
        raise pytest.fail.Exception(str(error), pytrace=False) from None
