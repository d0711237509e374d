"""How a fixture says what is missing or wrong."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from assay.errors import AssayError, DownloadError

_CREDENTIALS = re.compile(r"(?<=://)[^\s/?#]*@")


@contextmanager
def told_in_words() -> Iterator[None]:
    """Missing data is a reason to skip; another mistake of the user's fails without a traceback."""
    try:
        yield
    except DownloadError as error:
        raise pytest.skip.Exception(missing_data(error)) from None
    except AssayError as error:
        # Not by pytest.fail: what it was raised from would be shown, with a traceback.
        raise pytest.fail.Exception(without_passwords(str(error)), pytrace=False) from None


def missing_data(error: DownloadError) -> str:
    """With the options of pytest in the place of those of the command line."""
    words = str(error).replace("or pass --archive FILE, ", "")
    return without_passwords(words.replace("--dataset ", "--assay-dataset "))


def without_passwords(text: str) -> str:
    """An address may hold a name and a password, and reports are passed on."""
    return _CREDENTIALS.sub("***@", text)
