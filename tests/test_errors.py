"""Every class of error has an id of its own, which tests and scripts can rely on."""

import pytest

from assay import errors
from assay.errors import AssayError, DataError, TargetLoading, UsageError
from assay.extras import MissingExtra
from assay.files import UnreadableFile


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        (UsageError, "usage"),
        (DataError, "data"),
        (TargetLoading, "target-loading"),
        (MissingExtra, "missing-extra"),
        (UnreadableFile, "unreadable-file"),
    ],
)
def test_the_id_of_an_error_follows_from_its_class(kind: type[AssayError], code: str) -> None:
    assert kind.code == code


def test_no_two_errors_have_one_id() -> None:
    kinds = [each for each in vars(errors).values() if isinstance(each, type)]
    codes = [kind.code for kind in kinds if issubclass(kind, AssayError)]
    assert len(codes) == len(set(codes)) > 8
